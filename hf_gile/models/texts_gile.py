"""Parts of texts: their beginnings, parts and batches, and padded rows of ids."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

Item = TypeVar("Item")

PART_CHARACTERS = 1 << 17


def check_characters(text: str, name: str) -> None:
    """Refuses a text with lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has a lone surrogate, {text[error.start]!r} at position {error.start}, as in texts truncated in "
            "UTF-16: fix it with text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
        ) from None


def start_of(text: str | list[str], size: int) -> Any:
    """Returns the start of a text, or of a list of sentences, of at most `size` characters, up to white space."""
    if not isinstance(text, str):
        ends = accumulate(map(len, text))
        number = next((number for number, end in enumerate(ends) if end > size), len(text))
        if number == len(text):
            return text
        return text[:number] or [start_of(text[0], size)]
    if len(text) <= size:
        return text
    end = next((end for space in " \n\t" if (end := text.rfind(space, 1, size)) > 0), size)
    return text[:end]


def parts_of(text: str) -> Iterator[str]:
    """Divides a text at white space into parts of at most `PART_CHARACTERS`."""
    while len(part := start_of(text, PART_CHARACTERS)) < len(text):
        yield part
        text = text[len(part) :]
    yield text


def batches_of(
    items: Iterable[Item], count_characters: Callable[[Item], int], most_items: int, most_characters: int
) -> Iterator[list[Item]]:
    """Divides items with texts into batches, which end at a number of items or of characters."""
    batch: list[Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += count_characters(item)
        if len(batch) == most_items or size >= most_characters:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def split_row(row: list[Any], size: int) -> list[list[Any]]:
    """Splits a row into parts of at most `size` items; an empty row gives an empty part."""
    return [row[start : start + size] for start in range(0, max(1, len(row)), size)]


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Pads N rows of ids to the longest, `(N, T)`; T is at least 1, so a batch of empty texts is `(B, 1)` padding."""
    # All rows at once: a batch of documents may have thousands of sentences.
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    padded = np.full((len(rows), max(1, lengths.max(initial=0))), pad, np.int64)
    ids = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = ids
    return torch.from_numpy(padded)


def split_sentences(text: str) -> list[str]:
    """Splits a text after full stops, question and exclamation marks, and at line breaks.

    It also splits after abbreviations; to use a better splitter, pass documents as lists of sentences.
    """
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+|\s*\n\s*", text.strip()) if sentence]
