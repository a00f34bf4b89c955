"""Operations on columns of records. Datasets are processed in Arrow batches, as Python rows would take hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.medline import Record
from papers.records import record_features

if TYPE_CHECKING:
    from datasets import Dataset
    from numpy.typing import NDArray

_BATCH = 100_000  # rows of a single column
_WHOLE_BATCH = 10_000  # rows of all columns


def as_table(records: Iterable[Record] | Dataset) -> Dataset:
    """Returns a dataset unchanged, and other records as a dataset in memory."""
    from datasets import Dataset

    if isinstance(records, Dataset):
        return records
    rows, features = list(records), record_features()
    return Dataset.from_dict({key: [row[key] for row in rows] for key in features}, features=features)


def iterate_pmids(table: Dataset) -> Iterator[str]:
    """Iterates over the pmids.

    Args:
        table: The documents.

    Yields:
        Each pmid.
    """
    for batch in _iterate_batches(table, "pmid"):
        yield from batch.to_pylist()


def read_years(table: Dataset) -> NDArray[np.int32]:
    """Returns the years.

    Args:
        table: The documents.

    Returns:
        `(N,)` years; 0 if missing.
    """
    batches = [batch.fill_null(0).to_numpy() for batch in _iterate_batches(table, "year")]
    return np.concatenate([np.zeros(0, np.int32), *batches])


def count_labels(table: Dataset, groups: NDArray[np.int8], number: int) -> list[Counter[str]]:
    """Counts the documents of each label, by groups of documents.

    Args:
        table: The documents.
        groups: `(N,)` group of each document. Groups from `number` on are ignored.
        number: Number of groups to count.

    Returns:
        The counts of each group.

    Example:
        >>> from datasets import Dataset
        >>> rows = Dataset.from_dict({"meshUI": [["D1", "D2"], ["D2"], ["D3"]]})
        >>> count_labels(rows, np.array([1, 1, 2], np.int8), 2)
        [Counter(), Counter({'D2': 2, 'D1': 1})]
    """
    counts: list[Counter[str]] = [Counter() for _ in range(number)]
    start = 0
    for batch in _iterate_batches(table, "meshUI"):
        batch_groups = groups[start : start + len(batch)]
        for group, count in enumerate(counts):
            tally = batch.filter(batch_groups == group).flatten().value_counts()
            count.update(dict(zip(tally.field("values").to_pylist(), tally.field("counts").to_pylist(), strict=True)))
        start += len(batch)
    return counts


def count_remaining_labels(table: Dataset, held_out: Sequence[str]) -> NDArray[np.int32]:
    """Counts the labels of each document that are not held out.

    Args:
        table: The documents.
        held_out: Labels that are not counted.

    Returns:
        `(N,)` counts.
    """
    batches = [np.diff(_compute_offsets(batch, held_out)[0]) for batch in _iterate_batches(table, "meshUI")]
    return np.concatenate([np.zeros(0, np.int32), *batches])


def select_rows(table: Dataset, mask: NDArray[np.bool_], held_out: Sequence[str] = ()) -> Dataset:
    """Selects documents by a mask.

    Args:
        table: The documents.
        mask: `(N,)` selected documents.
        held_out: Labels to remove from them.

    Returns:
        The documents; a view of `table` unless labels are removed.
    """
    rows = np.flatnonzero(mask)
    if held_out and len(rows):  # in a single step, since datasets reads scattered rows one by one
        options = {"fn_kwargs": {"mask": mask, "held_out": list(held_out)}, "features": table.features}
        arrow = table.with_format("arrow")
        return arrow.map(
            _select_batch, with_indices=True, batched=True, batch_size=_WHOLE_BATCH, **options
        ).with_format(None)
    if len(rows) == 0 or rows[-1] - rows[0] + 1 == len(rows):
        return table.select(range(rows[0], rows[-1] + 1) if len(rows) else range(0))
    # Not select, which creates a Python list of the rows.
    options = {"with_indices": True, "input_columns": [], "fn_kwargs": {"mask": mask}}
    return table.filter(_lookup_mask, batched=True, batch_size=_BATCH, **options)


def _iterate_batches(table: Dataset, column: str) -> Iterator[Any]:
    for batch in table.select_columns([column]).with_format("arrow").iter(_BATCH):
        yield batch[column].combine_chunks()


def _lookup_mask(rows: list[int], mask: NDArray[np.bool_]) -> list[bool]:
    return mask[rows].tolist()


def _compute_offsets(lists: Any, held_out: Sequence[str]) -> tuple[NDArray[np.int32], Any]:
    """Computes the offsets of the lists after removing values, and a mask of the remaining flat values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    remains = pc.invert(pc.is_in(lists.flatten(), value_set=pa.array(held_out, "string")))
    starts = lists.offsets.to_numpy() - lists.offsets[0].as_py()
    totals = np.cumsum(remains.to_numpy(zero_copy_only=False), dtype=np.int32)
    return np.append(0, totals).astype(np.int32)[starts], remains


def _select_batch(batch: Any, rows: list[int], mask: NDArray[np.bool_], held_out: list[str]) -> Any:
    import pyarrow as pa

    batch = batch.filter(mask[rows]).combine_chunks()
    offsets, remains = _compute_offsets(batch["meshUI"].combine_chunks(), held_out)
    for name in ("meshUI", "meshMajor"):
        values = batch[name].combine_chunks().flatten().filter(remains)
        index = batch.column_names.index(name)
        batch = batch.set_column(index, name, pa.ListArray.from_arrays(pa.array(offsets), values))
    return batch
