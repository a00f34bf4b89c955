"""Exports label codes to vector databases: Parquet, and SQL for pgvector.

Shapes: L labels, J joint size.
"""

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from torch import Tensor

from ..extras import needs_extra
from ..label_index import LabelIndex
from ..models.labels_gile import Label
from ..writing import whole_file
from .codes import WORDS

MAX_INDEXED = {"vector": 2000, "halfvec": 4000}
"""Maximum vector size that pgvector can index, by column type; a halfvec has 16 bits per number."""

_CHUNK_SIZE = 1000


def export_vectors(
    index: LabelIndex,
    path: str | PathLike[str],
    *,
    table: str = "labels",
    scale: Tensor | None = None,
    without_words: bool = False,
) -> None:
    """Writes the labels of an index and their codes, whose inner products with text codes rank labels.

    Args:
        index: The index.
        path: A `.parquet` file with `id`, `name`, `description` and `vector`, and the constant of the score as `bias`
            in its metadata; or a `.sql` file that creates a PostgreSQL table with these columns, using the extension
            pgvector.
        table: Name of this table.
        scale: `(J,)` factors of the codes, such as those of `DenseLayer`.
        without_words: Whether to leave out lexical terms.

    Raises:
        ValueError: If the suffix is unknown, the score has lexical terms, or the codes are too large for pgvector.
        ImportError: If the extra `export` is not installed.
    """
    path = Path(path)
    if path.suffix not in (".parquet", ".sql"):
        raise ValueError(f"{path}: vectors can be written to a .parquet or .sql file, got {path.suffix or 'no suffix'}")
    if index.postings is not None and not without_words:
        raise ValueError(WORDS)
    codes = index.codes.float().cpu()
    if scale is not None:
        codes = codes * scale
    with whole_file(path) as staged:
        if path.suffix == ".parquet":
            _write_parquet(index, codes, staged)
            return
        with staged.open("w", encoding="utf-8") as file:
            file.writelines(_sql_statements(index, codes, table))


def _write_parquet(index: LabelIndex, codes: Tensor, path: Path) -> None:
    with needs_extra("export", "a Parquet file"):
        import pyarrow as pa
        from pyarrow import parquet
    labels = index.label_set
    size = codes.shape[1]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(codes.flatten().numpy()), size)
    columns = {
        "id": pa.array(labels.ids),
        "name": pa.array(labels.names),
        "description": pa.array([label.description for label in labels]),
        "vector": vectors,
    }
    parquet.write_table(pa.table(columns, metadata={"bias": str(index.bias)}), path)


def _sql_statements(index: LabelIndex, codes: Tensor, table: str) -> Iterator[str]:
    size = codes.shape[1]
    kind = next((kind for kind, most in MAX_INDEXED.items() if size <= most), None)
    if kind is None:
        raise ValueError(
            f"the codes have size {size}, and pgvector indexes at most {MAX_INDEXED['halfvec']}: use a model with a "
            "smaller joint_size, or a .parquet file for another database"
        )
    name = '"' + table.replace('"', '""') + '"'
    yield f"-- score of a label: {index.bias!r} - (vector <#> text_code); <#> is the negative inner product\n"
    yield "BEGIN;\nCREATE EXTENSION IF NOT EXISTS vector;\n"
    yield f"CREATE TABLE {name} (id text PRIMARY KEY, name text NOT NULL, description text NOT NULL, "
    yield f"vector {kind}({size}) NOT NULL);\n"
    for start in range(0, len(codes), _CHUNK_SIZE):
        rows = zip(index.label_set[start : start + _CHUNK_SIZE], codes[start : start + _CHUNK_SIZE], strict=True)
        values = ",\n".join(_format_row(label, code) for label, code in rows)
        yield f"INSERT INTO {name} (id, name, description, vector) VALUES\n{values};\n"
    yield f"CREATE INDEX ON {name} USING hnsw (vector {kind}_ip_ops);\nCOMMIT;\n"


def _format_row(label: Label, code: Tensor) -> str:
    texts = (label.id, label.name, label.description)
    quoted = ", ".join("'" + text.replace("'", "''").replace("\0", "") + "'" for text in texts)
    return f"({quoted}, '{json.dumps(code.tolist())}')"
