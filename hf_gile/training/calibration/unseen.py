"""Fits the weights of score terms for unseen labels on held-out labels."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ...models import GileForSequenceClassification, get_towers
from ...models.mixture_gile import TERMS
from ..convex import PADDING, Documents, Example, fit_term_weights, stacked
from .thresholds import MIN_DOCUMENTS, MIN_GOLD, tells_enough


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
    """Computes each term for selected labels, a `(L,)` mask, without the bias, and their gold labels."""
    config, was_training = model.config, model.training
    term_weights, bias = config.term_weights, float(get_towers(model).output_layer.bias())
    available = {"joint": True, "cosine": config.cosine_score, "match": config.lexical, "coverage": config.lexical}
    zero_weights = {name: 0.0 for name, is_available in available.items() if is_available}
    number = int(chosen.sum())
    terms = {name: [torch.empty(0, number)] for name in zero_weights}
    tables = {name: [torch.empty(0, 0, dtype=torch.long)] for name in ("labels", "excluded_columns")}
    model.eval()
    try:
        for batch in batches:
            inputs = {name: value.to(model.device) for name, value in batch.items() if name not in tables}
            for name, parts in terms.items():
                config.term_weights = {"unseen": {**zero_weights, name: 1.0}}
                with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                    logits = model(**inputs).logits.float().cpu()
                parts.append(logits[:, chosen] - bias)
            for name, rows in tables.items():
                rows.append(batch.get(name, torch.empty(len(logits), 0, dtype=torch.long)).reshape(len(logits), -1))
    finally:
        model.train(was_training)
        config.term_weights = term_weights
    gold, excluded = (stacked(*rows, padding=PADDING).cpu() for rows in tables.values())
    documents = Documents(torch.empty(len(gold), 0), gold, excluded).among(chosen)
    concatenated = {name: torch.cat(parts) for name, parts in terms.items()}
    return Example(concatenated, documents, torch.zeros(number, dtype=torch.bool))
