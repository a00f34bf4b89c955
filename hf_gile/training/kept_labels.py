"""What a pretrained encoder makes of labels, kept while it stays as it is: a training step then costs no pass of it."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..models.languages_gile import Languages, in_each_language
from ..models.modeling_gile import GileForSequenceClassification, GileModel


def pool_labels(gile: GileModel, label_input_ids: Tensor, label_language: Languages = None) -> Tensor:
    """What the pretrained encoder makes of labels, without dropout or gradients.

    Args:
        gile: A model with `config.pools_labels`.
        label_input_ids: `(L, T)` token ids.
        label_language: The language of the labels, or of each.

    Returns:
        `(L, P)` vectors.
    """

    def pool(language: str | None, label_input_ids: Tensor) -> tuple[Tensor, Tensor]:
        mask = label_input_ids != gile.config.text_config.pad_token_id
        return gile.text_encoder.pool(label_input_ids, mask, language=language)

    kind, mode = label_input_ids.device.type, gile.text_encoder.training
    autocast = torch.autocast(
        kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), cache_enabled=False
    )
    gile.text_encoder.eval()
    # What is kept of this may be an input of a training step, which nothing made in inference mode can be. And casts of
    # weights that autocast makes and keeps without gradients would serve the training step.
    with torch.inference_mode(False), torch.no_grad(), autocast:
        vectors = in_each_language(gile.config, label_language, {"label_input_ids": label_input_ids}, pool)[0]
    gile.text_encoder.train(mode)
    return vectors


def label_vectors(model: GileForSequenceClassification) -> Tensor:
    """What a frozen pretrained encoder makes of the stored labels, made once while the encoder stays as it is.

    Args:
        model: A classifier with `config.pools_labels`.

    Returns:
        `(L, P)` vectors, as of `pool_labels`.
    """
    gile, words = model.gile, model.label_input_ids
    encoder = gile.text_encoder
    weights = list(encoder.transformer.parameters())
    languages = model.stored_labels.languages if model.config.language_labels else None

    def state(tokens: Tensor | None = None) -> tuple[Any, ...]:
        return gile.label_state(tokens, weights)

    def versions(vectors: Tensor) -> tuple[Any, ...]:
        tensors = [(tensor.data_ptr(), tensor._version) for tensor in (words, vectors, *weights)]
        return torch.is_autocast_enabled(model.device.type), tensors

    # While training goes on, a frozen encoder is not read at each step, which can cost as much as the step.
    if model.training and encoder.trusted_vectors is not None:
        vectors, of_words, before = encoder.trusted_vectors
        if of_words is words and before == versions(vectors):
            return vectors
    vectors = model.stored_labels.made_once("vectors", words, state, partial(pool_labels, gile, words, languages))
    encoder.trusted_vectors = (vectors, words, versions(vectors)) if model.training else None
    return vectors


def project_kept(gile: GileModel, inputs: dict[str, Tensor], language: str | None = None) -> Tensor:
    """The `(C, J)` codes of labels, by what the encoder made of them before, where that is known.

    Args:
        gile: The model.
        inputs: Arguments of `GileModel.project_labels`; and `label_vectors`, `(C, P)` of `label_vectors`, or none.
        language: The language of the documents to score.
    """
    if "label_vectors" not in inputs:
        return gile.project_labels(**inputs, language=language)
    inputs = dict(inputs)
    words, vectors = inputs.pop("label_input_ids"), inputs.pop("label_vectors").to(gile.dtype)
    mask = words != gile.config.text_config.pad_token_id
    rows: dict[str, Tensor | None] = {"input_ids": words, "mask": mask, "pooled": vectors}
    read = in_each_language(gile.config, inputs.pop("label_language", language), rows, gile.read_labels)[0]
    return gile.project_labels(label_embeds=gile.with_bag(read, words, mask), language=language, **inputs)
