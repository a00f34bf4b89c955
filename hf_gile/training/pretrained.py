"""Supports training with a pretrained encoder: precomputed outputs, and a learning rate of the encoder.

Shapes: N documents, S windows of a document, P size of the hidden states of the pretrained encoder.
"""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..models import GileModel, GileProcessor, Scorer, get_towers
from ..models.registration import evaluating
from ..models.stored_labels_gile import hash_bits
from .encoding import Progress, batches_by_length, without_bars

if TYPE_CHECKING:
    from datasets import Dataset

_SORT_SIZE = 4096
"""Number of documents sorted by length together."""


def add_pooled_embeds(
    dataset: "Dataset", model: Scorer, processor: GileProcessor, batch_size: int = 64, bf16: bool = False
) -> "Dataset":
    """Precomputes the outputs of a frozen pretrained encoder for each document.

    The column `pooled_embeds` takes 4 P bytes per document (and window) on disk. A `GileDataCollator` passes it to the
    model, which uses it instead of the tokens. For datasets from files, `datasets` caches it by encoder and documents,
    whatever their labels.

    Args:
        dataset: Result of `encode_dataset`, with `input_ids`; a stream is encoded in every epoch.
        model: The model, with `config.text_config.freeze_text_encoder`.
        processor: The processor of the model.
        batch_size: Number of documents encoded together, sorted by length.
        bf16: Whether to run the encoder in bfloat16 (autocast).

    Returns:
        The dataset with the column `pooled_embeds`, `(P,)` or `(S, P)` per document.

    Raises:
        ValueError: If the encoder or its pooling is trained, so that outputs would become outdated; or the dataset has
            no `input_ids`.
    """
    gile = get_towers(model)
    config = gile.config.text_config
    if not (config.reads_pretrained and config.has_fixed_pooling):
        raise ValueError(
            "pooled_embeds need a frozen encoder, config.freeze_text_encoder=True, and a "
            f"pooling without weights ('mean', 'cls', 'sum'); got text_encoder_type {config.text_encoder_type!r}, "
            f"freeze_text_encoder={config.freeze_text_encoder}, pooling {config.pooling!r}"
        )
    if "input_ids" not in dataset.column_names:
        raise ValueError(f"the dataset has no input_ids, only {', '.join(dataset.column_names)}: use encode_dataset")

    def pool(columns: dict[str, list[Any]], count: Callable[[int], None] | None = None) -> dict[str, list[Any]]:
        documents = columns["input_ids"]
        lengths = [sum(map(len, ids)) if ids and isinstance(ids[0], list) else len(ids) for ids in documents]
        pooled: list[Any] = [None] * len(documents)
        autocast = torch.autocast(gile.device.type, torch.bfloat16, enabled=bf16)
        with evaluating(gile), torch.no_grad(), autocast:
            for positions in batches_by_length(lengths, batch_size):
                batch = processor.pad_documents([documents[position] for position in positions])
                ids, mask = (batch[name].to(gile.device) for name in ("input_ids", "attention_mask"))
                vectors = gile.text_encoder.pool(ids, mask.bool())[0].float().cpu().numpy()  # language-independent
                for position, vector in zip(positions, vectors, strict=True):
                    pooled[position] = vector if vector.ndim == 1 else vector[: max(1, len(documents[position]))]
                if count is not None:
                    count(len(positions))
        return {"pooled_embeds": pooled}

    options: dict[str, Any] = {"batched": True, "batch_size": max(batch_size, _SORT_SIZE)}
    if not hasattr(dataset, "num_rows"):  # a stream
        return dataset.map(pool, **options)
    from datasets import Features, List, Value, concatenate_datasets

    kind: Any = List(Value("float32"))
    if config.text_encoder_type == "hierarchical_transformer":
        kind = List(kind)
    # Without labels, so that a change of labels does not invalidate the cache.
    inputs = dataset.select_columns(["input_ids"])
    progress = Progress("running the text encoder", len(inputs))
    with without_bars():  # which would move by `_SORT_SIZE` documents
        pooled = inputs.map(
            partial(pool, count=progress.count),
            remove_columns=inputs.column_names,
            features=Features({"pooled_embeds": kind}),
            new_fingerprint=_fingerprint(inputs, gile, bf16),
            **options,
        )
    return concatenate_datasets([dataset, pooled], axis=1)


def _fingerprint(inputs: "Dataset", gile: GileModel, bf16: bool) -> str:
    """Hashes everything that determines the vectors, since `datasets` would hash the history of the dataset."""
    config = gile.config.text_config
    encoder = pretrained_encoder(gile) or gile.text_encoder
    weights = hash_bits(*encoder.state_dict().values())
    settings = (config.text_encoder_type, config.pooling, bf16, config.text_encoder_config.to_json_string(), weights)
    digest = blake2b(repr(settings).encode(), digest_size=8)
    for batch in inputs.with_format(None).iter(_SORT_SIZE):
        digest.update(repr(batch).encode())
    return digest.hexdigest()


def parameter_groups(
    model: nn.Module,
    learning_rate: float,
    text_encoder_learning_rate: float | None = None,
    weight_decay: float = 0.0,
) -> list[dict[str, Any]]:
    """Groups parameters by learning rate and weight decay, for an optimizer.

        groups = parameter_groups(model, 2e-3, text_encoder_learning_rate=1e-4)
        Trainer(model, args, ..., optimizers=(torch.optim.AdamW(groups), None))

    Weight decay is not applied to embedding tables (where unused rows would shrink), biases and norms.

    Args:
        model: A `GileModel` or `GileForSequenceClassification`; frozen parameters are excluded.
        learning_rate: Learning rate outside the pretrained encoder.
        text_encoder_learning_rate: Learning rate of the pretrained encoder; by default `learning_rate`.
        weight_decay: Weight decay of matrices.

    Returns:
        A list of `{"params": ..., "lr": ..., "weight_decay": ...}`, in a deterministic order.

    Example:
        >>> from hf_gile import GileConfig, GileModel
        >>> groups = parameter_groups(GileModel(GileConfig(vocab_size=11)), 1e-2, weight_decay=0.1)
        >>> [(group["lr"], group["weight_decay"], len(group["params"])) for group in groups]
        [(0.01, 0.0, 6), (0.01, 0.1, 6)]
    """
    if text_encoder_learning_rate is None:
        text_encoder_learning_rate = learning_rate
    encoder = pretrained_encoder(model)
    of_encoder = set() if encoder is None else {id(parameter) for parameter in encoder.parameters()}
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)}
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            decay = weight_decay if parameter.dim() > 1 and id(parameter) not in tables else 0.0
            rate = text_encoder_learning_rate if id(parameter) in of_encoder else learning_rate
            groups.setdefault((rate, decay), []).append(parameter)
    return [{"params": members, "lr": rate, "weight_decay": decay} for (rate, decay), members in groups.items()]


def pretrained_encoder(model: nn.Module) -> Any:
    """Returns the pretrained encoder of a `GileModel` or `GileForSequenceClassification`, or None."""
    return getattr(get_towers(model).text_encoder, "transformer", None)
