"""Writes tables in every format."""

import gzip
import io
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = [
    {"id": "d3", "title": "On mice.", "abstract": 'Mice "were" seen,\nand rats.', "labels": ["mice", "rats"]},
    {"id": "d5", "title": "Über Mäuse.", "abstract": None, "labels": ["mice"]},
    {"id": "d7", "title": "", "abstract": "naïve β 😀", "labels": ["stars", "mice", "stars"]},
]


def content(name, rows=ROWS, **options):
    """Returns the bytes of a table with these rows, in the format of its suffix."""
    suffix = name.lower().removesuffix(".gz").rpartition(".")[2]
    if suffix == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows), sink, **options)
        return sink.getvalue().to_pybytes()
    if suffix == "jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    elif suffix == "json":
        text = json.dumps(rows, ensure_ascii=False, indent=1)
    else:
        delimiter = "\t" if suffix == "tsv" else ","
        lines = [list(rows[0]), *([cell(value) for value in row.values()] for row in rows)]
        text = "".join(delimiter.join(line) + "\n" for line in lines)
    packed = text.encode()
    return gzip.compress(packed) if name.endswith(".gz") else packed


def zipped(name, data):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, data)
    return packed.getvalue()


def cell(value):
    value = "" if value is None else "; ".join(value) if isinstance(value, list) else str(value)
    return '"' + value.replace('"', '""') + '"' if set(value) & set('",\n') else value
