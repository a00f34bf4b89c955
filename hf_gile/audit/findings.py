"""Finds labels of documents that are probably wrong or missing, according to a model, and labels that drift.

The model must not have been trained on these documents: it would have memorized their errors.

Shapes: B documents in the batch, L labels.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..metrics.batch import Array, read_batch
from ..metrics.calibration import make_gold_mask
from ..models import GileForSequenceClassification, GileProcessor, unwrapped
from ..models.losses_gile import IGNORE
from ..models.registration import evaluating
from ..models.search_gile import calibrated
from ..models.texts_gile import pad_rows

PER_DOCUMENT = 20
"""Maximum number of missing labels per document."""

SHARE = 0.05
"""Default number of findings of each kind, as a share of the number of assigned labels."""

MOST = 1000
"""Upper limit of the default number of findings of each kind."""


@dataclass(frozen=True)
class Finding:
    """A label of a document to review.

    Args:
        document: Index of the document.
        column: Index of the label.
        probability: Probability that a document with this text has the label.
        assigned: Whether the label is assigned and probably wrong; otherwise it is probably missing.
        instead: Index of the best label that is not assigned, if its probability is at least a half: a wrong label may
            stand for it. None if nothing else fits: perhaps the text only does not mention the label.
    """

    document: int
    column: int
    probability: float
    assigned: bool
    instead: int | None = None


@dataclass(frozen=True)
class Audit:
    """Result of an `Auditor`.

    Args:
        wrong: Assigned labels, least probable first.
        missing: Headings that are not assigned, most probable first.
        corrections: `(N,)` expected number of corrections of each document.
        used: `(L,)` number of documents that have each label.
        expected: `(L,)` number of documents that should have each label, according to the model.
    """

    wrong: list[Finding]
    missing: list[Finding]
    corrections: Tensor
    used: Tensor
    expected: Tensor

    def documents(self) -> list[int]:
        """Returns the indices of documents with findings, most expected corrections first."""
        indices = {finding.document for finding in (*self.wrong, *self.missing)}
        return sorted(indices, key=lambda index: (-float(self.corrections[index]), index))


@dataclass(frozen=True)
class Drift:
    """A label that two collections use differently.

    Args:
        column: Index of the label.
        used: Number of documents with the label in the first and in the second collection.
        expected: The same numbers according to the model.
        score: Difference in use from the first to the second collection, in standard deviations.
    """

    column: int
    used: tuple[int, int]
    expected: tuple[float, float]
    score: float


class Auditor:
    """Compares assigned labels with predicted probabilities, batch by batch, without storing all probabilities.

    Labels are ranked by self-confidence, the predicted probability of the existing annotation (Thyagarajan, Snorrason,
    Northcutt and Mueller, Identifying incorrect annotations in multi-label classification data, 2022).

    Args:
        num_labels: Number of labels L of every batch.
        most: Maximum number of findings of each kind; by default a twentieth of the number of assigned labels,
            rounded up, and at most 1,000.

    Example:
        >>> auditor = Auditor(num_labels=3, most=1)
        >>> auditor.update(torch.tensor([[0.9, 0.2, 0.8], [0.1, 0.7, 0.3]]), torch.tensor([[0, 1], [1, -100]]))
        >>> result = auditor.compute()
        >>> [(finding.document, finding.column) for finding in (*result.wrong, *result.missing)]
        [(0, 1), (0, 2)]
    """

    def __init__(self, num_labels: int, most: int | None = None) -> None:
        self.num_labels = num_labels
        self.most = most
        # Rows of probabilities, documents, columns, and labels instead (-1 for none); for assigned and missing labels.
        self._findings = {assigned: torch.empty(4, 0, dtype=torch.double) for assigned in (True, False)}
        self.corrections: list[Tensor] = []
        self.used = torch.zeros(num_labels, dtype=torch.long)
        self.expected = torch.zeros(num_labels, dtype=torch.double)
        self.documents = 0

    def update(self, probabilities: Array, labels: Array) -> None:
        """Adds a batch.

        Args:
            probabilities: `(B, L)` calibrated probabilities.
            labels: `(B, P)` assigned label indices, padded with -100, or `(B, L)` multi-hot.

        Raises:
            ValueError: If probabilities and labels do not match; nothing is added then.
        """
        values, gold = read_batch(probabilities, labels, self.num_labels)
        values = values.double().cpu()
        assigned = make_gold_mask(gold.cpu(), self.num_labels)
        best, others = values.masked_fill(assigned, -1).topk(min(PER_DOCUMENT, self.num_labels))
        instead = others[:, 0].masked_fill(best[:, 0] < 0.5, -1)
        rows, columns = assigned.nonzero(as_tuple=True)
        self._add(True, values[rows, columns], rows, columns, instead[rows])
        rows, ranks = (best >= 0).nonzero(as_tuple=True)
        self._add(False, best[rows, ranks], rows, others[rows, ranks], torch.full_like(rows, -1))
        self.corrections.append((assigned.double() - values).abs().sum(1))
        self.used += assigned.sum(0)
        self.expected += values.sum(0)
        self.documents += len(values)

    def _add(
        self,
        assigned: bool,
        values: Tensor,
        rows: Tensor,
        columns: Tensor,
        instead: Tensor,
    ) -> None:
        new = torch.stack([values, rows + self.documents, columns, instead])
        candidates = torch.cat([self._findings[assigned], new], dim=1)
        order = candidates[0].argsort(descending=not assigned, stable=True)[: self.most or MOST]
        self._findings[assigned] = candidates[:, order]

    def compute(self) -> Audit:
        """Returns the findings so far.

        Raises:
            ValueError: If there are no documents yet.
        """
        if not self.documents:
            raise ValueError("no documents to audit: call update first")
        most = self.most or min(MOST, math.ceil(SHARE * int(self.used.sum())))
        wrong, missing = (
            [
                Finding(int(row), int(column), value, assigned, None if instead < 0 else int(instead))
                for value, row, column, instead in findings.T[:most].tolist()
            ]
            for assigned, findings in self._findings.items()
        )
        return Audit(wrong, missing, torch.cat(self.corrections), self.used.clone(), self.expected.clone())


@torch.no_grad()
def audit(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    texts: Sequence[str],
    labels: Sequence[Iterable[str]],
    *,
    most: int | None = None,
    batch_size: int = 32,
    bf16: bool = False,
    language: str | None = None,
    progress: bool = False,
) -> Audit:
    """Scores documents against the stored labels of a model, and compares the scores with the assigned labels.

    Args:
        model: A `GileForSequenceClassification` with a label set, preferably calibrated, that was not trained on the
            documents. Its mode (training or evaluation) is restored.
        processor: The `GileProcessor` saved with the model.
        texts: N texts.
        labels: Label ids of each text.
        most: Maximum number of findings of each kind; see `Auditor`.
        batch_size: Number of documents scored at a time.
        bf16: Whether to run under bfloat16 autocast.
        language: Language of the documents, for a multilingual model.
        progress: Whether to show a progress bar.

    Raises:
        ValueError: If the numbers of texts and label lists differ, there are no documents, the model has no label set,
            or a label id is unknown.

    Example:
        findings = audit(model, processor, rows["text"], rows["labels"])
        write_audit("runs/audit", findings, model.label_set, rows["id"], rows["text"], rows["labels"])
    """
    model = unwrapped(model)
    if model.label_set is None:
        raise ValueError("the model has no label set: call model.set_labels(label_set, processor)")
    if len(texts) != len(labels):
        raise ValueError(f"labels must have a list of ids for each of the {len(texts)} texts, got {len(labels)}")
    auditor = Auditor(model.config.num_labels, most)
    with evaluating(model):
        for start in tqdm(range(0, len(texts), batch_size), desc="documents", unit="batch", disable=not progress):
            batch = slice(start, start + batch_size)
            rows = [model.label_set.columns(dict.fromkeys(ids)) for ids in labels[batch]]
            words = processor(list(texts[batch]), language=language, return_tensors="pt")
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                logits = model(**words.to(model.device)).logits
            logits = calibrated(logits, model.stored_labels.seen(), model.config.calibration)
            is_single = model.config.problem_type == "single_label_classification"
            auditor.update(logits.softmax(-1) if is_single else logits.sigmoid(), pad_rows(rows, IGNORE))
    return auditor.compute()


def drift(first: Audit, second: Audit, most: int = MOST) -> list[Drift]:
    """Ranks labels by how differently two collections use them.

    The predictions of the model account for topics: a label that is used more often because more documents are on its
    topic has not drifted. If both collections use a label in the same way, of n documents with the label

        n e2 / (e1 + e2)

    are expected in the second collection, where e1 and e2 are the numbers that the model predicts. The score is the
    deviation from this number, in standard deviations of the binomial distribution: the comparison of two Poisson rates
    by Przyborowski and Wilenski (1940).

    Args:
        first: Audit of the first collection.
        second: Audit of the second collection, with the same model.
        most: Maximum number of labels.

    Returns:
        Labels that occur in a collection, largest difference first.
    """
    total = (first.used + second.used).double()
    share = (second.expected / (first.expected + second.expected)).clamp(1e-6, 1 - 1e-6)
    scores = (second.used - total * share) / (total * share * (1 - share)).sqrt()
    scores = torch.where(total > 0, scores, 0.0)
    order = scores.abs().argsort(descending=True, stable=True)[:most]
    order = order[total[order] > 0]
    used = torch.stack([first.used, second.used], dim=1)[order].tolist()
    expected = torch.stack([first.expected, second.expected], dim=1)[order].tolist()
    rows = zip(order.tolist(), map(tuple, used), map(tuple, expected), scores[order].tolist(), strict=True)
    return [Drift(*row) for row in rows]
