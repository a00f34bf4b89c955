"""Operations on columns of records. Datasets are processed in Arrow batches, as Python rows would take hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from hf_gile.data.schema import Record

if TYPE_CHECKING:
    from datasets import Dataset
    from numpy.typing import NDArray

Table: TypeAlias = "Dataset | list[Record]"

_BATCH = 100_000  # rows of a single column
_WHOLE_BATCH = 10_000  # rows of all columns


def as_table(records: Iterable[Record] | Dataset) -> Table:
    """Returns a dataset unchanged, and other records as a list.

    Args:
        records: A dataset or any records.

    Returns:
        A table for the other functions.
    """
    return records if _is_dataset(records) else list(records)


def iterate_pmids(table: Table) -> Iterator[str]:
    """Iterates over the pmids.

    Args:
        table: A dataset, or a list of records.

    Yields:
        Each pmid.
    """
    if not _is_dataset(table):
        yield from (row["pmid"] for row in table)
        return
    for batch in _iterate_batches(table, "pmid"):
        yield from batch.to_pylist()


def read_years(table: Table) -> NDArray[np.int32]:
    """Returns the years.

    Args:
        table: A dataset, or a list of records.

    Returns:
        `(N,)` years; 0 if missing.
    """
    if not _is_dataset(table):
        return np.array([row["year"] or 0 for row in table], np.int32)
    batches = [batch.fill_null(0).to_numpy() for batch in _iterate_batches(table, "year")]
    return np.concatenate([np.zeros(0, np.int32), *batches])


def count_labels(table: Table, groups: NDArray[np.int8], number: int) -> list[Counter[str]]:
    """Counts the documents of each label, by groups of documents.

    Args:
        table: A dataset, or a list of records.
        groups: `(N,)` group of each document. Groups from `number` on are ignored.
        number: Number of groups to count.

    Returns:
        The counts of each group.

    Example:
        >>> rows = [{"meshUI": ["D1", "D2"]}, {"meshUI": ["D2"]}, {"meshUI": ["D3"]}]
        >>> count_labels(rows, np.array([1, 1, 2], np.int8), 2)
        [Counter(), Counter({'D2': 2, 'D1': 1})]
    """
    counts: list[Counter[str]] = [Counter() for _ in range(number)]
    if not _is_dataset(table):
        for row, group in zip(table, groups.tolist(), strict=True):
            if group < number:
                counts[group].update(row["meshUI"])
        return counts
    start = 0
    for batch in _iterate_batches(table, "meshUI"):
        batch_groups = groups[start : start + len(batch)]
        for group, count in enumerate(counts):
            tally = batch.filter(batch_groups == group).flatten().value_counts()
            count.update(dict(zip(tally.field("values").to_pylist(), tally.field("counts").to_pylist(), strict=True)))
        start += len(batch)
    return counts


def count_remaining_labels(table: Table, held_out: Sequence[str]) -> NDArray[np.int32]:
    """Counts the labels of each document that are not held out.

    Args:
        table: A dataset, or a list of records.
        held_out: Labels that are not counted.

    Returns:
        `(N,)` counts.
    """
    if not _is_dataset(table):
        out = set(held_out)
        return np.array([sum(label not in out for label in row["meshUI"]) for row in table], np.int32)
    batches = [np.diff(_compute_offsets(batch, held_out)[0]) for batch in _iterate_batches(table, "meshUI")]
    return np.concatenate([np.zeros(0, np.int32), *batches])


def select_rows(table: Table, mask: NDArray[np.bool_], held_out: Sequence[str] = ()) -> Table:
    """Selects documents by a mask.

    Args:
        table: A dataset, or a list of records.
        mask: `(N,)` selected documents.
        held_out: Labels to remove from them.

    Returns:
        A list of records, or a dataset, which is a view of `table` unless labels are removed.
    """
    if not _is_dataset(table):
        out = set(held_out)
        selected = compress(table, mask.tolist())
        return [_remove_labels(row, out) if out else row for row in selected]
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


def _is_dataset(records: object) -> TypeGuard[Dataset]:
    return hasattr(records, "select_columns")


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


def _remove_labels(record: Record, held_out: set[str]) -> Record:
    pairs = zip(record["meshUI"], record["meshMajor"], strict=True)
    remaining = [(label, name) for label, name in pairs if label not in held_out]
    return {
        **record,
        "meshUI": [label for label, _ in remaining],
        "meshMajor": [name for _, name in remaining],
    }
