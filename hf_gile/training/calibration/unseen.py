"""How sure a model may be of labels it was never trained on, fitted on labels held out of training."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ...models import GileForSequenceClassification, towers_of
from ...models.losses_gile import multi_hot
from .thresholds import LEAST_DOCUMENTS, LEAST_GOLD, tells_enough


@torch.no_grad()
def fit_unseen_calibration(
    model: GileForSequenceClassification,
    batches: Iterable[dict[str, Tensor]],
    columns: Sequence[int],
    bf16: bool = False,
) -> dict[str, float]:
    """Fits the score of labels without a row, a logistic regression on held-out ones, and sets it in the model.

        score = unseen_scale * (score without the words) + lexical_scale * cosine of the words + unseen_offset

    A model scores labels that it was not trained on as surely as the others, and is right less often; and what their
    words in the document tell, no training document shows, as the model knows more of those labels than their words.

    Args:
        model: A `GileForSequenceClassification` with `config.lexical_size` and `config.label_rows`, that was not
            trained on these labels.
        batches: Documents that have some of them, as `GileDataCollator` makes them, with `labels` (B, P).
        columns: The columns of these labels among the stored ones.
        bf16: Whether to run under bfloat16 autocast.

    Returns:
        `unseen_scale`, `lexical_scale` and `unseen_offset`: fields of `GileConfig`, for a final training on all labels.

    Raises:
        ValueError: The model has no such terms, a label was trained on, or too few documents have these labels. The
            model stays as it was then.
    """
    gile = towers_of(model)
    if not (gile.config.lexical_size and gile.config.label_rows):
        raise ValueError("the calibration of unseen labels is of models with lexical_size and label_rows")
    chosen = torch.as_tensor(columns, device=model.device)
    if bool(gile.label_rows.weight[chosen].any()):
        raise ValueError("columns holds a label that has a row: it was trained on, and nothing can be learned of it")
    names, was_training = ("unseen_scale", "lexical_scale", "unseen_offset"), model.training
    before = [getattr(gile.config, name) for name in names]

    def use(numbers: Iterable[float]) -> None:
        for name, number in zip(names, numbers, strict=True):
            setattr(gile.config, name, number)

    model.eval()
    without, cosines, gold = [], [], []
    try:
        for batch in batches:
            inputs = {name: value.to(model.device) for name, value in batch.items() if name != "labels"}
            scores = []
            for trial in ((1.0, 0.0, 0.0), (1.0, 100.0, 0.0)):  # 100: of few bits, cosines would be lost in a score
                use(trial)
                with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                    scores.append(model(**inputs).logits[:, chosen].double().cpu())
            without.append(scores[0])
            cosines.append((scores[1] - scores[0]) / 100)
            gold.append(multi_hot(batch["labels"].reshape(len(scores[0]), -1), gile.config.num_labels)[:, chosen.cpu()])
    finally:
        model.train(was_training)
        use(before)
    own, words, targets = torch.cat(without), torch.cat(cosines), torch.cat(gold).double()
    documents, number = int(targets.any(1).sum()), int(targets.sum())
    if not tells_enough(documents, number):
        raise ValueError(
            f"{number} gold labels of {documents} documents are held-out ones: too few to fit, at least {LEAST_GOLD} "
            f"of {LEAST_DOCUMENTS} documents are needed; hold out more labels, or ones with more documents"
        )
    numbers = torch.tensor([1.0, gile.config.lexical_scale, 0.0], dtype=torch.double, requires_grad=True)
    optimizer = torch.optim.LBFGS([numbers], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = numbers[0] * own + numbers[1] * words + numbers[2]
        total = functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        total.backward()
        return total

    with torch.enable_grad():
        optimizer.step(loss)
    use(numbers.tolist())
    return dict(zip(names, numbers.tolist(), strict=True))
