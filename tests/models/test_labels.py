import json

import numpy as np
import pytest

from hf_gile import Label, LabelSet

SYNONYMS = ("Breast Milk", "Mother's Milk; human", "a\\b;", "\\", 'say "milk",\nnow')
FULL = [
    Label("D006333", "Heart Failure", 'the heart "fails", often', "en", True, 42, 0.25),
    Label("D008895", "Milk, Human", synonyms=SYNONYMS),
    Label("D007501", "Eisen", "Fe;\nMetall", "de", count=1, broader=("D008670", "a;b")),
]


def test_a_saved_label_set_loads_unchanged(tmp_path):
    labels = LabelSet(FULL)
    labels.save(tmp_path / "labels.jsonl")
    assert LabelSet.load(tmp_path / "labels.jsonl") == labels


def test_other_file_types_are_left_to_the_table_readers(tmp_path):
    for use in (LabelSet.load, LabelSet(FULL).save):
        with pytest.raises(ValueError, match=r"a\.csv: the file of a label set is \.jsonl; hf_gile\.load_labels"):
            use(tmp_path / "a.csv")


def test_columns_follow_the_order_of_the_labels():
    labels = LabelSet(FULL)
    assert labels.columns(["D007501", "D006333"]) == [2, 0]
    assert labels.texts[0] == 'Heart Failure: the heart "fails", often'
    assert labels[1:].names == ["Milk, Human", "Eisen"]
    assert "D008895" in labels
    assert "Milk, Human" not in labels


def test_changes_return_a_new_set_with_the_same_ids_and_columns():
    labels = LabelSet(FULL)
    assert labels.rename("D008895", "Human Milk").column("D008895") == 1
    assert labels.add(Label("D1", "New")).names == ["Heart Failure", "Milk, Human", "Eisen", "New"]
    assert labels.retire("D006333", "D008895").ids == ["D007501"]
    assert labels.update("D007501", name="Milk, Human", description="").texts[1:] == ["Milk, Human"] * 2  # in German
    assert [label.seen for label in labels.with_counts({"D007501": 3})] == [False, False, True]
    changed = labels.update("D007501", threshold=0.5).update("D006333", threshold=None)
    assert [label.threshold for label in changed] == [None, None, 0.5]
    assert [label.threshold for label in changed.update("D008895", threshold=0.1)] == [None, 0.1, 0.5]
    assert labels == LabelSet(FULL)


def test_labels_may_share_a_name_when_their_descriptions_differ():
    labels = LabelSet([Label("1", "Mercury", "a planet"), Label("2", "Mercury", "a metal"), Label("3", "Iron")])
    assert labels.id2label() == {0: "Mercury (1)", 1: "Mercury (2)", 2: "Iron"}
    awkward = LabelSet([Label("1", "A", "x"), Label("2", "A", "y"), Label("3", "A (1)")])
    assert len(set(awkward.id2label().values())) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "1", "name": "a"}\n{"id": "2"', "a.jsonl, row 2: not a line of JSON"),
        ('["1", "a"]\n', r"a.jsonl, row 1: expected a table row"),
        ('{"id": "1", "title": "a"}\n', "a.jsonl, row 1: unknown field 'title'; a label has id, name"),
        ('{"id": "1", "name": "a", "synonyms": "b"}\n', "row 1: synonyms must be tuple, got 'b'"),
    ],
)
def test_invalid_files_are_refused_by_file_and_row(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        LabelSet.load(tmp_path / "a.jsonl")


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_file_in_another_encoding_is_refused_by_row(tmp_path, encoding):
    path = tmp_path / "labels.jsonl"
    LabelSet([Label("D1", "Heart"), Label("D2", "Fièvre")]).save(path)
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    with pytest.raises(ValueError, match=r"labels\.jsonl, row \d: "):
        LabelSet.load(path)


def test_a_byte_order_mark_is_ignored(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "1", "name": "a"}), encoding="utf-8-sig")
    assert LabelSet.load(tmp_path / "a.jsonl") == LabelSet([Label("1", "a")])


def test_synonyms_are_not_part_of_the_label_text_and_may_be_shared():
    labels = LabelSet([Label("1", "Mercury", "a metal", synonyms=("Hg", "Quicksilver")), Label("2", "Hg")])
    assert labels.texts == ["Mercury: a metal", "Hg"]
    assert len({*labels}) == 2
    assert labels != labels.update("1", synonyms=())


def test_counts_may_be_numpy_integers():
    counted = LabelSet(FULL).with_counts({"D007501": np.int64(3)})
    assert [label.count for label in counted if label.seen] == [3]
    assert type(counted[2].count) is int
