"""Suggests the labels stored with a model, and learns from corrected documents."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..models import LabelScoringPipeline
from ..models.labels_gile import Label
from ..models.pipeline_gile import EncodedTexts, Options, TokenizedText
from ..scoring.evidence import find_evidence
from .learning import Correction, Learner
from .messages import Corrected, Evidence, Parent, Question, Suggestion

_MOST_EVIDENCE = 5
"""Maximum number of parts of a text that are evidence for a label."""


class ReadQuestion(NamedTuple):
    """A question whose text is tokenized, and the ids of the labels that may be suggested; None for all."""

    question: Question
    allowed: set[str] | None
    text: TokenizedText


class Suggester:
    """Suggests the labels stored with a model.

    Label codes are computed again when weights have changed; `StoredLabels.clear_cache` says which changes it misses.

    Args:
        pipe: Pipeline that scores texts.
        uri_prefix: Prefix that turns label ids into URIs.
        learner: Learns from corrected documents; by default the model stays as it is.

    Raises:
        ValueError: If the model stores no labels.
    """

    def __init__(self, pipe: LabelScoringPipeline, uri_prefix: str = "", learner: Learner | None = None) -> None:
        labels = pipe.model.label_set
        if not labels:
            raise ValueError("the model stores no labels to suggest: add some with hf-gile labels import")
        self._pipe = pipe
        self._prefix = uri_prefix
        self._learner = learner
        self._index = learner and learner.index
        self._labels = labels
        self._options = Options(**{name: value for name, value in pipe._forward_params.items() if name != "labels"})

    def read(self, questions: Sequence[Question]) -> list[ReadQuestion]:
        """Tokenizes texts and looks up labels. Other threads may score meanwhile.

        Raises:
            ValueError: If a text cannot be read, or a URI is unknown.
        """
        texts = self._pipe.tokenize([question.text for question in questions], self._options)
        return [ReadQuestion(item, self._allowed(item), text) for item, text in zip(questions, texts, strict=True)]

    @torch.inference_mode()
    def __call__(self, questions: Sequence[ReadQuestion]) -> list[list[Suggestion]]:
        """Returns the best labels of each text."""
        limits = [len(self._labels) if allowed is not None else item.limit for item, allowed, _ in questions]
        options = replace(self._options, top_k=max([1, *limits]))
        read = self._pipe.embed([text for *_, text in questions], options)
        answers = self._pipe.select(self._index, read, options)
        suggestions = []
        for row, ((item, ids, _), answer) in enumerate(zip(questions, answers, strict=True)):
            pairs = zip(answer.columns.tolist(), answer.scores.tolist(), strict=True)
            best = [
                (column, score)
                for column, score in pairs
                if score >= item.threshold and (ids is None or self._labels[column].id in ids)
            ][: item.limit]
            suggestions.append([self._describe(self._labels[column], score) for column, score in best])
            if item.evidence:
                self._add_evidence(suggestions[-1], item.text, [column for column, _ in best], read, row, options)
        return suggestions

    def prepare(self) -> None:
        """Encodes the labels, so that the first request need not wait for this."""
        self(self.read([Question(text=" ", limit=1)]))

    def learn(self, documents: Sequence[Corrected]) -> None:
        """Learns from texts with all their labels.

        Raises:
            ValueError: If a URI is unknown, a text cannot be read, or the journal is full.
            OSError: If the journal cannot be written.
        """
        assert self._learner is not None
        self._learner.learn(
            [
                Correction(document.text, tuple(dict.fromkeys(self._id(subject.uri) for subject in document.subjects)))
                for document in documents
            ]
        )

    def _id(self, uri: str) -> str:
        """Returns the id of a label."""
        label_id = uri.removeprefix(self._prefix)
        if not uri.startswith(self._prefix) or label_id not in self._labels:
            raise ValueError(f"no label has the URI {uri!r:.100}")
        return label_id

    def _allowed(self, item: Question) -> set[str] | None:
        """Returns the ids of the labels that may be suggested; None for all."""
        if not item.exclude and not item.include_branch:
            return None
        waiting = [self._id(uri) for uri in item.include_branch]
        allowed = set(waiting or self._labels.ids)
        while waiting:
            narrower = self._narrower.get(waiting.pop(), set()) - allowed
            allowed |= narrower
            waiting += narrower
        return allowed - {self._id(uri) for uri in item.exclude}

    @cached_property
    def _narrower(self) -> dict[str, set[str]]:
        """The ids of the children of labels."""
        narrower: dict[str, set[str]] = {}
        for label in self._labels:
            for parent in label.broader:
                narrower.setdefault(parent, set()).add(label.id)
        return narrower

    def _add_evidence(
        self,
        suggestions: Sequence[Suggestion],
        text: str,
        columns: list[int],
        read: EncodedTexts,
        row: int,
        options: Options,
    ) -> None:
        """Adds the evidence for labels, with indices `columns`, in a text, whose codes are a row of `read`."""

        def logits(texts: EncodedTexts) -> Tensor:
            return self._pipe.logits(self._index, texts, options, columns)

        def score(texts: list[str]) -> Tensor:
            return logits(self._pipe.embed(self._pipe.tokenize(texts, options), options))

        evidence = find_evidence(score, text, logits(read)[row])
        for suggestion, parts in zip(suggestions, evidence, strict=True):
            suggestion.evidence = [Evidence(text=part, weight=weight) for part, weight in parts[:_MOST_EVIDENCE]]

    def _describe(self, label: Label, score: float) -> Suggestion:
        parents = [self._labels[self._labels.column(parent)] for parent in label.broader if parent in self._labels]
        return Suggestion(
            uri=self._prefix + label.id,
            label=label.name,
            score=score,
            parents=[Parent(uri=self._prefix + parent.id, label=parent.name) for parent in parents],
        )
