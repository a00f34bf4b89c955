"""Reports of readers: what they skipped, and how they handle malformed input."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, TypeVar

T = TypeVar("T")

_LONGEST = 1000  # maximum length of a message
_FEW = 20
_MOST_LEFT_OUT = 0.25  # share of at least this number of rows
# XMLSyntaxError of lxml is a SyntaxError and UnicodeDecodeError a ValueError. A plain OSError is not included: a
# failing disk is not a malformed file and is never skipped.
_DAMAGE = (ValueError, SyntaxError, EOFError, RecursionError)


class LeaveOut(Exception):
    """Says why a row of a vocabulary has no usable label, and its id."""

    def __init__(self, reason: str, label_id: str) -> None:
        super().__init__(reason)
        self.label_id = label_id


@dataclass
class ReadReport:
    """Counts what readers return and skip, and decides whether malformed input raises.

    Malformed input (a damaged file, a record of the wrong types, a repeated pmid) raises a
    `ValueError` unless `on_error` is `"skip"`. Well-formed input that is not usable, such as a citation without an
    abstract, is always skipped and counted.

    Args:
        on_error: `"raise"`, or `"skip"` to skip and count malformed input.
        files: Number of files opened.
        records: Number of records returned.
        left_out: Number of skipped items, by reason.
        examples: The first few skipped items, by reason.
        homonyms: Number of labels returned whose text is shared by several labels.
        without_labels: Number of documents returned without labels.
        notes: How the input was read, a line each.
        labels: What the column of labels was taken for, a `LabelColumn`.
        ids_left_out: Reasons by id of labels that were left out.

    Example:
        >>> report = ReadReport(on_error="skip", files=1, records=5)
        >>> report.leave_out("no abstract", "a.xml: pmid 7")
        >>> report.problem("damaged file", "a.xml: cut off after 6 records")
        >>> print(report)
        5 records from 1 file; left out: no abstract (1), damaged file (1)
        >>> report.examples["no abstract"]
        ['a.xml: pmid 7']
    """

    on_error: Literal["raise", "skip"] = "raise"
    files: int = 0
    records: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    homonyms: int = 0
    without_labels: int = 0
    notes: list[str] = field(default_factory=list)
    labels: Any = field(default=None, compare=False)
    ids_left_out: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip", got {self.on_error!r}')

    def __str__(self) -> str:
        line = f"{self.records:,} record{'s' * (self.records != 1)} from {self.files:,} file{'s' * (self.files != 1)}"
        if self.without_labels:
            line += f", {self.without_labels:,} of them without labels"
        line += f"; left out: {self._reasons() or 'none'}"
        if self.homonyms:
            line += f"; labels with the same text, distinguished by their descriptions: {self.homonyms:,}"
        return line

    def _reasons(self) -> str:
        return ", ".join(f"{reason} ({count:,})" for reason, count in self.left_out.items())

    def add(self, other: "ReadReport") -> None:
        """Adds the counts of another report."""
        self.files += other.files
        self.records += other.records
        self.homonyms += other.homonyms
        self.without_labels += other.without_labels
        self.notes += [line for line in other.notes if line not in self.notes]
        self.ids_left_out |= other.ids_left_out
        for reason, count in other.left_out.items():
            self.count(reason, count, other.examples.get(reason, []))

    def count(self, reason: str, number: int, examples: Sequence[str] = ()) -> None:
        """Counts what was left out for a reason; the first few examples of a reason are stored."""
        self.left_out[reason] = self.left_out.get(reason, 0) + number
        stored = self.examples.setdefault(reason, [])
        stored += examples[: 3 - len(stored)]

    def leave_out(self, reason: str, what: str, id: str | None = None) -> None:
        """Counts well-formed input that is not usable under a reason; its location `what` is an example.

        If it is a label, documents may have its `id`.
        """
        if id is not None:
            self.ids_left_out[id] = reason
        self.count(reason, 1, [what])

    def note(self, line: str) -> None:
        """Adds a line about how the input was read, unless it is empty or was added before."""
        if line and line not in self.notes:
            self.notes.append(line)

    def check_share(self) -> None:
        """Refuses what is left of a table of which much was left out, with the reasons, unless errors are skipped."""
        left_out = sum(self.left_out.values())
        total = self.records + left_out
        if self.on_error == "raise" and total >= _FEW and left_out > _MOST_LEFT_OUT * total:
            first = next(chain.from_iterable(self.examples.values()), "")
            raise ValueError(
                f"{left_out:,} of {total:,} rows would be left out: {self._reasons()}, first {first}; fix them, "
                'or pass on_error="skip" to skip them'
            )

    def problem(self, reason: str, message: str) -> None:
        """Raises a ValueError for malformed input, or counts it under a reason if `on_error` is `"skip"`.

        The message has the location, the expected input and the actual input.
        """
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST // 2]}...{message[-_LONGEST // 2 :]}"
        if self.on_error == "skip":
            self.leave_out(reason, message)
            return
        if not ('encoding="' in message or ": no column " in message):  # which say what to do
            message += '; fix it, or pass on_error="skip" to skip it'
        raise ValueError(message)

    def read_each(
        self, rows: Iterable[tuple[Any, ...]], read: Callable[..., T], reason: str
    ) -> Iterator[tuple[str, T]]:
        """Yields what `read` makes of each row, a location and arguments, with the location.

        If it raises a `ValueError`, the row is a problem for this reason; `LeaveOut` says that it has no label.
        """
        for where, *row in rows:
            try:
                result = read(*row)
            except LeaveOut as left_out:
                self.leave_out(str(left_out), where, left_out.label_id)
            except ValueError as error:
                self.problem(reason, f"{where}: {error}")
            else:
                yield where, result

    def until_damage(self, items: Iterator[T], path: object) -> Iterator[T]:
        """Yields the records of a file before damage, and reports the error that ends it as a problem."""
        count = 0
        try:
            for item in items:
                yield item
                count += 1
        except _DAMAGE as error:
            self.problem("damaged file", f"{path}: damaged after {count:,} records: {error}")
