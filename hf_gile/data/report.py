"""What a reader left out, and what it does about malformed input."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from gzip import BadGzipFile
from typing import Literal, TypeVar

T = TypeVar("T")

# lxml's XMLSyntaxError is a SyntaxError and UnicodeDecodeError a ValueError. A plain OSError is
# absent on purpose: a failing disk is not a malformed file, and is never skipped.
_LONGEST = 1000  # of a message, in characters
_REMEDIES = ('encoding="', ": no column ")  # what a message says to do; to leave the row out would be the wrong answer
_DAMAGE = (ValueError, SyntaxError, EOFError, BadGzipFile, zlib.error, RecursionError)


@dataclass
class ReadReport:
    """Counts what readers keep and leave out, and decides whether malformed input raises.

    Malformed input (a damaged file, a record of the wrong types, a repeated pmid) raises a
    `ValueError` unless `on_error` is `"skip"`. Whatever is well-formed but of no use for training,
    such as a citation without an abstract, is always left out and counted.

    Args:
        on_error: `"raise"`, or `"skip"` to leave malformed input out and count it.
        files: Number of files opened.
        records: Number of records kept.
        left_out: How many were left out, by reason.
        examples: The first few of them, by reason.

    Example:
        >>> report = ReadReport(on_error="skip", files=1, records=5)
        >>> report.leave_out("no abstract", "a.xml: pmid 7")
        >>> report.problem("damaged file", "a.xml: cut off after 6 records")
        >>> print(report)
        5 records from 1 file; left out: 1 no abstract, 1 damaged file
        >>> report.examples["no abstract"]
        ['a.xml: pmid 7']
    """

    on_error: Literal["raise", "skip"] = "raise"
    files: int = 0
    records: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip", got {self.on_error!r}')

    def __str__(self) -> str:
        plural = "" if self.files == 1 else "s"
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
        return f"{self.records:,} records from {self.files:,} file{plural}; left out: " + (counts or "none")

    def add(self, other: ReadReport) -> None:
        """Adds the counts of another report, such as that of another file.

        Args:
            other: What to add; its policy does not matter.
        """
        self.files += other.files
        self.records += other.records
        for reason, count in other.left_out.items():
            self.left_out[reason] = self.left_out.get(reason, 0) + count
            examples = self.examples.setdefault(reason, [])
            examples += other.examples.get(reason, [])[: 3 - len(examples)]

    def leave_out(self, reason: str, what: str) -> None:
        """Counts something well-formed that is of no use.

        Args:
            reason: Under which heading to count it.
            what: Where it is, for the examples.
        """
        self.left_out[reason] = self.left_out.get(reason, 0) + 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < 3:
            examples.append(what)

    def problem(self, reason: str, message: str) -> None:
        """Raises for malformed input, or counts it where `on_error` is `"skip"`.

        Args:
            reason: Under which heading to count it.
            message: Where it is, what was expected and what came.

        Raises:
            ValueError: If `on_error` is `"raise"`.
        """
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST // 2]}...{message[-_LONGEST // 2 :]}"
        if self.on_error == "raise":
            if any(remedy in message for remedy in _REMEDIES):
                raise ValueError(message)
            raise ValueError(f'{message}; mend it, or pass on_error="skip" to go on without it')
        self.leave_out(reason, message)

    def until_damage(self, items: Iterator[T], path: object) -> Iterator[T]:
        """Yields what can be read of a file, and treats what stops the reading as a problem.

        Args:
            items: The file's raw records.
            path: Its name, for the message.

        Yields:
            The items before the damage.
        """
        count = 0
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except _DAMAGE as error:
                self.problem("damaged file", f"{path}: damaged after {count:,} records: {error}")
                return
            count += 1
            yield item
