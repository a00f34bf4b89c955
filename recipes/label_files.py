"""What label ids mean, from any file of labels there is a reader for."""

import json
from collections.abc import Sequence
from pathlib import Path

from hf_gile import LabelSet
from hf_gile.data import ReadReport, load_labels, load_mesh, load_skos
from hf_gile.data.files import open_binary, suffix_of

TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")


def is_mesh(path: str) -> bool:
    """Whether a file is MeSH: XML, ASCII, or JSON lines with a `ui`."""
    suffix = suffix_of(Path(path))
    if suffix != ".jsonl":
        return suffix in (".xml", ".bin")
    with open_binary(path) as file:
        try:
            first = json.loads(file.readline(1 << 20))
        except ValueError:
            return False  # for the reader of tables to say what is wrong
    return isinstance(first, dict) and "ui" in first


def read_label_file(
    path: str,
    *,
    id: str = "id",
    name: Sequence[str] = ("name",),
    describe: Sequence[str] = (),
    synonyms: Sequence[str] = (),
    languages: Sequence[str] = ("en",),
    encoding: str = "utf-8",
    report: ReadReport | None = None,
) -> LabelSet:
    """Reads a label set.

    Args:
        path: A table (.csv, .tsv, .json, .jsonl, .parquet), MeSH (.xml, .bin, .jsonl with a `ui`) or SKOS; all but
            .parquet may be packed by gzip.
        id: Of a table, the column of ids.
        name: Of a table, the columns of names; the first one that is not empty counts.
        describe: What to make descriptions of: columns of a table, `entry_terms`, `scope_note`, `tree_path` of MeSH,
            `alt_labels`, `definition`, `broader` of SKOS.
        synonyms: Of a table, the columns of other names; MeSH and SKOS have theirs.
        languages: Of SKOS, the languages of names, the best first.
        encoding: Of a table.
        report: Counts labels and says whether malformed ones raise, as they do without, or are left out.
    """
    if is_mesh(path):
        return load_mesh(path, describe, report)
    if suffix_of(Path(path)) in TABLES:
        columns = {"name": list(name), "description": list(describe) or None, "synonyms": list(synonyms) or None}
        return load_labels(path, id=id, **columns, encoding=encoding, report=report)
    return load_skos(path, list(languages), describe, report=report)
