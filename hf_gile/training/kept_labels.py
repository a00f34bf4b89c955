"""Uses the encodings of labels by a frozen pretrained encoder in training steps, which then do not run it."""

from typing import Any

import torch
from torch import Tensor

from ..models.label_embeds_gile import pool_stored_labels
from ..models.languages_gile import Languages, run_by_language
from ..models.modeling_gile import GileForSequenceClassification, GileModel


def pool_labels(gile: GileModel, label_input_ids: Tensor, label_language: Languages = None) -> Tensor:
    """Encodes labels by the pretrained encoder, without dropout or gradients.

    Args:
        gile: A model with `config.pools_labels`.
        label_input_ids: `(L, T)` token ids.
        label_language: Language of all labels, or a language for each.

    Returns:
        `(L, P)` vectors.
    """

    def pool(language: str | None, label_input_ids: Tensor) -> tuple[Tensor, Tensor]:
        mask = label_input_ids != gile.config.text_config.pad_token_id
        return gile.text_encoder.pool(label_input_ids, mask, language=language)

    kind = label_input_ids.device.type
    mode = gile.text_encoder.training
    autocast = torch.autocast(
        kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), cache_enabled=False
    )
    gile.text_encoder.eval()
    # Results may be inputs of training steps, which do not accept inference tensors. With its cache, autocast would
    # also reuse casts of weights without gradients in the training step.
    with torch.inference_mode(False), torch.no_grad(), autocast:
        vectors = run_by_language(gile.config, label_language, {"label_input_ids": label_input_ids}, pool)[0]
    gile.text_encoder.train(mode)
    return vectors


def label_vectors(model: GileForSequenceClassification) -> Tensor:
    """Returns encodings of the stored labels by a frozen pretrained encoder, cached while the encoder is unchanged.

    Args:
        model: A classifier with `config.pools_labels`.

    Returns:
        `(L, P)` vectors, as from `pool_stored_labels`.
    """
    words = model.label_input_ids
    encoder = model.gile.text_encoder

    def versions(vectors: Tensor) -> list[Any]:
        tensors = (words, vectors, *encoder.transformer.parameters())
        return [(tensor.data_ptr(), tensor._version) for tensor in tensors]

    # In training, the weights of a frozen encoder are not compared at each step, which can cost as much as the step.
    if model.training and encoder.trusted_vectors is not None:
        vectors, cached_words, cached_versions = encoder.trusted_vectors
        if cached_words is words and cached_versions == versions(vectors):
            return vectors
    vectors = pool_stored_labels(model)
    encoder.trusted_vectors = (vectors, words, versions(vectors)) if model.training else None
    return vectors


def project_kept(gile: GileModel, inputs: dict[str, Any], language: str | None = None) -> Tensor:
    """Computes `(C, J)` label codes, from cached encodings if available.

    Args:
        gile: The model.
        inputs: Arguments of `GileModel.project_labels`, and optionally `label_vectors`, `(C, P)` from `label_vectors`.
        language: Language of the documents to score.
    """
    if "label_vectors" not in inputs:
        return gile.project_labels(**inputs, language=language)
    inputs = dict(inputs)
    words = inputs.pop("label_input_ids")
    vectors = inputs.pop("label_vectors").to(gile.dtype)
    mask = words != gile.config.text_config.pad_token_id
    rows: dict[str, Tensor | None] = {"input_ids": words, "mask": mask, "pooled": vectors}
    label_embeds = run_by_language(gile.config, inputs.pop("label_language", language), rows, gile.read_labels)[0]
    return gile.project_labels(label_embeds=gile.with_bag(label_embeds, words, mask), language=language, **inputs)
