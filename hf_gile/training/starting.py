"""What a model starts from: a pretrained encoder, word vectors, weights of tokens.

Shapes: D word-embedding size.
"""

import inspect
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from ..models import GileConfig, GileForSequenceClassification, GileProcessor, Scorer, towers_of
from ..models.processing_gile import LEXICAL_BUCKETS
from ..models.stored_labels_gile import is_finite
from ..models.text_encoders_gile import position_limit, without_pooler
from ..settings import PRETRAINED_DEFAULTS
from .losses import GileLoss


def model_from_text_encoder(
    pretrained_model_name_or_path: str | PathLike[str] | None,
    *,
    text_encoder_options: dict[str, Any] | None = None,
    **fields: Any,
) -> GileForSequenceClassification:
    """Makes a model over a pretrained encoder, whose weights are loaded; all else starts fresh.

    By default documents and labels are read by the same encoder, as the mean of its last hidden states, 256 tokens of a
    document and 64 of a label.

    Args:
        pretrained_model_name_or_path: What `AutoModel.from_pretrained` takes: an encoder of the Hub, or a folder.
        text_encoder_options: Its options, such as `{"revision": ..., "attn_implementation": "sdpa"}` or fields of the
            encoder's configuration, such as `{"attention_probs_dropout_prob": 0.0}`. The model is of float32 unless
            they name another `dtype`.
        fields: Fields of `GileConfig`.

    Returns:
        The model, in evaluation mode. `processor_from_text_encoder` makes the processor that goes with it.

    Raises:
        ValueError: An encoder-decoder, a model that does not read texts, reads padding or has code of its own, or
            fields that do not go together.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     encoder = BertConfig(vocab_size=31, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        ...     BertModel(encoder).save_pretrained(folder)
        ...     model = model_from_text_encoder(folder, joint_size=5, bag_size=3)
        >>> model.config.document_size, model.config.label_size
        (11, 11)
    """
    options = {"dtype": torch.float32, **(text_encoder_options or {})}
    trust = options.pop("trust_remote_code", False)
    transformer = AutoModel.from_pretrained(pretrained_model_name_or_path, trust_remote_code=trust, **options)
    if type(transformer).__module__.startswith("transformers_modules."):
        raise ValueError(
            f"{pretrained_model_name_or_path} is a {type(transformer).__name__} with code of its own, which a "
            "model over it could not carry: take an encoder of transformers itself"
        )
    if "attention_mask" not in inspect.signature(transformer.forward).parameters:
        raise ValueError(
            f"{pretrained_model_name_or_path} is a {type(transformer).__name__}, which takes no attention_mask: "
            "what it says of a text would depend on the padding behind it"
        )
    positions = position_limit(transformer) or 256
    fields = {"text_encoder_type": "transformer", **(fields.pop("text_config", None) or {}), **fields}
    defaults = PRETRAINED_DEFAULTS.get(fields["text_encoder_type"], {}) | {"max_label_words": min(64, positions)}
    if fields["text_encoder_type"] == "transformer":
        defaults["max_words"] = min(256, positions)
    else:
        defaults["max_sentence_words"] = min(128, positions)
    if fields.get("output_layer") != "linear":
        defaults["label_encoder_type"] = "text_encoder"
    transformer.config._name_or_path = ""  # often a folder, which is not to be published
    attention = transformer.config._attn_implementation
    config = GileConfig(**{**defaults, **fields, "text_encoder_config": transformer.config})
    # A new configuration sets that of all in it.
    config.text_config.text_encoder_config._attn_implementation = attention
    model = GileForSequenceClassification(config).to(transformer.dtype)
    model.gile.text_encoder.transformer.load_state_dict(without_pooler(transformer).state_dict())
    if config.pools_labels and config.text_config.has_fixed_pooling:
        model.loss_function = GileLoss()  # which keeps what the frozen encoder makes of labels
    return model.eval()


def processor_from_text_encoder(
    name_or_path: str | PathLike[str],
    config: GileConfig,
    *,
    text_prompt: str = "",
    label_prompt: str = "",
    **tokenizer_options: Any,
) -> GileProcessor:
    """Makes the processor of a model over a pretrained encoder.

    Args:
        name_or_path: The encoder's name on the Hub, or its folder.
        config: The model's configuration.
        text_prompt: What the encoder expects before each text, such as `"query: "`; it is saved with the processor.
        label_prompt: The same of labels.
        tokenizer_options: What `AutoTokenizer.from_pretrained` takes besides, such as `revision`.

    Raises:
        ValueError: As for `GileProcessor.for_config`.

    Example:
        ```python
        model = model_from_text_encoder("sentence-transformers/all-MiniLM-L6-v2")
        processor = processor_from_text_encoder("sentence-transformers/all-MiniLM-L6-v2", model.config)
        ```
    """
    # What a model reads: pipelines that call the tokenizer alone pass on all that it makes.
    options = {"model_input_names": ["input_ids", "attention_mask"], **tokenizer_options}
    trust = options.pop("trust_remote_code", False)
    tokenizer = AutoTokenizer.from_pretrained(name_or_path, trust_remote_code=trust, **options)
    return GileProcessor.for_config(tokenizer, config, text_prompt=text_prompt, label_prompt=label_prompt)


def joint_size_for(hidden_size: int, embedding_size: int, num_labels: int | Sequence[int]) -> int:
    """Gives the joint size with which GILE has about as many parameters as a linear unit (Eq. 19).

    Args:
        hidden_size: Size of a document vector (d_h).
        embedding_size: Size of a label vector (d).
        num_labels: Number of labels k, or of each language's labels.

    Returns:
        d_h k / (d_h + d), at least 1, with k summed over the languages; rounded down, as in the published models.

    Example:
        >>> joint_size_for(hidden_size=100, embedding_size=40, num_labels=[327, 367])
        495
    """
    k = num_labels if isinstance(num_labels, int) else sum(num_labels)
    return max(1, hidden_size * k // (hidden_size + embedding_size))


@torch.no_grad()
def set_word_vectors(model: Scorer, vectors: Tensor | ArrayLike) -> None:
    """Gives words their vectors, such as those of `hf_gile.data.load_word_vectors`.

    After `model.get_input_embeddings().requires_grad_(False)` they keep them in training.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`.
        vectors: `(vocab_size, D)` numbers, row by row those of the tokenizer's words. The row of the padding word is
            not read.

    Raises:
        ValueError: Vectors of another shape, or numbers that are not finite.
    """
    numbers = torch.as_tensor(vectors)
    weight = model.get_input_embeddings().weight
    if numbers.shape != weight.shape:
        raise ValueError(f"word vectors must have shape {tuple(weight.shape)}, got {tuple(numbers.shape)}")
    if not is_finite(numbers):
        raise ValueError(f"word vector {int((~numbers.isfinite()).any(1).nonzero()[0])} contains NaN or infinity")
    weight.copy_(numbers)
    weight[model.config.text_config.pad_token_id] = 0


@torch.no_grad()
def set_token_weights(model: Scorer, log_weights: Tensor | ArrayLike) -> None:
    """Gives the tokens of the bag their weights, such as `log_idf`; training changes them.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification` with a `bag_size`.
        log_weights: `(vocab_size,)` natural logarithms of the weights; minus infinity for a token that is not to count
            (it is kept as -20).

    Raises:
        ValueError: A model without a bag, or weights of another shape or that are not numbers.
    """
    bag = towers_of(model).bag
    if bag is None:
        raise ValueError("token weights are those of the bag, and config.bag_size is 0")
    numbers, size = torch.as_tensor(log_weights, dtype=torch.float32), model.config.text_config.vocab_size
    if numbers.shape != (size,) or bool((numbers.isnan() | numbers.isposinf()).any()):
        raise ValueError(f"log_weights must be ({size},) finite numbers or -inf, got {tuple(numbers.shape)}")
    bag.log_weights.weight.copy_(numbers.clamp(min=-20)[:, None])


@torch.no_grad()
def set_lexical_weights(model: Scorer, documents: Iterable[Sequence[int]]) -> None:
    """Gives words their idf, log((1 + N) / (1 + documents with it)) + 1.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification` with `config.lexical`.
        documents: N training documents as lexical ids: the column `lexical_ids` of an encoded dataset.

    Raises:
        ValueError: A model that compares no words.
    """
    lexical = getattr(towers_of(model).output_layer, "lexical", None)
    if lexical is None:
        raise ValueError("the model compares no words: make it with config.lexical=True")
    counts, number = np.zeros(LEXICAL_BUCKETS), 0
    for ids in documents:
        counts[np.asarray(ids, np.int64) % LEXICAL_BUCKETS] += 1
        number += 1
    lexical.idf.copy_(torch.from_numpy(np.log((1 + number) / (1 + counts)) + 1))


__all__ = [
    "joint_size_for",
    "model_from_text_encoder",
    "processor_from_text_encoder",
    "set_lexical_weights",
    "set_token_weights",
    "set_word_vectors",
]
