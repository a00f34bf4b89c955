"""Other texts of labels to train on, so that a model learns to read labels that others wrote.

Shapes: L labels, M texts of all labels, T words of the longest, C columns of a step.
"""

from typing import Any

import torch
from torch import Tensor

from ..models.labels_gile import Label, LabelSet
from ..models.processing_gile import GileProcessor, pad_rows


class LabelParaphrases:
    """Chooses the text by which a training step reads each label: the `paraphrases` of a `GileLoss`.

    Label sets of other hands have labels of a name alone, with descriptions or without, in other words. A model that
    has only ever read each label by one text need not agree with itself on two texts of one label. Here each step reads
    each label by its own text (`Label.text`), its name, one of its synonyms (each as likely) or its description alone.
    A label that has none of a kind is read by its own text instead. In evaluation all are read by their own texts.

    The choice for a label is a function of the seed, the step and the column alone: the same whichever other columns
    the step has, in whichever process, and when a training is resumed.

    Texts that a word-level tokenizer knows no word of are left out, but for a label's own; so are those that differ
    from another text of the label in nothing that the model reads.

    Args:
        label_set: The labels of the model.
        processor: The model's processor.
        names: Share of the readings of a label, from 0 to 1, that are of its name.
        synonyms: The same of its synonyms.
        descriptions: The same of its description. What the three leave is the share of its own text.
        seed: Seed of the choices.

    Attributes:
        words: `(M, T)` ids of the texts, padded; those of a label stand together, its own text first.
        own_rows: `(L,)` row of each label's own text.

    Raises:
        ValueError: A share is negative, or all are more than 1; or a text holds half of a character (the message names
            the label).

    Example:
        >>> from hf_gile import build_tokenizer
        >>> labels = LabelSet([Label("G07", "Breast Feeding", synonyms=("nursing",)), Label("M01", "Infant")])
        >>> processor = GileProcessor(build_tokenizer(["breast feeding nursing infant"], min_count=1))
        >>> paraphrases = LabelParaphrases(labels, processor, synonyms=0.5)
        >>> paraphrases.words.tolist(), paraphrases.own_rows.tolist()
        ([[2, 3], [5, 0], [4, 0]], [0, 2])
        >>> [paraphrases.choose(torch.tensor([0, 1]), step).tolist() for step in range(4)]
        [[1, 2], [1, 2], [1, 2], [1, 2]]
    """

    def __init__(
        self,
        label_set: LabelSet,
        processor: GileProcessor,
        names: float = 0.1,
        synonyms: float = 0.3,
        descriptions: float = 0.1,
        seed: int = 0,
    ) -> None:
        shares = {"names": names, "synonyms": synonyms, "descriptions": descriptions}
        for name, share in shares.items():
            if not share >= 0:
                raise ValueError(f"{name} is a share of the readings of a label and must not be negative, got {share}")
        if sum(shares.values()) > 1 + 1e-6:
            raise ValueError(f"names, synonyms and descriptions are shares of 1, got {sum(shares.values())} in all")
        self._below_name, self._below_synonym = names, names + synonyms
        self._below_description = names + synonyms + descriptions
        self._seed = seed

        ids_of, unknown = _read(label_set, processor), processor.tokenizer.unk_token_id
        rows: list[tuple[int, ...]] = []
        places: list[tuple[int, ...]] = []
        for label in label_set:
            texts = (label.text, label.name, *label.synonyms, label.description)
            own, *others = (ids_of.get((text, label.language), ()) for text in texts)
            title, *alike, about = (ids if any(one != unknown for one in ids) else own for ids in others)
            titles = dict.fromkeys((own, title))
            named = dict.fromkeys((*titles, *alike))
            row_of = {ids: len(rows) + place for place, ids in enumerate(dict.fromkeys((*named, about)))}
            first = len(rows) + len(titles)
            places.append((row_of[own], row_of[title], first, len(named) - len(titles), row_of[about]))
            rows.extend(row_of)
        self.words = pad_rows(rows, processor.tokenizer.pad_token_id)
        # For each label the rows of own text, name and first synonym, the number of synonyms, the description's row.
        self._places = torch.tensor(places).T.contiguous()
        self.own_rows = self._places[0]

    def choose(self, columns: Tensor, step: int) -> Tensor:
        """Chooses texts.

        Args:
            columns: `(C,)` columns of labels.
            step: The training step.

        Returns:
            `(C,)` rows of `words`, on the device of `columns`, where `words` and `own_rows` then are, too.
        """
        if self._places.device != columns.device:  # once
            self.words, self._places = self.words.to(columns.device), self._places.to(columns.device)
            self.own_rows = self._places[0]
        own, name, first, number, description = self._places[:, columns]
        key = int(_mixed(_mixed(torch.tensor(self._seed)) + step))
        bits = _mixed(columns.long() * _GOLDEN + key)
        draw = (bits >> 40 & 0xFFFFFF).float() / 0x1000000  # the first 24 bits say of which kind, the last 32 which one
        synonym = torch.where(number > 0, first + ((bits & 0xFFFFFFFF) * number >> 32), own)
        rows = torch.where(draw < self._below_description, description, own)
        rows = torch.where(draw < self._below_synonym, synonym, rows)
        return torch.where(draw < self._below_name, name, rows)


def _read(label_set: LabelSet, processor: GileProcessor) -> dict[tuple[str, str | None], tuple[int, ...]]:
    """The ids of all texts of the labels, by text and language."""
    label_of: dict[tuple[str, str | None], Label] = {}
    for label in label_set:
        for text in (label.text, label.name, *label.synonyms, label.description):
            if text.strip():
                label_of.setdefault((text, label.language), label)
    languages: list[Any] = [language for _, language in label_of] if processor.languages else []
    try:
        ids = processor(
            label_text=[text for text, _ in label_of], label_language=languages if any(languages) else None
        )["label_input_ids"]
    except ValueError:
        for (text, language), label in label_of.items():  # which one is it?
            try:
                processor(label_text=[text], label_language=language if processor.languages else None)
            except ValueError as error:
                raise ValueError(f"label {label.id!r} ({label.name}), text {text!r}: {error}") from None
        raise
    return dict(zip(label_of, map(tuple, ids), strict=True))


# Odd numbers of the SplitMix64 generator (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014),
# as int64 has them. Random bits of any column, on any device, without a state to keep.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)


def _mixed(numbers: Tensor) -> Tensor:
    """64 random bits of each number: SplitMix64, products modulo 2^64 as int64 has them."""
    numbers = numbers + _GOLDEN
    numbers = (numbers ^ (numbers >> 30 & (1 << 34) - 1)) * _FIRST
    numbers = (numbers ^ (numbers >> 27 & (1 << 37) - 1)) * _SECOND
    return numbers ^ (numbers >> 31 & (1 << 33) - 1)
