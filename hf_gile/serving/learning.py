"""Learns from corrected documents: steps of the codes of their labels, and a journal of the documents.

Shapes: B documents, L labels, J size of a code.
"""

import json
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from ..label_index import LabelIndex
from ..models import LabelScoringPipeline
from ..models.pipeline_gile import EncodedTexts, Options
from ..models.saving_gile import sync_to_disk
from ..models.search_gile import calibrated
from .messages import BATCH

logger = logging.getLogger(__name__)

JOURNAL = "corrections.jsonl"
"""File of the corrections, which `hf-gile train` reads: lines with `text` and `labels`."""

MARGIN = 2.0
"""How far a correct label should lead the others, in calibrated logits: 2 are odds of 7 to 1."""

LEVERAGE = 4.0
"""Weight of a document relative to the prior: n equal documents move a score by 4n / (4n + 1) of what it lacks."""

_NAMES = 512
"""Maximum number of label names from which the spread of texts is estimated."""

_FARTHEST = 32.0
"""Largest step of a score."""


class JournalFull(ValueError):
    """No further corrections fit into the journal."""


@dataclass(frozen=True)
class Correction:
    """A document and the ids of all its labels."""

    text: str
    labels: tuple[str, ...]


class Learner:
    """Learns from corrected documents.

    The score of a label l is the inner product of its code and the code x of a document. From the corrected documents
    i that have l, its code changes by a ridge regression of what their scores lack, r_il:

        step_l = A^-1 sum_i r_il x_i,    A = A_0 + sum_j x_j x_j^T

    r_il raises the calibrated logit of l above all labels that i does not have, by `MARGIN`. The sum over j has all
    documents corrected so far, and A_0 the names of the labels, so that scores of other texts change little. Only the
    codes of labels of a corrected document change. A text that is corrected again replaces its earlier correction.

    Args:
        pipe: Pipeline of the model; the model is not changed.
        folder: Folder of the journal, created if needed. Its corrections are learned again.
        most_documents: Maximum number of lines of the journal.
        most_bytes: Maximum size of the journal.

    Attributes:
        index: The stored labels with their learned codes.

    Raises:
        ValueError: If another process uses the folder, or a line of the journal is damaged.
        OSError: If the folder cannot be written to.
    """

    def __init__(
        self,
        pipe: LabelScoringPipeline,
        folder: str | os.PathLike[str],
        most_documents: int = 10_000,
        most_bytes: int = 1 << 26,
    ) -> None:
        self._pipe = pipe
        self._file = Path(folder) / JOURNAL
        self._most_documents = most_documents
        self._most_bytes = most_bytes
        self._mutex = Lock()
        self.index = LabelIndex.build(pipe.model, pipe.processor)
        self._codes = self.index.codes.cpu().double()
        self._seen = torch.tensor(self.index.label_set.seen)
        self._inverse = self._estimate_prior()
        self._sums: dict[int, Tensor] = {}
        self._learned: dict[str, tuple[Tensor, dict[int, float]]] = {}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._folder_lock = FileLock(self._file.parent / ".lock")
        try:
            self._folder_lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(f"{self._file.parent} is in use by another service: name another folder") from None
        self._documents = 0
        self._bytes = 0
        corrections = self._read_journal()
        for start in range(0, len(corrections), BATCH):
            part = corrections[start : start + BATCH]
            self._apply(part, self._encode([correction.text for correction in part]))

    def close(self) -> None:
        """Releases the folder."""
        self._folder_lock.release()

    def learn(self, corrections: Sequence[Correction]) -> None:
        """Learns from documents, once they are safe on disk: all of them, or none.

        Raises:
            ValueError: If a label is unknown or a text cannot be read.
            JournalFull: If the journal would exceed its limits.
            OSError: If the journal cannot be written.
        """
        for correction in corrections:
            self.index.label_set.columns(correction.labels)
        encoded = self._encode([correction.text for correction in corrections])
        with self._mutex:
            self._append(corrections)
            self._apply(corrections, encoded)

    def _estimate_prior(self) -> Tensor:
        """Returns the inverse of A_0: the second moments of label names and their mean, scaled by `LEVERAGE`."""
        names = self.index.label_set.names
        names = names[:: -(-len(names) // _NAMES)]
        starts = range(0, len(names), BATCH)
        codes = torch.cat([self._encode(names[start : start + BATCH]).codes for start in starts]).cpu().double()
        moments = codes.T @ codes / len(codes)
        moments += moments.diagonal().mean().clamp(min=1e-6) * torch.eye(len(moments)).double()
        inverse = torch.linalg.inv(moments)
        leverage = ((codes @ inverse) * codes).sum(1).mean()
        return inverse * (LEVERAGE / leverage)

    def _encode(self, texts: Sequence[str]) -> EncodedTexts:
        options = Options(language=self.index.language)
        return self._pipe.embed(self._pipe.tokenize(texts, options), options)

    def _apply(self, corrections: Sequence[Correction], read: EncodedTexts) -> None:
        """Changes the codes of the labels of documents, a document at a time."""
        for row, correction in enumerate(corrections):
            words = read.lexical and read.lexical.take([row])
            scores = self.index.scores(read.codes[row : row + 1], lexical=words)[0].cpu().double()
            self._step(correction, read.codes[row].cpu().double(), scores)

    def _step(self, correction: Correction, code: Tensor, scores: Tensor) -> None:
        """Learns from a document with its `(J,)` code and its present `(L,)` scores."""
        columns = self.index.label_set.columns(correction.labels)
        code_before, lacking_before = self._learned.get(correction.text, (code, {}))
        for column, lacking in lacking_before.items():
            self._sums[column] -= lacking * code_before
        if correction.text not in self._learned:
            gain = self._inverse @ code
            self._inverse -= torch.outer(gain, gain) / (1 + code @ gain)  # Sherman and Morrison
        lacking_now: dict[int, float] = {}
        if columns:
            learned = self.index.codes[columns].cpu().double() - self._codes[columns]
            lack = self._find_lack(scores, columns) + learned @ code  # beside the model without corrections
            lacking_now = dict(zip(columns, lack.clamp(min=0).tolist(), strict=True))
        self._learned[correction.text] = code, lacking_now
        for column, raised in lacking_now.items():
            self._sums[column] = self._sums.get(column, 0) + raised * code
        for column in {*columns, *lacking_before}:
            step = self._inverse @ self._sums[column]
            self.index.codes[column] = (self._codes[column] + step).to(self.index.codes)

    def _find_lack(self, scores: Tensor, columns: list[int]) -> Tensor:
        """Returns how far the scores of the labels of a document are below their aim."""
        config = self._pipe.model.config
        logits = calibrated(scores, self._seen, config.calibration)
        others = logits.clone()
        others[columns] = -torch.inf
        aim = others.max()
        if config.problem_type != "single_label_classification" or not aim.isfinite():
            aim = aim.clamp(min=0)
        low = scores
        high = scores + _FARTHEST
        for _ in range(40):  # calibrations are increasing, but have no formula for the inverse
            middle = (low + high) / 2
            is_below = calibrated(middle, self._seen, config.calibration) < aim + MARGIN
            low = torch.where(is_below, middle, low)
            high = torch.where(is_below, high, middle)
        return (high - scores)[columns]

    def _append(self, corrections: Iterable[Correction]) -> None:
        """Adds documents to the journal."""
        lines = [json.dumps(asdict(correction), ensure_ascii=False).encode() + b"\n" for correction in corrections]
        content = b"".join(lines)
        if self._documents + len(lines) > self._most_documents or self._bytes + len(content) > self._most_bytes:
            raise JournalFull(
                f"the journal has {self._documents:,} of at most {self._most_documents:,} documents and "
                f"{self._bytes:,} of at most {self._most_bytes:,} bytes: train with them (hf-gile train --train_files "
                f"{JOURNAL} --text text --labels labels), and serve the new model with an empty folder"
            )
        try:
            with self._file.open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            os.truncate(self._file, self._bytes)
            raise
        sync_to_disk(self._file.parent)
        self._documents += len(lines)
        self._bytes += len(content)

    def _read_journal(self) -> list[Correction]:
        """Reads the journal, without the line that a killed service was writing."""
        if not self._file.is_file():
            return []
        content = self._file.read_bytes()
        self._bytes = content.rfind(b"\n") + 1
        if self._bytes < len(content):
            os.truncate(self._file, self._bytes)
        known = set(self.index.label_set.ids)
        corrections = []
        gone: set[str] = set()
        for number, line in enumerate(content[: self._bytes].split(b"\n")[:-1], start=1):
            try:
                row = json.loads(line)
                correction = Correction(str(row["text"]), tuple(map(str, row["labels"])))
            except (ValueError, TypeError, LookupError, RecursionError):
                raise ValueError(f"{self._file}, line {number} is not a correction: repair or remove it") from None
            gone.update(label for label in correction.labels if label not in known)
            labels = tuple(label for label in correction.labels if label in known)
            corrections.append(Correction(correction.text, labels))
        self._documents = len(corrections)
        if gone:
            logger.warning("labels of corrections that the model no longer has: %s", ", ".join(sorted(gone)[:5]))
        return corrections
