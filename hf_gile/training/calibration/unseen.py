"""How sure a model may be of labels it was never trained on, fitted on labels held out of training."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ...models import GileForSequenceClassification, towers_of
from ...models.configuration_gile import TERMS
from ..convex import PADDING, Documents, Example, fit_term_weights, stacked
from .thresholds import LEAST_DOCUMENTS, LEAST_GOLD, tells_enough


@torch.no_grad()
def fit_unseen_weights(
    model: GileForSequenceClassification,
    batches: Iterable[dict[str, Tensor]],
    columns: Sequence[int],
    bf16: bool = False,
) -> dict[str, float]:
    """Fits what each term of the score counts for labels without a row, on held-out ones, and sets it in the model.

    It is a logistic regression on the terms, see `fit_term_weights`. A model scores labels that it was not trained on
    as surely as the others, and is right less often; and what their words in the document tell, no training document
    shows, as the model knows more of those labels than their words.

    Args:
        model: A `GileForSequenceClassification` with `config.label_rows`, that was not trained on these labels.
        batches: Documents that have some of them, as `GileDataCollator` makes them, with `labels` (B, P).
        columns: The columns of these labels among the stored ones.
        bf16: Whether to run under bfloat16 autocast.

    Returns:
        `config.term_weights["unseen"]`, for a final training on all labels.

    Raises:
        ValueError: The model has no rows, a label was trained on, or too few documents have these labels. The model
            stays as it was then.
    """
    gile = towers_of(model)
    if not gile.config.label_rows:
        raise ValueError("weights of unseen labels are of models that tell them from seen ones, by label_rows")
    chosen = torch.zeros(model.config.num_labels, dtype=torch.bool)
    chosen[list(columns)] = True
    if bool(gile.label_rows.weight[chosen.to(model.device)].any()):
        raise ValueError("columns holds a label that has a row: it was trained on, and nothing can be learned of it")
    example = _example(model, batches, chosen, bf16)
    is_gold = example.documents.gold >= 0
    documents, number = int(is_gold.any(1).sum()), int(is_gold.sum())
    if not tells_enough(documents, number):
        raise ValueError(
            f"{number} gold labels of {documents} documents are held-out ones: too few to fit, at least {LEAST_GOLD} "
            f"of {LEAST_DOCUMENTS} documents are needed; hold out more labels, or ones with more documents"
        )
    bias = float(gile.output_layer.bias())
    prior = {name: TERMS[name]["unseen"] for name in example.terms} | {"offset": bias}
    weights = fit_term_weights([example], {"unseen": prior}, one_label=False)[0]["unseen"]
    weights["offset"] -= bias
    gile.config.term_weights = {**gile.config.term_weights, "unseen": weights}
    return weights


def _example(
    model: GileForSequenceClassification, batches: Iterable[dict[str, Tensor]], chosen: Tensor, bf16: bool
) -> Example:
    """What each term gives the labels chosen, a `(L,)` mask, without the bias, and which of them are gold."""
    config, was_training = model.config, model.training
    before, bias = config.term_weights, float(towers_of(model).output_layer.bias())
    has = {"joint": True, "cosine": config.cosine_score, "match": config.lexical, "coverage": config.lexical}
    silent = {name: 0.0 for name, is_term in has.items() if is_term}
    number = int(chosen.sum())
    terms = {name: [torch.empty(0, number)] for name in silent}
    tables = {name: [torch.empty(0, 0, dtype=torch.long)] for name in ("labels", "excluded_columns")}
    model.eval()
    try:
        for batch in batches:
            inputs = {name: value.to(model.device) for name, value in batch.items() if name not in tables}
            for name, numbers in terms.items():
                config.term_weights = {"unseen": {**silent, name: 1.0}}
                with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                    logits = model(**inputs).logits.float().cpu()
                numbers.append(logits[:, chosen] - bias)
            for name, some in tables.items():
                some.append(batch.get(name, torch.empty(len(logits), 0, dtype=torch.long)).reshape(len(logits), -1))
    finally:
        model.train(was_training)
        config.term_weights = before
    gold, excluded = (stacked(*some, padding=PADDING).cpu() for some in tables.values())
    documents = Documents(torch.empty(len(gold), 0), gold, excluded).among(chosen)
    whole = {name: torch.cat(numbers) for name, numbers in terms.items()}
    return Example(whole, documents, torch.zeros(number, dtype=torch.bool))
