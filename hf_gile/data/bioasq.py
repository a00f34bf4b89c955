"""Reader of BioASQ's JSON files of MEDLINE abstracts, and of the same records as JSON lines.

`.json`, as BioASQ distributes its training sets (task A, allMeSH_*.json):

    {"articles": [
    {"journal": "J Mice", "year": "1976", "pmid": "5", "title": "On mice.",
     "abstractText": "Mice were seen.", "meshMajor": ["Animals", "Mice"]},
    ...
    ]}

`.jsonl`: one such record per line. Both may be compressed (`.gz`) and may have ids, as `meshUI` in the order of
`meshMajor`. The files are available from http://participants-area.bioasq.org after registration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from .files import data_suffix, is_packed, open_binary
from .json_text import (
    SPACE,
    ByteRange,
    JsonText,
    check_parts,
    codec_message,
    json_array,
    json_lines,
    json_values,
    resolve_codec,
)
from .loading import Piece
from .report import ReadReport
from .schema import Record, validate_record

_PIECE = 1 << 26
_LONGEST_SEARCH = 1 << 24


def read_bioasq(
    path: str | os.PathLike[str],
    report: ReadReport | None = None,
    *,
    encoding: str = "utf-8",
    ui_of: Mapping[str, str] | None = None,
) -> Iterator[Record]:
    """Reads a `.json` or `.jsonl` file, optionally gzipped, in constant memory.

    Args:
        path: The file.
        report: Counts skipped input and decides whether malformed input raises (the default).
        encoding: `"utf-8"` (with or without a byte order mark), `"windows-1252"` or `"latin-1"`.
        ui_of: Maps heading names to ids, for records without `meshUI`; other names are used as ids.

    Yields:
        The records in file order, including those without abstract or headings.

    Raises:
        ValueError: If the file or a record is malformed, unless the report says to skip.
    """
    report = ReadReport() if report is None else report
    yield from read_piece(Piece(os.fspath(path)), report, encoding=encoding, ui_of=ui_of)


def read_piece(
    piece: Piece, report: ReadReport, *, encoding: str = "utf-8", ui_of: Mapping[str, str] | None = None
) -> Iterator[Record]:
    """Reads a file like `read_bioasq`, or a part of a file from `cut`, which must end at the start of a record."""
    codec = resolve_codec(encoding)
    lines = data_suffix(Path(piece.path)) == ".jsonl"
    unit = "line" if lines else "record"
    name = f"{piece.path} from byte {piece.start:,}" if piece.start else piece.path
    with open_binary(piece.path) as stream:
        part = ByteRange(stream, piece)
        items: Iterator[tuple[int, object]]
        items = json_lines(part) if lines else enumerate(_iterate_articles(JsonText(part, codec, piece)), 1)
        for number, item in report.until_damage(items, name):
            try:
                record = validate_record(_parse_line(item, codec) if isinstance(item, bytes) else item, ui_of)
            except ValueError as error:
                report.problem("malformed record", f"{name}: {unit} {number:,}: {error}")
                continue
            yield record


def cut(path: str | os.PathLike[str]) -> list[Piece]:
    """Cuts a large file into parts for several processes.

    A `.jsonl` file can be cut at any line. A `.json` file is cut before lines that contain a complete record and follow
    a comma, as in BioASQ files. The reader of the preceding part verifies the cut: it must end there, after an article
    and a comma.

    Returns:
        Parts of about 64 MB; the whole file if it is small, compressed or of another layout.
    """
    path = Path(path)
    starts = [0]
    with path.open("rb") as stream:
        if not is_packed(path):
            for offset in range(_PIECE, path.stat().st_size, _PIECE):
                start = _next_start(stream, offset, any_line=data_suffix(path) == ".jsonl")
                if start is None:
                    break
                if start > starts[-1]:
                    starts.append(start)
    return [Piece(str(path), start, stop) for start, stop in zip(starts, [*starts[1:], None], strict=True)]


def _next_start(stream: IO[bytes], offset: int, any_line: bool) -> int | None:
    """Finds the next line to cut before; None if it is far away or missing."""
    stream.seek(offset)
    before = stream.readline(_LONGEST_SEARCH)
    while before.endswith(b"\n") and (start := stream.tell()) < offset + _LONGEST_SEARCH:
        line = stream.readline(_LONGEST_SEARCH)
        if not line:
            break
        if any_line or (before.rstrip().endswith(b",") and _is_record(line)):
            return start
        before = line if line.strip() else before
    return None


def _is_record(line: bytes) -> bool:
    if not line.startswith(b"{"):
        return False
    try:
        value = json.loads(line.decode("latin-1").rstrip(SPACE).removesuffix(","))
    except (ValueError, RecursionError):
        return False
    return {"pmid", "abstractText"} <= value.keys()


def _parse_line(line: bytes, codec: str) -> object:
    try:
        check_parts(line)
        return json.loads(line.decode(codec))
    except UnicodeDecodeError as error:
        raise ValueError(codec_message(codec, error.start)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _iterate_articles(text: JsonText) -> Iterator[object]:
    keys: list[object] = []
    if text.start:
        keys.append("articles")
        if not (yield from json_values(text)):
            return
    elif text.next_character() == "[":  # without the key
        yield from json_array(text)
        _expect_end(text, "bracket")
        return
    elif text.next_character():
        text.expect("{")
    else:
        raise ValueError("empty file")
    while text.next_character() != "}":
        if keys:
            text.expect(",")
        keys.append(text.value())
        text.expect(":")
        if keys[-1] != "articles":
            text.value()
            continue
        if not (yield from json_array(text)):
            return
    text.expect("}")
    if "articles" not in keys:
        raise ValueError(f'expected {{"articles": [...]}}, got the keys {keys[:9]}')
    _expect_end(text, "brace")


def _expect_end(text: JsonText, name: str) -> None:
    if trailing := text.next_character():
        raise ValueError(f"expected the end of the file after the closing {name}, got {trailing!r}")
