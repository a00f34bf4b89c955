"""Extreme classification data: every file layout gives the same documents, labels and excluded pairs."""

import io
import json
from functools import partial

import numpy as np
import pytest
from papers.xmc import load_xmc
from scipy import sparse

from hf_gile import Label, LabelSet
from hf_gile.training import encode_dataset

LABELS = ["Mouse trap", "Cheese", "", "Cheese", "Rat trap"]
TRAIN = [("Traps\u2028for mice", [4, 0]), ("Käse", [1, 3]), ("Nothing", []), ("", [1]), ("More cheese", [3])]
TEST = [("A trap", [0]), ("Brie", [1, 2])]
EXCLUDED = {"train": {0: ["1", "2"], 4: ["0"]}, "test": {1: ["3"]}}
CHEESES = [Label("1", "Cheese", "1"), Label("2", "2"), Label("3", "Cheese", "3")]
LABEL_SET = LabelSet([Label("0", "Mouse trap"), *CHEESES, Label("4", "Rat trap")])
LABEL_SET = LABEL_SET.with_counts({"0": 1, "1": 1, "3": 2, "4": 1})


def expected(ids, rows, excluded):
    return [
        {"id": name, "text": text, "labels": list(map(str, gold)), "excluded": excluded.get(row, [])}
        for row, (name, (text, gold)) in enumerate(zip(ids, rows, strict=True))
        if text and gold
    ]


def lines(rows):
    return "".join(row + "\n" for row in rows)


def texts_of(rows, start=""):
    return lines(start.format(number) + text for number, (text, _) in enumerate(rows))


def text_of_matrix(rows):
    return lines([f"{len(rows)} 5", *(" ".join(f"{column}:1.00000" for column in gold) for _, gold in rows)])


def matrix(rows):
    """Returns labels as a file of scipy."""
    ends = np.cumsum([0, *(len(gold) for _, gold in rows)])
    columns = [column for _, gold in rows for column in gold]
    file = io.BytesIO()
    sparse.save_npz(file, sparse.csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(rows), 5)))
    return file.getvalue()


def json_lines(rows):
    written = []
    for number, (text, gold) in enumerate(rows):
        row = {"uid": f"B{number}", "title": text, "content": ""}
        written.append(json.dumps(row | {"target_ind": gold, "target_rel": [1.0] * len(gold)}))
    return lines(written)


FILTERS = {"filter_labels_train.txt": "0 1\n0 2\n4 0\n", "filter_labels_test.txt": "1\t3\n"}


def forms():
    labels = lines(json.dumps({"uid": f"L{row}", "title": name, "content": ""}) for row, name in enumerate(LABELS))
    texts = {"trn_X.txt": texts_of(TRAIN), "tst_X.txt": texts_of(TEST)}
    golds = {"trn_X_Y.txt": text_of_matrix(TRAIN), "tst_X_Y.txt": text_of_matrix(TEST)}
    uid, row = "B{}", "{}"
    return {
        "json": ({"trn.json": json_lines(TRAIN), "tst.json": json_lines(TEST), "lbl.json": labels} | FILTERS, uid),
        "texts": (texts | golds | {"Y.txt": lines(LABELS), "Yf.txt": "no labels"} | FILTERS, row),
        "texts of Windows": (
            {name: content.replace("\n", "\r\n") for name, content in (texts | golds).items()}
            | {"lbl.txt": "\ufeff" + lines(LABELS)}
            | {"trn_filter_labels.txt": FILTERS["filter_labels_train.txt"], "tst_filter_labels.txt": "1 3"},
            row,
        ),
        "texts with uids": (
            {"raw_data/train.raw.txt": texts_of(TRAIN, "B{}->"), "raw_data/test.raw.txt": texts_of(TEST, "B{}->")}
            | {"raw_data/label.raw.txt": texts_of([(name, []) for name in LABELS], "L{}->")}
            | golds
            | FILTERS,
            uid,
        ),
        "matrices": (
            {"X.trn.txt": texts_of(TRAIN), "X.tst.txt": texts_of(TEST), "output-items.txt": lines(LABELS)}
            | {"Y.trn.npz": matrix(TRAIN), "Y.tst.npz": matrix(TEST)}
            | FILTERS,
            row,
        ),
    }


@pytest.fixture
def write(write, tmp_path):
    """Writes the files of a set, and returns its folder."""

    def write_set(contents):
        for name, content in contents.items():
            write(f"set/{name}", content)
        return tmp_path / "set"

    return write_set


@pytest.fixture
def load(tmp_path):
    return partial(load_xmc, cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("form", forms())
def test_every_file_layout_gives_the_same_data(write, load, form, report):
    contents, ids = forms()[form]
    corpus = load(write(contents), report=report)
    for split, rows in (("train", TRAIN), ("test", TEST)):
        names = [ids.format(number) for number in range(len(rows))]
        assert list(corpus.documents[split]) == expected(names, rows, EXCLUDED[split])
    assert corpus.label_set == LABEL_SET
    assert report.records == 5
    assert report.left_out == {"without labels": 1, "without text": 1, "label without text": 1}
    assert report.homonyms == 2


def test_another_encoding_is_read_and_a_wrong_encoding_named(write, load, lenient):
    latin = texts_of(TRAIN).replace("\u2028", " ").encode("latin-1")
    folder = write(forms()["texts"][0] | {"trn_X.txt": latin})
    message = r"trn_X\.txt: line 2: byte 2 of the line is not utf-8; .* pass encoding=.windows-1252.$"
    with pytest.raises(ValueError, match=message):
        load(folder)
    assert load(folder, encoding="latin-1").documents["train"][1]["text"] == "Käse"
    assert load(folder, report=lenient).documents["train"]["id"] == ["0", "4"]
    assert lenient.left_out["malformed document"] == 1


NO_NUMBER = r"trn_X\.txt: line 1: .*trn_X_Y\.txt: line 2: expected a whole"
MORE_LABELS = r"trn_X\.txt: 5 documents, but .*trn_X_Y\.txt has labels for more"


@pytest.mark.parametrize(
    ("form", "changes", "message"),
    [
        ("json", {"trn.json": "{\n"}, r"trn\.json: line 1: not JSON"),
        ("json", {"trn.json": '{"title": "x", "target_ind": [5]}'}, "line 1: no label 5, only 0 to 4"),
        ("json", {"filter_labels_train.txt": "5 0\n"}, r"refers to document 5, but .*trn\.json has 5, counted from 0"),
        ("texts", {"trn_X_Y.txt": "5 5\n0:1 x:1\n1\n\n\n\n"}, NO_NUMBER),
        ("texts", {"trn_X_Y.txt": "5 5\n0:1\n\n\n\n"}, r"trn_X_Y\.txt: line 1 declares 5 documents, but 4 follow"),
        ("texts", {"trn_X_Y.txt": "6 5\n0:1\n\n\n\n\n\n"}, MORE_LABELS),
    ],
)
def test_malformed_lines_and_differing_sizes_are_named_or_skipped(write, load, form, changes, message, lenient):
    if "trn.json" in changes:
        changes = {"trn.json": changes["trn.json"].rstrip("\n") + "\n" + json_lines(TRAIN)}
    folder = write(forms()[form][0] | changes)
    with pytest.raises(ValueError, match=message):
        load(folder)
    assert 0 < len(load(folder, ["train"], report=lenient).documents["train"]) <= 3
    assert {"malformed document", "malformed label", "malformed pair", "damaged file"} & set(lenient.left_out)


def test_filtered_pairs_are_not_labels(write, load, report):
    texts = {"trn_X.txt": "x\ny\nz\n", "Y.txt": "Mice\nRats\n", "trn_X_Y.txt": "3 2\n0:1 1:1\n0:1\n0:1\n"}
    folder = write(texts | {"filter_labels_train.txt": "0 1\n0 1\n1 0\n"})
    train = load(folder, ["train"], report=report).documents["train"]
    assert (train["id"], train["labels"], train["excluded"]) == (["0", "2"], [["0"], ["0"]], [["1"], []])
    assert report.left_out == {"without labels": 1}


def test_filtered_pairs_reach_the_model_as_excluded_columns(write, load, make_model):
    corpus = load(write(forms()["json"][0]))
    rows = encode_dataset(corpus.documents["train"], make_model()[1], corpus.label_set, excluded="excluded")
    assert rows["labels"] == [[4, 0], [1, 3], [3]]
    assert rows["excluded_columns"] == [[1, 2], [], [0]]


def test_missing_files_and_bags_of_words_are_refused(write, load):
    contents = forms()["texts"][0]
    folder = write(contents)
    (folder / "tst_X_Y.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"no tst_X_Y\.txt or tst_X_Y\.npz or Y\.tst\.npz in .*set"):
        load(folder)
    folder = write(contents)
    for name in ("Y.txt", "Yf.txt"):
        (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=r"no lbl\.json or Y\.txt or .*Yf\.txt in"):
        load(folder)
    (write({"train.txt": "2 5 2\n0,1 0:1.0 1:0.5\n"}) / "trn_X.txt").unlink()
    with pytest.raises(ValueError, match=r"train\.txt: bags of words without text; use the raw text .*trn\.json"):
        load(folder)
    with pytest.raises(ValueError, match=r"splits are 'train' and 'test', got \["):
        load(folder, ["dev"])
