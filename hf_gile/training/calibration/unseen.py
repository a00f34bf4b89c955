"""How sure a model may be of labels it was never trained on, fitted on labels held out of training."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ...models import GileForSequenceClassification, towers_of
from ...models.configuration_gile import TERMS
from ...models.losses_gile import multi_hot
from .thresholds import LEAST_DOCUMENTS, LEAST_GOLD, tells_enough


@torch.no_grad()
def fit_unseen_weights(
    model: GileForSequenceClassification,
    batches: Iterable[dict[str, Tensor]],
    columns: Sequence[int],
    bf16: bool = False,
) -> dict[str, float]:
    """Fits what each term of the score counts for labels without a row, on held-out ones, and sets it in the model.

    It is a logistic regression on the terms. A model scores labels that it was not trained on as surely as the others,
    and is right less often; and what their words in the document tell, no training document shows, as the model knows
    more of those labels than their words.

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
    chosen = torch.as_tensor(columns, device=model.device)
    if bool(gile.label_rows.weight[chosen].any()):
        raise ValueError("columns holds a label that has a row: it was trained on, and nothing can be learned of it")
    terms, targets = _terms_of(model, batches, chosen, bf16)
    documents, number = int(targets.any(1).sum()), int(targets.sum())
    if not tells_enough(documents, number):
        raise ValueError(
            f"{number} gold labels of {documents} documents are held-out ones: too few to fit, at least {LEAST_GOLD} "
            f"of {LEAST_DOCUMENTS} documents are needed; hold out more labels, or ones with more documents"
        )
    bias = float(gile.output_layer.bias())
    start = [TERMS[name]["unseen"] for name in terms]
    numbers = torch.tensor([*start, 0.0], dtype=torch.double, requires_grad=True)
    optimizer = torch.optim.LBFGS([numbers], max_iter=200, line_search_fn="strong_wolfe")
    stacked = torch.stack([*terms.values(), torch.ones_like(targets)], dim=-1)

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = functional.binary_cross_entropy_with_logits(stacked @ numbers + bias, targets, reduction="sum")
        total.backward()
        return total

    with torch.enable_grad():
        optimizer.step(loss)
    weights = dict(zip((*terms, "offset"), numbers.tolist(), strict=True))
    gile.config.term_weights = {**gile.config.term_weights, "unseen": weights}
    return weights


def _terms_of(
    model: GileForSequenceClassification, batches: Iterable[dict[str, Tensor]], columns: Tensor, bf16: bool
) -> tuple[dict[str, Tensor], Tensor]:
    """The `(N, C)` numbers that each term gives some labels, and which are gold, as numbers."""
    config, was_training = model.config, model.training
    before, bias = config.term_weights, float(towers_of(model).output_layer.bias())
    has = {"joint": True, "cosine": config.cosine_score, "match": config.lexical, "coverage": config.lexical}
    silent = {name: 0.0 for name, is_term in has.items() if is_term}
    terms: dict[str, list[Tensor]] = {name: [] for name in silent}
    gold = []
    model.eval()
    try:
        for batch in batches:
            inputs = {name: value.to(model.device) for name, value in batch.items() if name != "labels"}
            for name, numbers in terms.items():
                config.term_weights = {"unseen": {**silent, name: 1.0}}
                with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                    logits = model(**inputs).logits[:, columns]
                numbers.append(logits.double().cpu() - bias)
            gold.append(multi_hot(batch["labels"].reshape(len(logits), -1), config.num_labels)[:, columns.cpu()])
    finally:
        model.train(was_training)
        config.term_weights = before
    return {name: torch.cat(numbers) for name, numbers in terms.items()}, torch.cat(gold).double()
