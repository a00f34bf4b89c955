"""Reads Parquet files, in limited memory however small the file is."""

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..extras import needs_extra
from .files import MAX_RECORD, expansion_error, unpacked_limit
from .loading import Piece

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Schema
    from pyarrow.parquet import ParquetFile, RowGroupMetaData

_REMEDY = "write it without compression"
_ITEM_BYTES = 8
_ROWS = 1000


def read_parquet(piece: Piece, columns: Sequence[str]) -> Generator[tuple[int, object], None, None]:
    """Yields the rows of row groups with their numbers; an error instead of a row that is too long.

    Args:
        piece: The file, or the row groups that start in a part of it.
        columns: Columns to read; all if it is empty, or if a column does not exist, so that a message can name all.
    """
    number = 0
    try:
        file = _open_parquet(piece.path)
        shared = _open_shared(piece.path, file)
        exist = bool(columns) and set(file.schema_arrow.names).issuperset(columns)
        selected = [*columns] if exist else None
        unpacked = 0
        limit = unpacked_limit(piece.path)
        for group, start in enumerate(_find_group_starts(file.metadata)):
            content = file.metadata.row_group(group)
            if not piece.start <= start < (start + 1 if piece.stop is None else piece.stop):
                number += content.num_rows
                continue
            size = _unpacked_group(content, piece.path, limit)
            rows_at_once = max(1, min(_ROWS, MAX_RECORD * content.num_rows // max(1, size)))
            batches = shared.iter_batches(rows_at_once, row_groups=[group], columns=selected, use_threads=False)
            for batch in batches:
                batch_size = _unpacked_size(batch)
                unpacked += batch_size
                if unpacked > limit:
                    raise expansion_error(piece.path, _REMEDY)
                for row in _batch_rows(batch, batch_size, file.schema_arrow):
                    number += 1
                    yield number, row
    except OSError as error:
        if error.errno is not None:  # a failing disk, not a damaged file
            raise
        raise ValueError(f"not a Parquet file, or damaged: {error}") from error


def split_parquet(path: Path, piece_size: int) -> list[Piece]:
    """Splits a file at row groups; small groups are merged."""
    try:
        starts = _find_group_starts(_open_parquet(str(path)).metadata)
    except (ValueError, OSError):  # reported by the reader with instructions
        return [Piece(str(path))]
    bounds = [0]
    for start in starts[1:]:
        if start - bounds[-1] >= piece_size:
            bounds.append(start)
    return [Piece(str(path), start, stop) for start, stop in pairwise([*bounds, path.stat().st_size])]


def _open_parquet(path: str) -> Any:
    with needs_extra("data", "reading Parquet files"):
        import pyarrow.parquet
    return pyarrow.parquet.ParquetFile(path)


def _open_shared(path: str, file: "ParquetFile") -> "ParquetFile":
    """Opens a file such that a text is in memory once, however many rows share it."""
    from pyarrow.parquet import ParquetFile

    columns = [file.schema.column(number) for number in range(len(file.schema))]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    return ParquetFile(path, metadata=file.metadata, read_dictionary=texts)


def _unpacked_group(group: "RowGroupMetaData", path: str, limit: int) -> int:
    """Returns the size in memory that a row group declares; refuses more than `limit`."""
    chunks = (group.column(number) for number in range(group.num_columns))
    # Lists have more values than rows.
    sizes = ((chunk.total_uncompressed_size, chunk.num_values - group.num_rows) for chunk in chunks)
    size = sum(max(size, _ITEM_BYTES * items) for size, items in sizes)
    if size > limit:
        raise expansion_error(path, _REMEDY)
    return size


def _unpacked_size(array: "RecordBatch | Array") -> int:
    """Returns the size of a batch or an array in bytes, with each text as often as it occurs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = getattr(array, "type", None)
    if kind is None or pa.types.is_struct(kind):
        return sum(map(_unpacked_size, array.columns if kind is None else array.flatten()))
    if pa.types.is_map(kind):
        return _unpacked_size(array.keys) + _unpacked_size(array.items)
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return _ITEM_BYTES * len(array) + (pc.sum(lengths.take(array.indices)).as_py() or 0)
    if hasattr(array, "flatten") and pa.types.is_nested(kind):
        return _ITEM_BYTES * len(array) + _unpacked_size(array.flatten())
    return max(_ITEM_BYTES * len(array), array.nbytes)


def _batch_rows(batch: "RecordBatch", size: int, schema: "Schema") -> Iterator[object]:
    """Returns the rows of a batch, one by one if they are long; an error instead of a row that is too long."""
    import pyarrow as pa

    schema = pa.schema([schema.field(name) for name in batch.schema.names])
    maps: Any = "lossy" if "map<" in str(schema) else None  # which takes ten times as long
    if size <= MAX_RECORD:
        yield from batch.cast(schema).to_pylist(maps_as_pydicts=maps)
        return
    for row in (batch.slice(start, 1) for start in range(batch.num_rows)):
        if _unpacked_size(row) > MAX_RECORD:
            yield ValueError(f"the row is longer than {MAX_RECORD:,} bytes")
        else:
            yield from row.cast(schema).to_pylist(maps_as_pydicts=maps)


def _find_group_starts(metadata: Any) -> list[int]:
    # The lowest offset of a column's pages, since a page of distinct values may come first.
    columns = [metadata.row_group(number).column(0) for number in range(metadata.num_row_groups)]
    return [min(column.dictionary_page_offset or 1 << 62, column.data_page_offset) for column in columns]
