"""Evaluation with a label index, in memory independent of the number of documents.

Shapes: B documents in a batch, L labels scored, P gold labels of a document, E excluded labels of a document.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..label_index import LabelIndex
from ..models import GileModel, Scorer, get_towers, unwrapped
from ..models.labels_gile import LabelSet
from ..models.languages_gile import check_language
from ..models.lexical_gile import LexicalFeatures
from ..models.losses_gile import IGNORE, check_excluded
from .trainer import TrainerMetric


def evaluate_index(
    index: LabelIndex,
    model: Scorer,
    batches: Iterable[Mapping[str, Tensor]],
    metrics: TrainerMetric | Sequence[TrainerMetric],
    *,
    label_set: LabelSet | None = None,
    max_scores: int = 1 << 24,
) -> dict[str, float]:
    """Scores documents against all labels of an index and computes metrics.

    If the index has the labels stored with the model, the results equal those of `Trainer.evaluate` with the same
    metrics. Labels are not encoded again, and never more than `max_scores` scores exist at once. Including temporary
    results of metrics, they take up to 25 bytes each: 400 MB by default, for 16 documents with a million labels.
    Further memory is used for the codes of the index, and for a batch and its encoding.

    Args:
        index: The label index.
        model: The model that computed it, a `GileModel` or a `GileForSequenceClassification`. Its mode (training or
            evaluation) is restored.
        batches: Batches from `GileDataCollator`, such as `DataLoader(encoded, 64, collate_fn=collator)`: `input_ids` or
            `inputs_embeds`, `attention_mask`, `labels`, and if needed `language`, `excluded_columns`, `lexical_ids` and
            `lexical_counts`. They may be a stream.
        metrics: Metrics over the L labels of the index: a `LabelMetrics`, a `ThresholdTuner`, or several. They are
            reset.
        label_set: Label set of the label indices in the batches, by default that of the model. Label indices are
            translated by label id, so an encoded dataset can be used with an index to which labels were added. Required
            if the labels of the index are not those stored with the model.
        max_scores: Number of documents times labels scored together, but at least a document with all labels.

    Returns:
        The results of all metrics.

    Raises:
        ValueError: If the index belongs to another model; its labels differ from the stored labels and `label_set` is
            missing; batches lack gold labels, or have a language or gold labels that the index does not have; or there
            are no documents.
    """
    measured = [metrics] if isinstance(metrics, TrainerMetric) else list(metrics)
    gile = get_towers(model)
    model = unwrapped(model)
    index.check_fits(gile)
    stored = getattr(model, "label_set", None)
    if label_set is None and (stored is None or stored.ids != index.label_set.ids):
        raise ValueError(
            "the labels of the index differ from those stored with the model, or in their order: pass label_set=, the "
            "label set that the documents were encoded with (such as label_set=index.label_set)"
        )
    translation = _Translation(label_set, index.label_set) if label_set is not None else None
    documents = max(1, max_scores // len(index))
    for metric in measured:
        metric.reset()
    was_training = model.training
    model.eval()
    try:
        for batch in batches:
            gold, excluded = _read_gold(batch)
            text_codes, words = encode_texts(index, gile, batch)
            if translation is not None:
                gold = translation.gold(gold)
                excluded = translation(excluded) if excluded is not None else None
            for start in range(0, len(text_codes), documents):
                rows = slice(start, start + documents)
                scores = index.scores(text_codes[rows], lexical=words and words.take(rows))
                if excluded is not None:
                    _exclude(scores, excluded[rows])
                for metric in measured:
                    metric.update(scores, gold[rows])
    finally:
        model.train(was_training)
    return {name: value for metric in measured for name, value in metric.compute().items()}


def _read_gold(batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """Returns the gold labels of a batch, and the excluded labels."""
    if "labels" not in batch:
        raise ValueError(f"a batch has no gold labels, only {', '.join(sorted(batch))}: evaluation needs them")
    return batch["labels"], batch.get("excluded_columns")


@torch.no_grad()
def encode_texts(
    index: LabelIndex, gile: GileModel, batch: Mapping[str, Tensor]
) -> tuple[Tensor, LexicalFeatures | None]:
    """Computes text codes, and the lexical features of documents, if any."""
    names = ("input_ids", "attention_mask", "inputs_embeds", "pooled_embeds")
    inputs: dict[str, Any] = {name: batch[name].to(gile.device) for name in names if batch.get(name) is not None}
    language = batch.get("language")
    if isinstance(language, Tensor):  # indices
        languages = {gile.config.languages[position] for position in language.unique().tolist()}
    else:
        languages = set() if language is None else {language}
    if languages - {index.language}:
        raise ValueError(
            f"the index scores documents in {index.language}, but a batch has other languages: evaluate each language "
            "with a separate index"
        )
    text_embeds, _ = gile.embed_texts(**inputs, language=index.language)
    text_codes = gile.output_layer.project_texts(text_embeds, check_language(gile.config, index.language))
    return text_codes, gile.lexical_features(batch, text_embeds)


class _Translation:
    """Translates label indices of a label set to those of another, by label id."""

    def __init__(self, old: LabelSet, new: LabelSet) -> None:
        self.old = old
        columns = {label.id: column for column, label in enumerate(new)}
        self.columns = torch.tensor([columns.get(label.id, IGNORE) for label in old])

    def __call__(self, columns: Tensor) -> Tensor:
        """Returns the new label indices, or -100 for padding and missing labels."""
        columns = columns.cpu()
        if bool((columns >= len(self.columns)).any()):
            raise ValueError(
                f"a batch has label index {int(columns.max())}, but label_set has {len(self.columns)} labels: pass the "
                "label set that the documents were encoded with"
            )
        return self.columns[columns.clamp(min=0)].masked_fill(columns < 0, IGNORE)

    def gold(self, columns: Tensor) -> Tensor:
        if columns.is_floating_point() or columns.dtype == torch.bool:
            raise ValueError("with label_set=, gold labels must be label indices padded with -100, got zeros and ones")
        new = self(columns)
        lost = columns.cpu()[(columns.cpu() >= 0) & (new < 0)]
        if len(lost):
            raise ValueError(
                f"the index lacks label {self.old[int(lost[0])].id!r} of a document: add it to the index, or encode "
                "the documents again (encode_dataset with on_unknown_label='drop')"
            )
        return new


def _exclude(scores: Tensor, columns: Tensor) -> None:
    check_excluded(columns, len(scores), scores.shape[1])
    document, position = (columns >= 0).nonzero(as_tuple=True)
    scores[document.to(scores.device), columns[document, position].to(scores.device)] = -torch.inf
