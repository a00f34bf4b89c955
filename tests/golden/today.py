"""Maps names in golden cases to current names. After a renaming, only this file has to change.

The files hold names as they were when a case was written, and are never written again. Whoever renames a field or a
weight adds a line to `FIELDS` or `WEIGHTS`; whoever changes a call changes it in `build` or `run`.
"""

import re
from typing import Any

import torch
from papers.chunked_training import ChunkedLoss
from torch import Tensor

from hf_gile import GileConfig, GileForSequenceClassification
from hf_gile.models.languages_gile import run_by_language
from hf_gile.models.losses_gile import label_loss
from hf_gile.models.published_gile import PublishedGileConfig, PublishedGileForSequenceClassification
from hf_gile.settings import only_read
from hf_gile.training import GileLoss

FIELDS: dict[str, str | None] = {
    "bag_size": None,  # 0 in all cases: token vectors beside those of the encoder are gone
    "training_loss": None,  # always cross-entropy
    "label_chunk_size": None,  # an option of a ChunkedLoss
}
"""Current names of fields by stored name; None if removed."""

VALUES: dict[tuple[str, bool], str | None] = {("label_rows", True): "full", ("label_rows", False): None}
"""Current values of fields by name and stored value."""

WEIGHTS: list[tuple[str, str]] = [
    (r"^gile\.word_embeddings", "gile.text_encoder.word_embeddings"),
    (r"(\.direct)?\.cosine(\.factors)?\.scale$", ".cosine.factor.scale"),
    (r"^label_input_ids$", "stored_labels.input_ids"),
]
"""Regular expressions for stored names of weights and their replacements, applied in this order."""


ROWS = "gile.label_rows.weight"
"""A stored row is r, b_l and rarity of a label, which today are the tensors of a `RowTable`."""


SCALE = "gile.output_layer.cosine.factor.scale"
"""Stored factors of the cosine are those of two parts of vectors, of which today only the first exists."""


def today_weights(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns stored weights as they are called and divided today."""
    weights = {weight_name(name): tensor for name, tensor in stored.items()}
    if SCALE in weights:
        weights[SCALE] = weights[SCALE][:1]
    if ROWS in weights:
        row = weights.pop(ROWS)
        parts = {"weight": row[:, :-2], "bias": row[:, -2], "rarity": row[:, -1]}
        weights |= {f"gile.label_rows.{name}": part for name, part in parts.items()}
    return weights


def gradient_of(model: GileForSequenceClassification, stored: str) -> Tensor:
    """Returns the gradient of a stored weight."""
    if stored == ROWS:
        table = model.gile.label_rows
        return torch.cat([table.weight.grad, table.bias.grad[:, None], torch.zeros_like(table.rarity)[:, None]], 1)
    gradient = model.get_parameter(weight_name(stored)).grad
    return gradient.to_dense() if gradient.is_sparse else gradient


def weight_name(stored: str) -> str:
    """Returns the current name of a weight."""
    for pattern, name in WEIGHTS:
        stored = re.sub(pattern, name, stored)
    return stored


def build(fields: dict[str, Any], weights: dict[str, Tensor] | None = None) -> GileForSequenceClassification:
    """Creates a float64 model from stored fields and weights; by default with random weights."""
    options: dict[str, Any] = {}
    for stored, value in fields.items():
        name = FIELDS.get(stored, stored)
        if name is not None:
            options[name] = VALUES.get((name, value), value) if isinstance(value, bool) else value
    kinds: Any = (GileConfig, GileForSequenceClassification)
    if options.get("text_encoder_type") == "han_published":
        options["text_encoder_type"] = "han"
        kinds = (PublishedGileConfig, PublishedGileForSequenceClassification)
    config, classifier = kinds
    model = classifier(config(**only_read(**options))).double()  # some fields of old cases are not used
    if chunk_size := fields.get("label_chunk_size"):
        model.loss_function = ChunkedLoss(chunk_size=chunk_size)
    if weights is not None:
        model.load_state_dict(today_weights(weights))
    return model


def text_codes(model: Any, documents: dict[str, Tensor], languages: list[str] | None) -> Tensor:
    """Computes codes of documents, which may be in different languages."""

    def project(language: Any, input_ids: Tensor) -> tuple[Tensor]:
        return (model.gile.project_texts(input_ids, language=language),)

    return run_by_language(model.config, languages, documents, project)[0]


def run(model: Any, inputs: dict[str, Any], gradients: list[str] | None = None) -> dict[str, Tensor]:
    """Computes all outputs of golden cases.

    Args:
        model: Result of `build`.
        inputs: `documents` are ids of words, `document_languages` the language of each; `new_labels` are labels that
            are not stored, as ids of words, `new_label_languages` their languages; `training` has the arguments of a
            training step.
        gradients: Stored names of the weights whose gradients are returned.

    Returns:
        `logits` and `attentions.N` of the stored labels, `text_codes`, `label_codes` of the new labels for documents
        of each language, `new_logits`, and of a training step `loss`, `train_logits` and `gradient.NAME`.
    """
    outputs: dict[str, Tensor] = {}
    documents = {"input_ids": torch.tensor(inputs["documents"])}
    languages = inputs.get("document_languages")
    language = {} if languages is None else {"language": languages}

    model.eval()
    with torch.no_grad():
        output = model(**documents, **language, output_attentions=True)
        outputs["logits"] = output.logits
        outputs |= {f"attentions.{number}": weights for number, weights in enumerate(output.attentions)}
        outputs["text_codes"] = text_codes(model, documents, languages)
        if "new_labels" in inputs:
            labels = {"label_input_ids": torch.tensor(inputs["new_labels"])}
            if "new_label_languages" in inputs:
                labels["label_language"] = inputs["new_label_languages"]
            outputs["new_logits"] = model.gile(**documents, **language, **labels).logits
            for code_language in sorted(set(languages or [None])):
                name = "label_codes" if code_language is None else f"label_codes.{code_language}"
                outputs[name] = model.gile.project_labels(**labels, language=code_language)

    if "training" in inputs:
        training = {name: torch.tensor(value) for name, value in inputs["training"].items()}
        columns = training.get("sampled_columns")
        if columns is not None and model.loss_function is label_loss:
            model.loss_function = GileLoss()
        model.train().zero_grad()
        output = model(**documents, **language, **training)
        output.loss.backward()
        outputs["loss"] = output.loss.detach()
        if output.logits is not None:  # a GileLoss returns no logits
            outputs["train_logits"] = output.logits.detach()
        for stored in gradients or []:
            outputs[f"gradient.{stored}"] = gradient_of(model, stored)
    return outputs
