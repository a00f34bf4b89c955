"""Limits on the size of decompressed and nested files."""

import bz2
import gzip
import json
import lzma

import pytest
from papers.bioasq import read_bioasq

from hf_gile.data import load_table
from hf_gile.data.files import open_binary, read_yaml

GROWN = 20 << 20


@pytest.fixture
def packed(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(gzip.compress(data, 6))
        return path

    return write


@pytest.mark.parametrize("held", [False, True])
def test_decompression_bombs_are_refused_with_instructions(packed, held):
    path = packed("a.txt.gz", bytes(GROWN))
    with (
        open_binary(path, in_memory=held) as stream,
        pytest.raises(ValueError, match=r"a\.txt\.gz: .* decompress it \(gunzip\)"),
    ):
        stream.read()


def test_highly_compressible_files_are_read(packed):
    text = b"".join(b"%d\tmice and rats and mice and rats and mice\n" % number for number in range(200_000))
    path = packed("a.txt.gz", text)
    assert len(text) > 15 * path.stat().st_size
    with open_binary(path) as stream:
        assert sum(map(len, iter(lambda: stream.readline(1 << 20), b""))) == len(text)


@pytest.mark.parametrize(
    ("name", "start", "row"),
    [
        ("a.json.gz", b'[{"text": "On mice.", "labels": ["mice"]},', b" " * 1_000_000),
        ("a.jsonl.gz", b'{"text": "On mice.", "labels": ["mice"]}\n', b" " * 1_000_000 + b"\n"),
        ("a.csv.gz", b"text,labels\n", b"m" * 1_000_000 + b",mice\n"),
    ],
    ids=["json", "jsonl", "csv"],
)
def test_compressed_tables_that_expand_too_much_are_refused(packed, name, start, row):
    documents, _ = load_table(packed(name, start + row * 20), streaming=True)
    with pytest.raises(
        ValueError, match=rf"{name}: damaged after \d+ records: .*expands to more than 200 times its size"
    ):
        list(documents)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("kind", ["cut", "changed"])
def test_a_damaged_compressed_table_is_named(tmp_path, pack, kind):
    data = pack(b"text,labels\n" + b"".join(b"text %d,mice\n" % number for number in range(20_011)))
    half = len(data) // 2
    (tmp_path / "a.csv").write_bytes(data[:half] + (b"" if kind == "cut" else bytes(99) + data[half + 99 :]))
    with pytest.raises(ValueError, match=r"a\.csv: (damaged after [\d,]+ records|line [\d,]+): "):
        list(load_table(tmp_path / "a.csv", labels="labels", streaming=True)[0])


def test_a_compressed_record_that_expands_too_much_is_refused(packed):
    path = packed("a.json.gz", b'{"articles": [' + b"[]," * (GROWN // 3))
    with pytest.raises(ValueError, match=r"a\.json\.gz: .*malformed|a\.json\.gz: .*record|a\.json\.gz: .*200 times"):
        list(read_bioasq(path))


def test_yaml_aliases_are_refused_with_their_line(tmp_path):
    path = tmp_path / "settings.yaml"
    lines = [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    path.write_text("\n".join(["a: &a [lol]", *lines]), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"settings\.yaml is not YAML: line 2: aliases are not allowed, replace \*a by"
    ):
        read_yaml(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b"a: " + "ä".encode("cp1252"), "byte 4 is not UTF-8"),
        (b"when: 2001-99-99", "is not YAML: month must be in 1..12"),
        (b"{[1]: 2}", "is not YAML: .*unhashable"),
        (b"!!python/object/apply:os.system [touch mark]", "is not YAML: could not determine a constructor"),
        (b"#" * (2 << 20), "longer than 1,048,576 bytes"),
        (b"a: " + b"9" * 5000, "is not YAML"),
    ],
)
def test_invalid_yaml_gets_a_short_message(tmp_path, content, message):
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"settings\.yaml.*{message}") as error:
        read_yaml(path)
    assert len(str(error.value)) < 1000


def test_yaml_values_are_read_unchanged(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: [1, b]\n")
    assert json.dumps(read_yaml(path)) == '{"a": [1, "b"]}'
