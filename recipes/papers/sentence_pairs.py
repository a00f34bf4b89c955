"""Readers of sentence pairs: text files with one sentence per line, and datasets of the Hub."""

from pathlib import Path
from typing import TYPE_CHECKING

from hf_gile.data.loading import Piece
from hf_gile.data.table_files import read_lines
from hf_gile.extras import needs_extra

if TYPE_CHECKING:
    from datasets import Dataset

PARTS = {"train": ("train",), "validation": ("val", "dev"), "test": ("test",)}
"""Prefixes of the file names of each part."""


def load_sentence_pairs(place: str, source: str, target: str, config: str | None = None) -> "dict[str, Dataset]":
    """Loads sentence pairs for training, validation and test.

    Args:
        place: A folder with two files for each part, such as `train.de` and `train.en.gz` (the alphabetically first, if
            there are several); or the name of a dataset on the Hub with the splits train, validation and test, and
            with a column `translation`, as in WMT, or a column for each language.
        source: Source language, as named in files and columns.
        target: Target language.
        config: Configuration of a dataset, such as de-en.

    Returns:
        A dataset for each of `PARTS`, with the columns `source` and `target`.

    Raises:
        ImportError: If datasets is not installed.
        OSError: If a file is missing.
        ValueError: If the dataset lacks a split or a language, a line is not UTF-8, or two files differ in length.
    """
    with needs_extra("train", "a translation model"):
        from datasets import Dataset, load_dataset
    if Path(place).is_dir():
        return {part: Dataset.from_dict(_read_part(Path(place), part, source, target)) for part in PARTS}
    loaded, pairs = load_dataset(place, config), {}
    for part in PARTS:
        if part not in loaded:
            raise ValueError(f"the dataset {place} has the splits {', '.join(loaded)}, but no {part}")
        rows = loaded[part].flatten()
        columns = {name.removeprefix("translation."): name for name in rows.column_names}
        for language in (source, target):
            if language not in columns:
                raise ValueError(f"the dataset {place} has no sentences in {language!r}, only {', '.join(columns)}")
        names = {columns[source]: "source", columns[target]: "target"}
        pairs[part] = rows.select_columns([*names]).rename_columns(names)
    return pairs


def _read_part(folder: Path, part: str, source: str, target: str) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for side, language in (("source", source), ("target", target)):
        paths = sorted(
            path
            for start in PARTS[part]
            for path in folder.glob(f"{start}*")
            if path.name.removesuffix(".gz").endswith(f".{language}")
        )
        if not paths:
            raise FileNotFoundError(f"no file {PARTS[part][0]}.{language} (or .gz) in {folder}")
        columns[side] = []
        for number, line in read_lines(Piece(str(paths[0])), "utf-8"):
            if isinstance(line, ValueError):
                raise ValueError(f"{paths[0]}: line {number:,}: {line}")
            columns[side].append(line.strip())
    if len(columns["source"]) != len(columns["target"]):
        sizes = " and ".join(f"{len(lines):,}" for lines in columns.values())
        raise ValueError(
            f"{part} has {sizes} sentences of {source} and {target} in {folder}; the numbers must be equal"
        )
    return columns
