"""Fits the head over a frozen encoder as convex problems: rows of labels, a bilinear form, and weights of terms.

Vectors of documents and labels are computed once, with length 1. No fit stores more than a block of N x L numbers.

Shapes: N documents, L labels, P size of a vector, G gold labels of a document.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ...models import GileConfig, GileForSequenceClassification
from ...models.label_embeds_gile import embed_stored_labels, keeps_label_embeds
from ...models.lexical_gile import LexicalFeatures, Postings, pad_features
from ...models.mixture_gile import WORD_TERMS, Rows, RowTable
from ...models.scoring_gile import JointInputLabelEmbedding
from ..calibration.calibrating import with_number
from ..collator import pad_indices
from ..starting import set_lexical_weights, set_word_vectors
from .documents import Documents, may_be_held_out
from .head import LARGEST, CompareWords, ConvexFit, Head, Regularisation, fit_head, refit_head
from .label_side import Joint
from .word_rows import WordRegression, feature_counts, named_labels

_DOCUMENTS_AT_ONCE = 1024

_COMPARED_AT_ONCE = 64

LearnWords = Callable[[Iterable[Sequence[int]]], NDArray[np.float32]]
"""Function from word ids of documents to `(V, D)` vectors of words, see `latent_word_vectors`."""


def is_feasible(num_documents: int, num_labels: int, size: int) -> bool:
    """Returns whether `fit_convex` takes only minutes with the vectors of all documents; larger sets use a part.

    Args:
        num_documents: N.
        num_labels: L that training documents have.
        size: P, `config.text_config.pooled_size`.

    Example:
        >>> is_feasible(15_000, 150, 384), is_feasible(23_000, 26_000, 384)
        (True, False)
    """
    return num_documents * num_labels * size <= LARGEST


@torch.no_grad()
def fit_convex(
    model: GileForSequenceClassification,
    parts: Mapping[str, Dataset],
    neighbours: bool = False,
    learn_words: LearnWords | None = None,
) -> ConvexFit:
    """Fits the head over the frozen encoder of a model by `fit_head`, instead of training.

    It sets the rows of labels, V of the bilinear unit, the factor of the cosine and `config.term_weights`. Seen labels
    are those with training documents. It runs on the CPU and is deterministic.

    Args:
        model: A model with stored labels, a frozen encoder, `output_layer="bilinear"`, `cosine_score` and `label_rows`;
            its `problem_type` says whether each document has one label.
        parts: Encoded documents with `pooled_embeds`: `train`, and `validation` to choose on.
        neighbours: Whether to store the vectors of training documents: the labels of the 50 nearest count in the term
            "words".
        learn_words: Learned the word vectors of the model from its training documents; called again without the
            documents of labels that are held out.

    Returns:
        How the head was fitted.

    Raises:
        ValueError: A model or documents that do not fit, or no training document with a label.
    """
    config = model.config
    if not can_be_fitted(config):
        raise ValueError(
            "a convex fit needs text_encoder_type 'nn', or a frozen encoder with a pooling without weights; and "
            "output_layer='bilinear', cosine_score, label_rows and no languages; "
            f"got output_layer {config.output_layer!r}, cosine_score={config.cosine_score}, "
            f"label_rows={config.label_rows}, languages {config.languages}, text_config {config.text_config}"
        )
    e = _label_vectors(model)
    train = _documents(model, parts, "train")
    validation = _documents(model, parts, "validation", len(train))
    compare = regression = None
    if config.lexical:
        set_lexical_weights(model, parts["train"]["lexical_ids"])
        encoded = [parts["train"], parts["validation"]]
        compare, regression = _words(model, encoded, train, validation, neighbours)
    one_label = config.problem_type == "single_label_classification"
    relearn = None
    if learn_words is not None and config.lexical:
        relearn = partial(_relearn, model, parts, learn_words)
    head = fit_head(train, validation, _of_length_1(e), one_label, compare, regression, relearn)
    if head.fit.fits_validation:
        _count_labels(model, train.joined(validation))
    _store(model, head, e)
    return head.fit


@torch.no_grad()
def refit_convex(
    model: GileForSequenceClassification,
    parts: Mapping[str, Dataset],
    regularisation: Regularisation,
) -> int:
    """Fits the head of `fit_convex` again on more documents, with the same settings, and counts the labels again.

    The weights of terms, the calibration and the thresholds stay those of documents that were left out.

    Args:
        model: The fitted model.
        parts: Encoded documents as in `fit_convex`; all are fitted on.
        regularisation: What `fit_convex` chose.

    Returns:
        The number of documents.
    """
    config = model.config
    e = _label_vectors(model)
    first, *others = parts
    documents = _documents(model, parts, first)
    for part in others:
        documents = documents.joined(_documents(model, parts, part, len(documents)))
    regression = None
    if regularisation.words_l2 is not None:
        _, regression = _words(
            model,
            list(parts.values()),
            train=documents,
            validation=documents.take(slice(0)),
            neighbours=bool(config.neighbours),
        )
    head = refit_head(
        documents,
        _of_length_1(e),
        regularisation,
        config.term_weights,
        regression,
        has_rows=config.label_rows == "full",
    )
    _count_labels(model, documents)
    _store(model, head, e)
    return len(documents)


def _count_labels(model: GileForSequenceClassification, documents: Documents) -> None:
    """Stores the number of documents of each label that the model was fitted on."""
    assert model.label_set is not None
    ids = model.label_set.ids
    counts = documents.counts(len(ids)).tolist()
    model.label_set = model.label_set.with_counts(dict(zip(ids, counts, strict=True)))


def _relearn(
    model: GileForSequenceClassification, parts: Mapping[str, Dataset], learn_words: LearnWords, numbers: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns vectors of all documents and of the labels, with words learned from the documents of these numbers."""
    every = concatenate_datasets([parts[part].select_columns("input_ids") for part in ("train", "validation")])
    words = model.get_input_embeddings().weight
    before = words.clone()
    try:
        set_word_vectors(model, learn_words(every.select(numbers)["input_ids"]))
        documents = [_documents(model, parts, part) for part in ("train", "validation")]
        return torch.cat([part.vectors for part in documents]), _of_length_1(_label_vectors(model))
    finally:
        words.copy_(before)


def _label_vectors(model: GileForSequenceClassification) -> Tensor:
    """Returns the `(L, P)` vectors of the stored labels, in evaluation mode; refuses a model without labels."""
    if model.label_set is None:
        raise ValueError("the model stores no labels: call set_labels first")
    model.eval()
    if keeps_label_embeds(model.gile):
        return embed_stored_labels(model)
    return model.gile.embed_labels(model.label_input_ids)


def _set_rows(model: GileForSequenceClassification, rows: Rows, size: int) -> None:
    """Sets the rows of the stored labels, for vectors with a root mean square of 1; only biases if weights are zero."""
    kind = "full"
    rows = replace(rows, weight=rows.weight / size**0.5)
    if not rows.weight.any():
        kind = "bias"
        rows = replace(rows, weight=rows.weight[:, :0])
    if kind != model.config.label_rows:
        model.config.label_rows = kind
        model.gile.label_rows = RowTable(*rows.weight.shape).to(rows.weight)
    for name, parameter in model.gile.label_rows.named_parameters():
        parameter.copy_(getattr(rows, name))


def _store(model: GileForSequenceClassification, head: Head, e: Tensor) -> None:
    """Sets the weights of a model with `(L, P)` vectors of labels, and caches the codes of the labels."""
    gile, config = model.gile, model.config
    size = e.shape[1]  # vectors of the model have a root mean square of 1, and a length of its root
    form = head.form
    if isinstance(form, Joint):
        _set_output_layer(model, output_layer="gile", joint_size=size, joint_act="tanh")
        parameters = {
            "label_projection.weight": form.label_weight / size**0.5,
            "label_projection.bias": form.label_bias,
            "input_projection.weight": form.text_weight / size**0.5,
            "input_projection.bias": form.text_bias,
            "classifier.weight": form.weight,
        }
    else:
        _set_output_layer(
            model, output_layer="bilinear", joint_size=GileConfig.joint_size, joint_act=GileConfig.joint_act
        )
        parameters = {"input_projection.weight": form.matrix.T / size}
    layer = gile.output_layer
    for name, values in parameters.items():
        layer.get_parameter(name).copy_(values)
    layer.classifier.bias.zero_()
    layer.cosine.factor.scale.fill_(form.factor)
    _set_rows(model, head.rows, size)
    config.term_weights = head.term_weights
    if head.num_unseen:
        config.calibration = with_number(config.calibration, head.num_unseen, head.crowding)
    if head.words is not None:
        rows = head.words.tocoo()
        ids, columns, weights = (torch.from_numpy(numbers) for numbers in (rows.col, rows.row, rows.data))
        gile.set_word_rows(config.num_labels, ids, columns, weights)

    def project_labels() -> Tensor:  # their vectors are unchanged: the encoder is frozen
        return gile.project_labels(label_embeds=e, label_rows=gile.label_rows())

    model.stored_labels.get_or_compute(("codes", None), gile.label_state(), project_labels)


def _set_output_layer(model: GileForSequenceClassification, **fields: Any) -> None:
    """Replaces the output layer unless it has these fields of the configuration; other terms than "joint" stay."""
    gile, config = model.gile, model.config
    if all(getattr(config, name) == value for name, value in fields.items()):
        return
    for name, value in fields.items():
        setattr(config, name, value)
    before = gile.output_layer
    gile.output_layer = JointInputLabelEmbedding(config).to(before.classifier.bias)
    for name in ("cosine", "rows", "lexical"):
        setattr(gile.output_layer, name, getattr(before, name))


def can_be_fitted(config: GileConfig) -> bool:
    """Returns whether `fit_convex` supports a model with this configuration.

    Args:
        config: The configuration.
    """
    text = config.text_config
    is_fixed = text.text_encoder_type == "nn" or (not text.reads_sentences and text.has_fixed_pooling)
    return bool(
        is_fixed
        and (config.output_layer == "bilinear" or (config.output_layer == "gile" and config.joint_layers == 1))
        and config.cosine_score
        and config.label_rows
        and not config.languages
        and config.label_size == config.document_size
    )


def _documents(
    model: GileForSequenceClassification, parts: Mapping[str, Dataset], part: str, first: int = 0
) -> Documents:
    """Returns the documents of a part for convex fits, with numbers from `first` on if words are compared."""
    rows, gile, text = parts[part], model.gile, model.config.text_config
    vectors_from = "pooled_embeds" if text.reads_pretrained else "input_ids"
    wanted = {vectors_from: "use add_pooled_embeds" if text.reads_pretrained else "use encode_dataset"}
    if model.config.lexical:
        wanted["lexical_ids"] = "encode them with the processor of the model, which compares words (config.lexical)"
    for name, how in wanted.items():
        if name not in rows.column_names:
            raise ValueError(f"documents of {part} have no {name}: {how}")
    vectors = [torch.zeros(0, model.config.document_size)]
    inputs = rows.select_columns([vectors_from])
    for batch in (inputs.with_format("torch") if text.reads_pretrained else inputs).iter(_DOCUMENTS_AT_ONCE):
        if text.reads_pretrained:
            h, _ = gile.embed_texts(pooled_embeds=batch["pooled_embeds"].to(model.device))
        else:
            h, _ = gile.embed_texts(pad_indices(batch["input_ids"], text.pad_token_id).to(model.device))
        vectors.append(h.cpu())
    excluded = pad_indices(rows["excluded_columns"]) if "excluded_columns" in rows.column_names else None
    numbers = torch.arange(first, first + len(rows)) if model.config.lexical else None
    return Documents(_of_length_1(torch.cat(vectors)), pad_indices(rows["labels"]), excluded, numbers)


def _words(
    model: GileForSequenceClassification,
    parts: Sequence[Dataset],
    train: Documents,
    validation: Documents,
    neighbours: bool,
) -> tuple[CompareWords, WordRegression]:
    """Returns what compares words of documents and labels, and what fits rows of words; stores neighbours, if any.

    Training documents are the first ones in `parts`, followed by those for validation.
    """
    config, gile, labels = model.config, model.gile, model.label_set
    assert labels is not None
    names = ["lexical_ids", "lexical_counts"]
    rows = concatenate_datasets([part.select_columns(names) for part in parts])
    unweighted = torch.zeros(len(WORD_TERMS), len(labels))
    compared = [number for number, name in enumerate(WORD_TERMS) if name != "words"]  # which learn from the documents
    postings = Postings.build(labels, gile.output_layer.lexical().cpu(), unweighted, full_length=config.full_length)

    def compare(numbers: Tensor) -> dict[str, Tensor]:
        # In blocks: padded to the longest document, all words could exceed memory.
        blocks = (rows[block.tolist()] for block in numbers.split(_COMPARED_AT_ONCE) if len(block))
        features = (LexicalFeatures.of(pad_features(block)) for block in blocks)
        computed = [postings.terms(block)[compared] for block in features if block is not None]
        terms = torch.cat(computed or [unweighted[compared, None][:, :0]], 1)
        return {WORD_TERMS[number]: term for number, term in zip(compared, terms, strict=True)}

    counts = feature_counts(rows)
    of_labels = train.counts(len(labels))
    fits_by_name = (of_labels == 0) | may_be_held_out(of_labels)
    named = named_labels(postings, counts, fits_by_name)
    vectors = torch.cat([train.vectors, validation.vectors]) if neighbours else None
    regression = WordRegression(counts, vectors, len(train) if neighbours else 0, named)
    if regression.neighbours is not None:
        config.neighbours, gile.neighbours = len(train), regression.neighbours.to(model.device)
    return compare, regression


def _of_length_1(vectors: Tensor) -> Tensor:
    return functional.normalize(vectors.cpu().float(), dim=-1)
