"""Labels and label sets: ordered labels with permanent ids and descriptive texts."""

import difflib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter, eq, index
from pathlib import Path
from reprlib import Repr
from typing import Any

from .saving_gile import new_files

LABELS_FILE = "labels.jsonl"
"""File name of the label set in a saved model."""

_LONGEST_ROW = 1 << 24  # bytes

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 120


@dataclass(frozen=True, slots=True)
class Label:
    """A label.

    Args:
        id: Permanent id, such as a MeSH UI or the URI of a SKOS concept; results and thresholds refer to it.
        name: Name of the label.
        description: Further text, such as a definition, which the model reads after the name.
        language: Language of the name and the description; in a multilingual model, a language of the model.
        seen: Whether the model was trained on documents with this label.
        count: Number of training documents with this label.
        threshold: Lowest calibrated probability at which the label is assigned; by default that of its group.
        synonyms: Other names in the same language, without surrounding white space. Encoders do not read them, but
            `GileConfig.lexical` uses their words.
        broader: Ids of the parents of the label, which need not be in the label set.
    """

    id: str
    name: str
    description: str = ""
    language: str | None = None
    seen: bool = False
    count: int = 0
    threshold: float | None = None
    synonyms: tuple[str, ...] = ()
    broader: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Text that the label encoder reads."""
        return f"{self.name}: {self.description}" if self.description else self.name


class LabelSet(Sequence[Label]):
    """An ordered, immutable set of labels; label j corresponds to column j of the logits of a model.

    Args:
        labels: The labels, at least one.
        source: Source of the labels, for error messages.

    Raises:
        ValueError: If there are no labels, an id or name is empty, an id or the text of a label is repeated, or a field
            has a wrong type. The message names the row.

    Example:
        >>> labels = LabelSet.from_names({"Heart Failure": "cardiac failure", "Milk, Human": "breast milk"})
        >>> labels.names
        ['Heart Failure', 'Milk, Human']
        >>> [label.name for label in labels.rename("Milk, Human", "Human Milk")]
        ['Heart Failure', 'Human Milk']
    """

    def __init__(self, labels: Iterable[Label], source: str = "label set") -> None:
        self._labels = tuple(_iterable(labels, "labels must be a list of Labels"))
        if not self._labels:
            raise ValueError(f"{source}: no labels; at least one is required")
        self._columns: dict[str, int] = {}
        texts: dict[tuple[str, str | None], int] = {}
        for row, label in enumerate(self._labels):
            where = f"{source}, row {row + 1}"
            if fault := _describe_fault(label):
                raise ValueError(f"{where}: {fault}")
            if label.id in self._columns:
                first_row = self._columns[label.id] + 1
                raise ValueError(f"{where}: id {_SHORT.repr(label.id)} is already used in row {first_row}")
            text = (label.text, label.language)
            if text in texts:
                raise ValueError(
                    f"{where}: {_SHORT.repr(label.text)} is already the text of another label in row "
                    f"{texts[text] + 1} (ids {_SHORT.repr(self._labels[texts[text]].id)} and "
                    f"{_SHORT.repr(label.id)}); a model cannot distinguish them: use different names or descriptions"
                )
            self._columns[label.id] = texts[text] = row

    @classmethod
    def from_names(cls, names: Iterable[str] | Mapping[str, str]) -> "LabelSet":
        """Creates a label set from names, or from names with descriptions. Names are used as ids."""
        names = _iterable(names, "labels must be a list of names")
        described = names.items() if isinstance(names, Mapping) else ((name, "") for name in names)
        return cls((Label(name, name, description) for name, description in described), source="label names")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "LabelSet":
        """Loads a `.jsonl` file with the fields of `Label`; other fields are refused.

        `hf_gile.load_labels` reads other tables.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file does not contain labels; the message names file and row.
        """
        path = _checked_suffix(path)
        return cls((_label_from_row(row, where) for row, where in _rows(path)), str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves a `.jsonl` file that `load` reads back unchanged. An existing file is replaced atomically.

        Raises:
            ValueError: If the suffix is not `.jsonl`, or a label has a lone surrogate. The message names the label.
            OSError: If the file cannot be written.
        """
        path = _checked_suffix(path)
        lines = []
        for label in self:
            row = {name: value for name in _TYPES if (value := getattr(label, name)) != _DEFAULTS[name]}
            try:
                lines.append(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
            except UnicodeEncodeError:
                raise ValueError(f"{path}: label {label.id!r} cannot be written: it has a lone surrogate") from None
        try:
            with new_files(path.parent) as staging:
                (staging / path.name).write_bytes(b"".join(lines))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error

    @property
    def ids(self) -> list[str]:
        """Ids in order."""
        return [label.id for label in self]

    @property
    def names(self) -> list[str]:
        """Names in order, not necessarily unique."""
        return [label.name for label in self]

    @property
    def texts(self) -> list[str]:
        """Texts that the label encoder reads, in order."""
        return [label.text for label in self]

    @property
    def seen(self) -> list[bool]:
        """Whether each label was seen in training, in order."""
        return [label.seen for label in self]

    @property
    def language_labels(self) -> dict[str, int]:
        """Number of labels by language, in order; empty if no label has a language.

        Raises:
            ValueError: If only some labels have a language, or the labels of a language are not contiguous.
        """
        languages = [label.language for label in self]
        sizes = Counter(language for language in languages if language is not None)
        blocks = [
            language for language, previous in zip(languages, [None, *languages], strict=False) if language != previous
        ]
        if sizes and (len(blocks) != len(sizes) or None in languages):
            raise ValueError(
                "multilingual labels must be grouped by language and all have a language; "
                f"got the languages {', '.join(map(str, blocks)):.200}"
            )
        return {language: sizes[language] for language in blocks if language is not None}

    def id2label(self) -> dict[int, str]:
        """Returns unique names by index, as in a Transformers configuration; ids are appended to repeated names."""
        counts = Counter(self.names)
        names: dict[str, None] = {}
        for label in self:
            name = label.name
            while (counts[label.name] > 1 and name == label.name) or name in names:
                name = f"{name} ({label.id})"
            names[name] = None
        return dict(enumerate(names))

    def column(self, label_id: str) -> int:
        """Returns the index of a label, which is its column in the logits.

        Raises:
            ValueError: If no label has this id; the message suggests similar ids.
        """
        try:
            return self._columns[label_id]
        except (KeyError, TypeError):
            similar = difflib.get_close_matches(str(label_id), self._columns, n=3)
            hint = f"; did you mean {', '.join(map(repr, similar))}?" if similar else ""
            raise ValueError(f"no label has the id {_SHORT.repr(label_id)} among {len(self)} labels{hint}") from None

    def columns(self, label_ids: Iterable[str]) -> list[int]:
        """Returns the indices of several labels in the requested order; raises errors as `column` does."""
        return [self.column(label_id) for label_id in _iterable(label_ids, "label_ids must be a list of ids")]

    def add(self, *labels: Label) -> "LabelSet":
        """Returns a label set with labels appended; existing labels keep their indices."""
        return LabelSet((*self._labels, *labels))

    def retire(self, *label_ids: str) -> "LabelSet":
        """Returns a label set without these labels."""
        retired = set(self.columns(label_ids))
        return LabelSet(label for column, label in enumerate(self._labels) if column not in retired)

    def rename(self, label_id: str, name: str) -> "LabelSet":
        """Returns a label set with a renamed label; its id and index do not change."""
        return self.update(label_id, name=name)

    def update(self, label_id: str, **changes: Any) -> "LabelSet":
        """Returns a label set with changed fields of a label; its index does not change."""
        unknown = changes.keys() - _TYPES
        if unknown:
            raise ValueError(f"a label has no field {min(unknown)!r}; it has {', '.join(_TYPES)}")
        labels = list(self._labels)
        column = self.column(label_id)
        labels[column] = replace(labels[column], **changes)
        return LabelSet(labels)

    def with_counts(self, counts: Mapping[str, int]) -> "LabelSet":
        """Returns a label set with training counts by id; labels with a count become seen, all other labels unseen."""
        if not isinstance(counts, Mapping):
            raise ValueError(f"counts must be a mapping of ids to numbers, got {type(counts).__name__}")
        for label_id, count in counts.items():
            self.column(label_id)
            if not hasattr(count, "__index__"):
                raise ValueError(f"the count of label {label_id!r:.100} must be a whole number, got {count!r:.100}")
        numbers = [index(counts.get(label_id, 0)) for label_id in self.ids]
        rows = zip(self._labels, numbers, strict=True)
        return LabelSet(replace(label, count=number, seen=number > 0) for label, number in rows)

    def __contains__(self, item: object) -> bool:
        return item in self._columns if isinstance(item, str) else item in self._labels

    def __getitem__(self, item: Any) -> Any:
        return LabelSet(self._labels[item]) if isinstance(item, slice) else self._labels[item]

    def __len__(self) -> int:
        return len(self._labels)

    def __iter__(self) -> Iterator[Label]:
        return iter(self._labels)

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        # By content, not by class, since the class exists twice if it was also loaded as remote code.
        other_labels = getattr(other, "_labels", None)
        if other_labels is None or len(other_labels) != len(self):
            return False
        return all(map(eq, map(_values, self._labels), map(_values, other_labels)))

    def __hash__(self) -> int:
        return hash((len(self), self._labels[0].id, self._labels[-1].id))

    def __repr__(self) -> str:
        names = ", ".join(repr(label.name) for label in self._labels[:3])
        return f"LabelSet({len(self)} labels: {names}{', ...' if len(self) > 3 else ''})"


_TYPES: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "name": (str,),
    "description": (str,),
    "language": (str, type(None)),
    "seen": (bool,),
    "count": (int,),
    "threshold": (float, int, type(None)),
    "synonyms": (tuple,),
    "broader": (tuple,),
}
_DEFAULTS = {field.name: field.default for field in fields(Label)}
_values = attrgetter(*_TYPES)


def _iterable(values: object, message: str) -> Any:
    """Returns values if they are iterable, but not a text."""
    if isinstance(values, str) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        raise ValueError(f"{message}, got {type(values).__name__}")
    return values


def _describe_fault(label: Label) -> str:
    """Describes the first invalid field of a label; empty if all are valid."""
    for name, types in _TYPES.items():
        value = getattr(label, name, None)
        if not isinstance(value, types) or (name == "threshold" and isinstance(value, bool)):
            return f"{name} must be {types[0].__name__}, got {_SHORT.repr(value)}"
    for name in ("id", "name"):
        if not getattr(label, name).strip():
            return f"the {name} is empty; every label needs an id and a name"
    if label.count < 0:
        return f"count must not be negative, got {label.count}"
    if label.threshold is not None and not 0 <= label.threshold <= 1:
        return f"threshold must be a probability between 0 and 1, got {label.threshold}"
    for kind, texts in (("a synonym", label.synonyms), ("an id in broader", label.broader)):
        for text in texts:
            if not isinstance(text, str) or not text or text != text.strip():
                return f"{kind} must be a non-empty text without surrounding white space, got {_SHORT.repr(text)}"
    return ""


def _label_from_row(row: object, where: str) -> Label:
    """Creates a label from a row of a file; `where` is its location, for errors."""
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected a table row with the fields of a label, got {_SHORT.repr(row)}")
    problems = [f"unknown field {_SHORT.repr(name)}" for name in sorted(row.keys() - _TYPES.keys())]
    problems += [f"no field {name!r}" for name in ("id", "name") if name not in row]
    if problems:
        raise ValueError(f"{where}: {problems[0]}; a label has {', '.join(_TYPES)}")
    for name in ("synonyms", "broader"):
        if isinstance(row.get(name), list):
            row[name] = tuple(row[name])
    return Label(**row)


def _checked_suffix(path: str | os.PathLike[str]) -> Path:
    """Returns a path if its suffix is `.jsonl`."""
    path = Path(path)
    if path.suffix != ".jsonl":
        raise ValueError(
            f"{path}: the file of a label set is .jsonl; hf_gile.load_labels(path) reads tables, and "
            "hf_gile.data.save_labels(label_set, path) writes a .csv file"
        )
    return path


def _rows(path: Path) -> Iterator[tuple[object, str]]:
    """Yields the rows of a JSON lines file with their location."""
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_ROW + 1), b"")):
            where = f"{path}, row {number + 1}"
            if len(line) > _LONGEST_ROW:
                raise ValueError(f"{where}: longer than {_LONGEST_ROW:,} bytes, so it is not a label")
            try:
                row = json.loads(line.decode("utf-8-sig" if number == 0 else "utf-8"))
                if b"\\ud" in line.lower():
                    json.dumps(row, ensure_ascii=False).encode()
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{where}: byte {error.start + 1:,} is not UTF-8; save the file as UTF-8, or read it with "
                    "hf_gile.load_labels(path, encoding=...)"
                ) from None
            except UnicodeEncodeError:
                raise ValueError(f"{where}: a text has a lone surrogate; write the whole character") from None
            except (RecursionError, ValueError) as error:
                raise ValueError(f"{where}: not a line of JSON ({error!s:.200})") from None
            yield row, where
