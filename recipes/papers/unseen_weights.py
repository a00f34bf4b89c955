"""Fits the weights of score terms for unseen labels on held-out labels."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hf_gile.models import GileForSequenceClassification, Label, get_towers
from hf_gile.models.languages_gile import label_space, run_by_language
from hf_gile.models.lexical_gile import LexicalFeatures, Postings
from hf_gile.models.mixture_gile import TERMS, WORD_TERMS
from hf_gile.models.registration import evaluating
from hf_gile.training.calibration.thresholds import MIN_DOCUMENTS, MIN_GOLD, tells_enough
from hf_gile.training.convex.documents import Documents, stacked
from hf_gile.training.convex.term_weights import Example, fit_term_weights
from hf_gile.training.experiment import Experiment


def weigh_unseen(experiment: Experiment) -> dict[str, float]:
    """Fits the weights of score terms for unseen labels on held-out labels.

    Args:
        experiment: A trained model with its documents and held-out labels.

    Returns:
        The result of `fit_unseen_weights`; empty if too few validation documents have held-out labels, or labels have
        no rows.
    """
    rows = experiment.parts["validation"]
    columns = [column for column, label in enumerate(experiment.labels) if label.id in experiment.held_out]
    numbers = [len(set(columns).intersection(row)) for row in rows["labels"]]
    if not experiment.model.config.label_rows or not tells_enough(int(np.count_nonzero(numbers)), sum(numbers)):
        return {}
    batches: Any = experiment.trainer.get_eval_dataloader(rows)
    return fit_unseen_weights(experiment.model, batches, columns, bf16=experiment.args.bf16)


@torch.no_grad()
def fit_unseen_weights(
    model: GileForSequenceClassification,
    batches: Iterable[dict[str, Tensor]],
    columns: Sequence[int],
    bf16: bool = False,
) -> dict[str, float]:
    """Fits the weights of score terms for labels without a row on held-out labels, and sets them in the model.

    This is a logistic regression on the terms, see `fit_term_weights`. Without it, a model is as confident about unseen
    labels as about seen labels, but less often right. The weight of lexical terms cannot be learned from training
    documents, because the model has learned more about seen labels than their words.

    Args:
        model: A `GileForSequenceClassification` with `config.label_rows`, not trained on these labels.
        batches: Documents with held-out labels, from `GileDataCollator`, with `labels` (B, P).
        columns: Indices of the held-out labels among the stored labels.
        bf16: Whether to run under bfloat16 autocast.

    Returns:
        `config.term_weights["unseen"]`, for a final training on all labels.

    Raises:
        ValueError: If the model has no rows, a label was trained on, or too few documents have these labels. The model
            stays unchanged then.
    """
    gile = get_towers(model)
    if not gile.config.label_rows:
        raise ValueError("weights of unseen labels need a model that distinguishes seen labels, by label_rows")
    chosen = torch.zeros(model.config.num_labels, dtype=torch.bool)
    chosen[list(columns)] = True
    if bool(gile.label_rows().seen[chosen.to(model.device)].any()):
        raise ValueError("columns contains a label with a row: it was seen in training, so it is not held out")
    example = _compute_terms(model, batches, chosen, bf16)
    is_gold = example.documents.gold >= 0
    documents, number = int(is_gold.any(1).sum()), int(is_gold.sum())
    if not tells_enough(documents, number):
        raise ValueError(
            f"{documents} documents have {number} held-out gold labels: too few to fit, at least {MIN_GOLD} in "
            f"{MIN_DOCUMENTS} documents are needed; hold out more labels, or more frequent labels"
        )
    bias = float(gile.output_layer.bias())
    prior = {name: TERMS[name]["unseen"] for name in example.terms} | {"offset": bias}
    weights = fit_term_weights([example], {"unseen": prior}, one_label=False)[0]["unseen"]
    weights["offset"] -= bias
    gile.config.term_weights = {**gile.config.term_weights, "unseen": weights}
    return weights


def _compute_terms(
    model: GileForSequenceClassification, batches: Iterable[dict[str, Tensor]], chosen: Tensor, bf16: bool
) -> Example:
    """Computes each term for selected labels, a `(L,)` mask, as labels without rows, and the gold labels among them."""
    config = model.config
    columns = chosen.nonzero()[:, 0]
    terms: dict[str, list[Tensor]] = {}
    gold = [torch.empty(0, 0, dtype=torch.long)]
    excluded = [torch.empty(0, 0, dtype=torch.long)]
    with evaluating(model):
        inputs = model.stored_inputs(columns.to(model.device))
        e = model.gile.embed_labels(inputs["label_input_ids"], inputs.get("label_language"))
        postings = None
        if config.lexical:
            idf = model.gile.output_layer.lexical()
            stored = model.label_set or [Label(name, name) for name in config.id2label.values()]
            labels = [stored[column] for column in columns.tolist()]
            postings = Postings.build(
                labels,
                idf,
                torch.zeros(len(WORD_TERMS), len(columns), device=idf.device),
                full_length=config.full_length,
            )
        for batch in batches:
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                scores = _score_terms(model, batch, e)
            features = LexicalFeatures.of(batch)
            if postings is not None and features is not None:
                scores["match"], scores["coverage"], *_ = postings.terms(features.to(idf.device))
            for name, values in scores.items():
                terms.setdefault(name, []).append(values.float().cpu())
            number = len(batch["labels"])
            gold.append(batch["labels"].reshape(number, -1))
            excluded.append(batch.get("excluded_columns", gold[0].new_empty(number, 0)))
    joined = {name: torch.cat(parts) for name, parts in terms.items()}
    number = sum(map(len, gold))
    documents = Documents(torch.empty(number, 0), stacked(*gold).cpu(), stacked(*excluded).cpu()).among(chosen)
    return Example(joined, documents, torch.zeros(len(columns), dtype=torch.bool))


def _score_terms(model: GileForSequenceClassification, batch: dict[str, Tensor], e: Tensor) -> dict[str, Tensor]:
    """Computes the terms that are inner products, of documents and `(C, D)` label vectors, `(B, C)` each."""
    layer = model.gile.output_layer
    label = layer.split_parts(e)
    terms = {name: term for name, term in layer.terms.items() if name != "rows"}

    def score(language: str | None, **documents: Any) -> tuple[Tensor, ...]:
        h, _ = model.gile.embed_texts(**documents, language=language)
        text = layer.split_parts(h)
        space = label_space(model.config, language)
        scores = []
        for term in terms.values():
            codes = term.label_part(label, space)
            parts = term.text_part(text, language).items()
            scores.append(torch.stack([part @ codes[name].T for name, part in parts]).sum(0))
        return tuple(scores)

    names = ("input_ids", "attention_mask", "inputs_embeds", "pooled_embeds")
    documents: dict[str, Tensor | None] = {name: batch[name].to(model.device) for name in names if name in batch}
    scores = run_by_language(model.config, batch.get("language"), documents, score)
    return dict(zip(terms, scores, strict=True))
