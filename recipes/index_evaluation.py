"""Evaluation with a label index, in memory independent of the number of documents.

Shapes: B documents in a batch, L labels scored, P gold labels of a document, E excluded labels of a document.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hf_gile import GileModel, LabelIndex
from hf_gile.metrics.trainer import TrainerMetric
from hf_gile.models import Scorer, get_towers, unwrapped
from hf_gile.models.languages_gile import check_language
from hf_gile.models.lexical_gile import LexicalFeatures
from hf_gile.models.losses_gile import check_excluded
from hf_gile.models.registration import evaluating


def evaluate_index(
    index: LabelIndex,
    model: Scorer,
    batches: Iterable[Mapping[str, Tensor]],
    metrics: TrainerMetric | Sequence[TrainerMetric],
    *,
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
            `lexical_counts`. They may be a stream. Label indices are those of `index.label_set`: encode the documents
            with it if it is not that of the model.
        metrics: Metrics over the L labels of the index: a `LabelMetrics`, or several. They are reset.
        max_scores: Number of documents times labels scored together, but at least a document with all labels.

    Returns:
        The results of all metrics.

    Raises:
        ValueError: If the index belongs to another model, batches have a language or label indices that the index does
            not have, or there are no documents.
    """
    measured = [metrics] if isinstance(metrics, TrainerMetric) else list(metrics)
    gile = get_towers(model)
    model = unwrapped(model)
    index.check_fits(gile)
    documents = max(1, max_scores // len(index))
    for metric in measured:
        metric.reset()
    with evaluating(model):
        for batch in batches:
            excluded = batch.get("excluded_columns")
            text_codes, words = encode_texts(index, gile, batch)
            for start in range(0, len(text_codes), documents):
                rows = slice(start, start + documents)
                scores = index.scores(text_codes[rows], lexical=words and words.take(rows))
                if excluded is not None:
                    _exclude(scores, excluded[rows])
                for metric in measured:
                    metric.update(scores, batch["labels"][rows])
    return {name: value for metric in measured for name, value in metric.compute().items()}


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


def _exclude(scores: Tensor, columns: Tensor) -> None:
    check_excluded(columns, len(scores), scores.shape[1])
    document, position = (columns >= 0).nonzero(as_tuple=True)
    scores[document.to(scores.device), columns[document, position].to(scores.device)] = -torch.inf
