"""Headings of documents that are probably wrong, or missing, by the probabilities of a model.

The model must not have been trained on the documents: it would know their errors by heart.

Shapes: B documents in the batch, L labels.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..label_index import LabelIndex
from ..metrics.batch import Array, read_batch
from ..metrics.evaluation import encode_texts
from ..models import GileForSequenceClassification, GileProcessor, LabelSet, unwrapped
from ..models.losses_gile import IGNORE
from ..models.processing_gile import pad_rows
from ..models.search_gile import calibrated

PER_DOCUMENT = 20
"""Missing headings of a document that may be findings."""

SHARE, MOST = 0.05, 1000
"""By default there are as many findings of each kind as this share of the assigned headings, and at most this many."""


@dataclass(frozen=True)
class Finding:
    """A heading to look at.

    Args:
        document: The place of the document.
        column: The column of the label.
        probability: That a document with this text has the label.
        assigned: Whether the document has the label, which is then probably wrong; else it is probably missing.
    """

    document: int
    column: int
    probability: float
    assigned: bool


@dataclass(frozen=True)
class Audit:
    """What `Auditor` finds.

    Args:
        wrong: Assigned headings, the least probable first.
        missing: Headings that are not assigned, the most probable first.
        corrections: `(N,)` corrections to expect in each document.
        used: `(L,)` documents that have each label.
        expected: `(L,)` documents that have each label by the model.
    """

    wrong: list[Finding]
    missing: list[Finding]
    corrections: Tensor
    used: Tensor
    expected: Tensor

    def documents(self) -> list[int]:
        """The documents with findings, those with the most corrections to expect first."""
        places = {finding.document for finding in (*self.wrong, *self.missing)}
        return sorted(places, key=lambda place: (-float(self.corrections[place]), place))


class Auditor:
    """Compares the labels of documents with probabilities, batch by batch, in memory that grows with findings only.

    Labels are ranked by self-confidence, the probability of what the collection says (Thyagarajan, Snorrason, Northcutt
    and Mueller, Identifying incorrect annotations in multi-label classification data, 2022).

    Args:
        num_labels: Number of labels L of every batch.
        most: The most findings of each kind; by default a twentieth of the assigned headings, rounded up, and at most
            1,000.

    Raises:
        ValueError: `most` is not positive.

    Example:
        >>> auditor = Auditor(num_labels=3, most=1)
        >>> auditor.update(torch.tensor([[0.9, 0.2, 0.8], [0.1, 0.7, 0.3]]), torch.tensor([[0, 1], [1, -100]]))
        >>> result = auditor.compute()
        >>> [(finding.document, finding.column) for finding in (*result.wrong, *result.missing)]
        [(0, 1), (0, 2)]
    """

    def __init__(self, num_labels: int, most: int | None = None) -> None:
        if most is not None and most < 1:
            raise ValueError(f"most must be at least 1 finding, got {most}")
        self.num_labels, self.most = num_labels, most
        # Of assigned and of other labels: (probability, document, column) of the findings so far.
        self.found = {assigned: torch.empty(3, 0, dtype=torch.double) for assigned in (True, False)}
        self.corrections: list[Tensor] = []
        self.used = torch.zeros(num_labels, dtype=torch.long)
        self.expected = torch.zeros(num_labels, dtype=torch.double)
        self.documents = 0

    def update(self, probabilities: Array, labels: Array) -> None:
        """Adds a batch.

        Args:
            probabilities: `(B, L)`, calibrated.
            labels: `(B, P)` columns of the labels that the documents have, padded with -100, or `(B, L)` multi-hot.

        Raises:
            ValueError: If they do not fit together; nothing is added then.
        """
        values, gold = read_batch(probabilities, labels, self.num_labels)
        values, gold = values.double().cpu(), gold.cpu()
        assigned = torch.zeros(len(values), self.num_labels + 1, dtype=torch.bool)
        assigned = assigned.scatter_(1, gold.masked_fill(gold == IGNORE, self.num_labels), True)[:, :-1]
        rows, columns = assigned.nonzero(as_tuple=True)
        self._keep(True, values[rows, columns], rows, columns)
        best, columns = values.masked_fill(assigned, -1).topk(min(PER_DOCUMENT, self.num_labels))
        rows, places = (best >= 0).nonzero(as_tuple=True)
        self._keep(False, best[rows, places], rows, columns[rows, places])
        self.corrections.append((assigned.double() - values).abs().sum(1))
        self.used += assigned.sum(0)
        self.expected += values.sum(0)
        self.documents += len(values)

    def _keep(self, assigned: bool, values: Tensor, rows: Tensor, columns: Tensor) -> None:
        new = torch.stack([values, (rows + self.documents).double(), columns.double()])
        every = torch.cat([self.found[assigned], new], dim=1)
        order = every[0].argsort(descending=not assigned, stable=True)[: self.most or MOST]
        self.found[assigned] = every[:, order]

    def compute(self) -> Audit:
        """Returns the findings so far.

        Raises:
            ValueError: No document came yet.
        """
        if not self.documents:
            raise ValueError("no documents to audit: call update first")
        most = self.most or min(MOST, math.ceil(SHARE * int(self.used.sum())))
        wrong, missing = (
            [Finding(int(row), int(column), value, assigned) for value, row, column in found.T[:most].tolist()]
            for assigned, found in self.found.items()
        )
        return Audit(wrong, missing, torch.cat(self.corrections), self.used.clone(), self.expected.clone())


@torch.no_grad()
def audit(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    texts: Sequence[str],
    labels: Sequence[Iterable[str]],
    *,
    index: LabelIndex | None = None,
    most: int | None = None,
    batch_size: int = 32,
    bf16: bool = False,
    language: str | None = None,
    progress: bool = False,
) -> Audit:
    """Scores documents with the stored labels of a model, and compares these with the labels that they have.

    Args:
        model: A `GileForSequenceClassification` with a label set, best calibrated, that was not trained on the
            documents; its mode is afterwards as before.
        processor: The `GileProcessor` saved with it.
        texts: N texts.
        labels: For each the ids of its labels.
        index: Index of the stored labels; without it, they are encoded again.
        most: The most findings of each kind; see `Auditor`.
        batch_size: Documents scored at a time.
        bf16: Whether to run under bfloat16 autocast.
        language: The language of the documents, in a model of several.
        progress: Whether to show a progress bar.

    Raises:
        ValueError: Not as many lists of labels as texts, no documents, no label set, an id that no label has, or an
            index of other labels or of another model.

    Example:
        found = audit(model, processor, rows["text"], rows["labels"])
        write_audit("runs/audit", found, model.label_set, rows["id"], rows["text"], rows["labels"])
    """
    model = unwrapped(model)
    label_set: LabelSet | None = model.label_set
    if label_set is None:
        raise ValueError("the model has no label set: call model.set_labels(label_set, processor)")
    if len(texts) != len(labels):
        raise ValueError(f"labels must have a list of ids for each of the {len(texts)} texts, got {len(labels)}")
    if index is not None:
        index.check_fits(model, (language, language))
        if index.label_set.ids != label_set.ids:
            raise ValueError("the index has other labels than the model, or in another order: build it again")
    config, seen = model.config, model.stored_labels.seen()
    one_label = config.problem_type == "single_label_classification"
    auditor, was_training = Auditor(config.num_labels, most), model.training
    model.eval()
    try:
        for start in tqdm(range(0, len(texts), batch_size), desc="documents", unit="batch", disable=not progress):
            rows = [label_set.columns(dict.fromkeys(ids)) for ids in labels[start : start + batch_size]]
            words = processor(list(texts[start : start + batch_size]), language=language, return_tensors="pt")
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                if index is None:
                    logits = model(**words.to(model.device), language=language).logits
                else:
                    text_codes, lexical_ids = encode_texts(index, model.gile, words)
                    logits = index.scores(text_codes, lexical_ids=lexical_ids)
            logits = calibrated(logits, seen, config.calibration)
            auditor.update(logits.softmax(-1) if one_label else logits.sigmoid(), pad_rows(rows, IGNORE))
    finally:
        model.train(was_training)
    return auditor.compute()
