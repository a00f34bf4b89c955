"""Tables as their makers write them: what is read, what is said about it, and what is refused with the way out."""

import csv
import gzip
import io
import json
import random
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_gile.data.table_source import TableSource

NAMES = ["copper hose", "outer valve", "rubber rotor", "spare shaft", "lower gasket"]


def documents(number=40, each=2, seed=3):
    draw = random.Random(seed)
    gold = [draw.sample(NAMES, each) for _ in range(number)]
    return [{"text": f"Note {row}, über {' und '.join(ids)}.", "tags": ids} for row, ids in enumerate(gold)]


def table(rows, delimiter=",", header=True, quote='"', **options):
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, quotechar=quote, lineterminator="\r\n", **options)
    if header:
        writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return written.getvalue()


def one_hot(rows, value=int):
    names = [{name: value(name in row["tags"]) for name in NAMES} for row in rows]
    return [
        {"id": number, "text": row["text"], **flags}
        for number, (row, flags) in enumerate(zip(rows, names, strict=True))
    ]


def joined(rows, sign):
    return [{"text": row["text"], "tags": sign.join(row["tags"])} for row in rows]


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def zipped(name, data):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, data)
    return packed.getvalue()


ROWS = documents()
# The name, the content, and the settings other than --labels tags.
MAKERS = {
    "pandas": ("a.csv", table([{"": 0, **row} for row in ROWS]), {}),
    "NumPy": ("a.csv", table([{**row, "tags": "[" + " ".join(map(repr, row["tags"])) + "]"} for row in ROWS]), {}),
    "Excel in Germany": ("a.csv", table(joined(ROWS, ", "), ";").encode("cp1252"), {"separator": ","}),
    "Excel with sep": ("a.csv", ("\ufeffsep=;\r\n" + table(joined(ROWS, "|"), ";")).encode(), {"separator": "|"}),
    "Excel as Unicode text": ("a.csv", table(joined(ROWS, ";"), "\t").encode("utf-16"), {"separator": ";"}),
    "Kaggle": ("a.csv.zip", zipped("a.csv", table(one_hot(ROWS))), {"labels": ["labels"]}),
    "ETHOS": ("a.csv", table(one_hot(ROWS, lambda has: 0.83 if has else 0.17), ";"), {"labels": NAMES}),
    "a database": ("a.tsv", table([{**row, "tags": json.dumps(row["tags"])} for row in ROWS], "\t"), {}),
    "fastText-like, without a header": (
        "a.tsv",
        table(joined(ROWS, " / "), "\t", header=False),
        {"text": ["1"], "labels": ["2"], "separator": "/"},
    ),
    "columns that are named": (
        "a.csv",
        table(joined(ROWS, "/"), header=False),
        {"columns": ["text", "tags"], "separator": "/"},
    ),
    "single quotes": ("a.csv", table(joined(ROWS, "|"), quote="'", quoting=csv.QUOTE_ALL), {"separator": "|"}),
    "JSON lines named .json": ("a.json", "".join(json.dumps(row) + "\n" for row in ROWS), {}),
    "objects": (
        "a.jsonl.gz",
        gzip.compress(
            "\n".join(
                json.dumps({**row, "tags": [{"id": f"Q{NAMES.index(name)}", "name": name} for name in row["tags"]]})
                for row in ROWS
            ).encode()
        ),
        {},
    ),
    "the Hub": ("a.parquet", parquet(ROWS), {}),
}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Reads files by name as a table source; returns the parts, the labels, and what was said."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")

    def read_all(contents, **settings):
        paths = {}
        for name, content in contents.items():
            path = tmp_path / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            paths[name] = str(path)
        files = {name: [paths[file] for file in value] for name, value in settings.items() if name.endswith("_files")}
        label_file = {"label_file": paths[settings["label_file"]]} if "label_file" in settings else {}
        said = []
        source = TableSource(**{"train_files": [next(iter(paths.values()))], **settings, **files, **label_file})
        parts, labels, _ = source.read_all(lambda line: said.append(str(line)))
        return parts, labels, "\n".join(said)

    return read_all


@pytest.mark.parametrize("maker", MAKERS)
def test_tables_of_different_makers_give_the_same_documents(read, maker):
    name, content, settings = MAKERS[maker]
    parts, labels, said = read({name: content}, **{"labels": ["tags"], **settings})
    gold = {
        text: sorted(ids) for rows in parts.values() for text, ids in zip(rows["text"], rows["labels"], strict=True)
    }
    assert gold == {row["text"]: sorted(row["tags"]) for row in ROWS}
    assert set(labels.ids) == set(NAMES)
    assert "  label column" in said


def test_what_a_table_looks_like_is_said_with_examples_and_the_flag_that_overrules(read):
    said = read({"a.csv": table(joined(ROWS, ", "), ";").encode("cp1252")}, labels=["tags"], separator=",")[2]
    lines = said.splitlines()
    assert lines[0] == "train: 40 records from 1 file; left out: none"
    flags = "--delimiter, --quote, --encoding and --columns overrule"
    assert lines[1] == f"  a.csv: encoding cp1252, as in 'über'; delimiter ';' ({flags})"
    examples = " and ".join(repr(" | ".join(row["tags"])) for row in ROWS[:2])
    assert lines[2] == f"  label column 'tags': labels separated by ',', such as {examples} (--separator overrules)"


def test_flags_overrule_what_is_seen(read):
    content = table(joined(ROWS, "|"), ";").replace(",", "")
    with pytest.raises(ValueError, match="no column 'text', only text;tags"):
        read({"a.csv": content}, labels=["tags"], delimiter=",")
    parts, _, _ = read({"b.csv": content.encode("latin-1")}, labels=["tags"], separator="|", encoding="cp1253")
    assert "ό" in parts["train"]["text"][0]  # as requested, though wrong


def test_a_workbook_and_a_web_page_are_refused_with_what_to_do(read):
    with pytest.raises(ValueError, match=r"a\.xlsx is an Excel workbook: .*save it as \"CSV UTF-8\""):
        read({"a.xlsx": zipped("xl/workbook.xml", "<workbook/>")})
    with pytest.raises(ValueError, match=r"a\.csv is a web page"):
        read({"a.csv": "<!DOCTYPE html><html></html>"})


def test_a_table_without_a_header_says_how_to_name_its_columns(read):
    content = table(joined(documents(each=1), "|"), header=False)
    with pytest.raises(ValueError, match=r"no column 'text', only 1, 2; the file has no header: name all .* --columns"):
        read({"a.csv": content}, labels=["tags"])
    different = "The heart pumps.,Blood\nMice eat.,Mice\nRats sleep.,Rats\n"
    with pytest.raises(ValueError, match=r"only The heart pumps., Blood; .* is no header, name all .* --columns"):
        read({"b.csv": different}, labels=["tags"])


def test_joined_labels_stop_the_run_before_training(read):
    with pytest.raises(ValueError, match=r"look like several labels, .*: pass --separator ';', or --separator none"):
        read({"a.csv": table(joined(ROWS, "; "))}, labels=["tags"])
    assert len(read({"a.csv": table(joined(ROWS, "; "))}, labels=["tags"], separator="none")[1]) > len(NAMES)
    with pytest.raises(ValueError, match=r"look like several labels, .*: pass --separator ';'"):
        read({"a.csv": table(joined(ROWS, "; "))}, labels=["tags"], separator="|")


def test_lists_of_zeros_and_ones_get_the_names_of_the_label_file(read):
    rows = [{"text": row["text"], "labels": [int(name in row["tags"]) for name in NAMES]} for row in ROWS]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    with pytest.raises(
        ValueError, match=r"say which of 5 labels a document has, but not their names: pass a --label_file"
    ):
        read({"a.jsonl": content})
    labels = "id,name\n" + "".join(f"{name},{name}\n" for name in NAMES)
    parts, label_set, _ = read({"a.jsonl": content, "labels.csv": labels}, label_file="labels.csv")
    gold = {tuple(sorted(ids)) for ids in parts["train"]["labels"]}
    assert gold <= {tuple(sorted(row["tags"])) for row in ROWS}
    assert set(label_set.ids) == set(NAMES)


def test_documents_without_labels_are_negatives_in_every_part(read):
    rows = [{**row, "tags": row["tags"] if number % 3 == 0 else []} for number, row in enumerate(documents(90))]
    parts, labels, said = read({"a.jsonl": "".join(json.dumps(row) + "\n" for row in rows)}, labels=["tags"])
    assert "90 records from 1 file, 60 of them without labels; left out: none" in said
    assert all(sum(not ids for ids in part["labels"]) > 0.4 * len(part) for part in parts.values())
    assert len(labels) == len(NAMES)


def test_other_parts_are_read_like_the_training_documents(read):
    few = joined(ROWS[:3], "|")
    contents = {"a.csv": table(joined(ROWS, "|")), "test.csv": table(few)}
    parts, _, _ = read(contents, labels=["tags"], separator="|", test_files=["test.csv"])
    assert parts["test"]["labels"] == [row["tags"] for row in ROWS[:3]]
    # 25 different labels are no reason to refuse a test file.
    names = [f"label {number}" for number in range(25)]
    rows = [{"text": f"text {number}", "tags": names[number % 25]} for number in range(100)]
    contents = {"a.csv": table(rows), "test.csv": table(rows[:25])}
    assert len(read(contents, labels=["tags"], test_files=["test.csv"])[0]["test"]) == 25


def test_forms_of_one_name_are_one_label_and_cases_are_noted(read):
    forms = ["Café", "Cafe\u0301", "Caf\u00e9 ", "\u00a0Café"] * 5
    rows = [{"text": f"text {number}", "tags": name} for number, name in enumerate([*forms, "trade", "Trade", "trade"])]
    _, labels, said = read({"a.csv": table(rows)}, labels=["tags"])
    assert sorted(labels.ids) == ["Café", "Trade", "trade"]
    note = "note: 2 labels differ from others in upper and lower case only, such as 'trade' and 'Trade'"
    assert f"{note}: they count as different labels" in said


def test_a_label_file_that_differs_in_form_only_is_matched_or_explained(read):
    rows = [{"text": f"text {number}", "tags": name} for number, name in enumerate(["Café", "Trade"] * 20)]
    contents = {"a.csv": table(rows), "labels.csv": "id,name\nCafe\u0301,Coffee\nTrade,Trade\n"}
    assert read(contents, labels=["tags"], label_file="labels.csv")[1].names.count("Coffee") == 1
    contents["labels.csv"] = "id,name\nCafé,Coffee\ntrade,Trade\n"
    with pytest.raises(
        ValueError, match=r"lacks 1 label id .*'Trade' \(the labels have 'trade', which differs in case"
    ):
        read(contents, labels=["tags"], label_file="labels.csv")
    contents["labels.csv"] = "id,name\nT1,Trade\nT2,Café\n"
    with pytest.raises(
        ValueError, match=r"lacks 2 label ids .* is the name of a label, but the documents must have ids"
    ):
        read(contents, labels=["tags"], label_file="labels.csv")
