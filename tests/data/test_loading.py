"""Behaviour of all loaders: cache, several processes, streams."""

import os
from functools import partial
from pathlib import Path

import pytest

from hf_gile.data import ReadReport
from hf_gile.data.loading import Piece, load_pieces


def features():
    import datasets

    return datasets.Features({"text": datasets.Value("string"), "process": datasets.Value("string")})


def lines(piece, report, *, prefix=""):
    """Yields the lines of a file; a line `bad` is malformed, an empty line is unusable."""
    report.files += 1
    with Path(piece.path).open("rb") as file:
        file.seek(piece.start)
        for line in file.read(-1 if piece.stop is None else piece.stop - piece.start).decode().splitlines():
            if line == "bad":
                report.problem("malformed line", f"{piece.path}: a bad line")
            elif not line:
                report.leave_out("empty line", piece.path)
            else:
                report.records += 1
                yield {"text": prefix + line, "process": f"{os.getpid()}"}


@pytest.fixture
def write(tmp_path):
    def write_files(**contents):
        paths = []
        for name, content in contents.items():
            (tmp_path / name).write_text(content)
            paths.append(Piece(str(tmp_path / name)))
        return paths

    return write_files


@pytest.fixture
def load(tmp_path):
    def load_all(pieces, on_error="raise", read=lines, key=(), **options):
        report = ReadReport(on_error)
        options = {"cache_dir": tmp_path / "cache"} | options
        return load_pieces(read, pieces, features, key=key, report=report, **options), report

    return load_all


@pytest.mark.parametrize("num_proc", [None, 7])
def test_rows_follow_the_piece_order_with_any_number_of_processes(write, load, num_proc):
    pieces = write(a="1\n2\n", b="3\n\n", c="4\n5\n")
    each = []
    dataset, report = load(pieces, num_proc=num_proc, piece_reports=each)
    assert dataset["text"] == ["1", "2", "3", "4", "5"]
    assert (report.files, report.records, report.left_out) == (3, 5, {"empty line": 1})
    assert report.examples == {"empty line": [pieces[1].path]}
    assert [report.records for report in each] == [2, 1, 2]
    assert len(set(dataset["process"])) == (3 if num_proc else 1)
    halves = [Piece(pieces[2].path, 0, 2), Piece(pieces[2].path, 2)]
    assert load(halves, num_proc=num_proc)[0]["text"] == ["4", "5"]


def test_cached_rows_are_reused_until_a_file_or_the_key_changes(write, load):
    (piece,) = write(a="1\n\n")
    first, report = load([piece])
    cached, cached_report = load([piece], read=None)
    assert cached["text"] == first["text"] == ["1"]
    assert cached_report == report
    assert load([piece], read=partial(lines, prefix="x"), key=["x"])[0]["text"] == ["x1"]
    before = Path(piece.path).stat().st_mtime_ns
    write(a="2\n\n")
    os.utime(piece.path, ns=(before + 1, before + 1))
    assert load([piece])[0]["text"] == ["2"]


def test_reader_errors_are_propagated_without_a_cache(write, load):
    pieces = write(a="1\n", b="bad\n")
    assert load(pieces, "skip")[1].left_out == {"malformed line": 1}
    for _ in range(2):
        with pytest.raises(ValueError, match="b: a bad line; fix it"):
            load(pieces, num_proc=2)
    write(b="2\n")
    assert load(pieces, num_proc=2)[0]["text"] == ["1", "2"]


def test_a_stream_reads_lazily_with_a_shard_per_piece(write, load):
    pieces = write(a="1\n2\n", b="3\n\n")
    stream, report = load(pieces, streaming=True)
    assert report.records == 0
    assert [row["text"] for row in stream] == ["1", "2", "3"]
    assert (report.records, report.left_out) == (3, {"empty line": 1})
    assert stream.num_shards == 2
    from datasets.distributed import split_dataset_by_node

    halves = [split_dataset_by_node(stream, rank, 2) for rank in (0, 1)]
    assert [[row["text"] for row in half] for half in halves] == [["1", "2"], ["3"]]
