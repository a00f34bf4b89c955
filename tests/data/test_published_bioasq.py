import os
import pickle
import sys

import numpy as np
import pytest

from hf_gile.data import ReadReport
from hf_gile.data.published_bioasq import load_published_bioasq

h5py = pytest.importorskip("h5py")

TEXTS = [[3, 4, 5, 7], [2], [9, 3, 3]]
GOLD = [[1, 4], [0], [1, 2, 3]]
LABELS = [[3], [4, 5], [9, 2, 7], [11], [5, 5]]


def padded(rows, width, value=0, dtype=np.int32):
    return np.array([[*row, *[value] * (width - len(row))] for row in rows], dtype)


def ragged(rows, dtype=np.int32):
    array = np.empty(len(rows), h5py.vlen_dtype(dtype))
    array[:] = [np.array(row, dtype) for row in rows]
    return array


SENTENCES = np.array([[[3, 4, 0], [5, 7, 0]], [[2, 0, 0], [0, 0, 0]], [[9, 0, 0], [3, 3, 0]]])
RAGGED_SENTENCES = np.empty((3, 2), h5py.vlen_dtype(np.int32))
for place, sentence in zip(np.ndindex(3, 2), [[3, 4], [5, 7], [2], [], [9], [3, 3]], strict=True):
    RAGGED_SENTENCES[place] = np.array(sentence, np.int32)
ONES = np.array([[column in row for column in range(5)] for row in GOLD])
KEYS = ["_".join(map(str, label)) for label in LABELS]
DATASETS = {"X_ids": padded(TEXTS, 7), "Y_ids": padded(GOLD, 4, -1), "label_ids": padded(LABELS, 3)}


@pytest.fixture
def write(tmp_path):
    """Writes the file of a split, by the paths of its datasets; None is left out."""

    def write_split(split="train", name="english.h5", **datasets):
        path = tmp_path / "bioasq" / split / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w") as file:
            for key, array in (DATASETS | datasets).items():
                if array is not None:
                    file[key] = array
        return path.parents[1]

    return write_split


@pytest.fixture
def load(tmp_path):
    def load_folder(folder, splits=("train",), **options):
        return load_published_bioasq(folder, splits, cache_dir=tmp_path / "cache", **options)

    return load_folder


def rows(documents):
    return [(row["input_ids"], row["labels"]) for row in documents]


PAIRS = [*zip(TEXTS, GOLD, strict=True)]


@pytest.mark.parametrize(
    "datasets",
    [
        {},
        {"X_ids": padded([[0, 0, 3, 4, 5, 7], [0, 0, 0, 0, 0, 2], [0, 0, 0, 9, 3, 3]], 6)},
        {"X_ids": padded(TEXTS, 7, dtype=np.float32)},
        {"X_ids": ragged(TEXTS)},
        {"X_ids": SENTENCES},
        {"X_ids": RAGGED_SENTENCES},
        {"Y_ids": padded(GOLD, 7, -1, np.float64)},
        {"Y_ids": ragged(GOLD, np.int64)},
        {"Y_ids": ONES},
        {"Y_ids": ONES.astype(np.uint8)},
        {"Y_ids": ONES.astype(np.float32)},
        {"label_ids": ragged(LABELS)},
        {"label_ids": np.array(KEYS, "S")},
        {"label_ids": np.array(KEYS, h5py.string_dtype())},
    ],
    ids=lambda datasets: " ".join(f"{name} {value.shape} {value.dtype}" for name, value in datasets.items()) or "plain",
)
def test_every_form_says_the_same(write, load, datasets):
    got = load(write(**datasets), streaming=True)
    assert rows(got.documents["train"]) == PAIRS
    assert got.label_words == LABELS
    assert (got.seen, got.unseen) == ([], [])


@pytest.mark.parametrize(
    "pattern", ["{name}/{chunk}", "{name}/chunk_{chunk}", "{chunk}/{name}", "{name}_{chunk}", "a/{name}/{chunk}"]
)
def test_chunks_follow_each_other_by_number(write, load, pattern):
    numbers = [*range(3, 36)]
    chunks = {pattern.format(name="X_ids", chunk=place): np.array([[number]]) for place, number in enumerate(numbers)}
    gold = {pattern.format(name="Y_ids", chunk=place): [[place % 5]] for place in range(len(numbers))}
    labels = {
        pattern.format(name="label_ids", chunk=0): padded(LABELS[:2], 3),
        pattern.format(name="label_ids", chunk=1): padded(LABELS[2:], 3),
    }
    got = load(write(X_ids=None, Y_ids=None, label_ids=None, **chunks, **gold, **labels), streaming=True)
    assert rows(got.documents["train"]) == [([number], [place % 5]) for place, number in enumerate(numbers)]
    assert got.label_words == LABELS


def test_chunks_of_texts_and_labels_may_differ_and_each_have_all_label_ids(write, load):
    chunks = {
        "X_ids/0": padded(TEXTS[:1], 4),
        "X_ids/1": padded(TEXTS[1:], 5),
        "Y_ids/0": ragged(GOLD[:2]),
        "Y_ids/1": ragged(GOLD[2:]),
    }
    all_labels = {f"label_ids/{chunk}": padded(LABELS, 3) for chunk in (0, 1)}
    got = load(write(X_ids=None, Y_ids=None, label_ids=None, **chunks, **all_labels), streaming=True)
    assert rows(got.documents["train"]) == PAIRS
    assert got.label_words == LABELS


def test_documents_are_cached_until_their_file_changes(write, load):
    for split in ("train", "dev", "test"):
        folder = write(split)
    reports = [ReadReport(), ReadReport()]
    for report in reports:
        got = load(folder, ["train", "test"], report=report)
        assert list(got.documents) == ["train", "test"]
        for documents in got.documents.values():
            assert rows(documents) == PAIRS
            assert {name: feature.feature.dtype for name, feature in documents.features.items()} == {
                "input_ids": "int32",
                "labels": "int64",
            }
    assert reports[0] == reports[1] == ReadReport(files=2, records=6)
    write("test", X_ids=padded([[8], [8], [8]], 7))
    os.utime(folder / "test" / "english.h5", ns=(1, 1))
    assert load(folder, ["train", "test"]).documents["test"]["input_ids"] == [[8], [8], [8]]


def test_many_documents_are_read_a_block_at_a_time(write, load, monkeypatch):
    numbers = np.arange(1, 1000)
    monkeypatch.setattr("hf_gile.data.published_bioasq._BLOCK_ROWS", 7)
    folder = write(X_ids=None, Y_ids=None)
    with h5py.File(folder / "train" / "english.h5", "a") as file:
        file.create_dataset("X_ids", data=numbers[:, None], chunks=(3, 1), compression="gzip")
        file.create_dataset("Y_ids", data=numbers[:, None] % 5, chunks=(50, 1))
    got = load(folder, streaming=True)
    assert rows(got.documents["train"]) == [([number], [number % 5]) for number in numbers]


@pytest.mark.parametrize("value", [[1, 4], (1, 4), {4, 1}, np.array([1, 4]), np.array([1, 4], np.uint8)], ids=repr)
@pytest.mark.parametrize("place", ["seen_ids.pkl", "train/seen_ids", "test/seen_ids.p"])
def test_seen_and_unseen_labels_are_read(write, load, value, place):
    folder = write("test") and write()
    (folder / place).write_bytes(pickle.dumps(value, 2))
    (folder / "unseen_ids.pickle").write_bytes(pickle.dumps([2]))
    got = load(folder, streaming=True)
    assert (got.seen, got.unseen) == ([1, 4], [2])


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ([1, 5], r"seen_ids\.p: expected a list of labels: labels must be whole numbers from 0 to 4, got 5"),
        ([-1], "labels must be whole numbers from 0 to 4, got -1"),
        ([1, 1], "label 1 is there 2 times"),
        (["3_4"], r"seen_ids\.p: expected a list of labels"),
        ([[1], [2]], r"seen_ids\.p: expected a list of labels"),
        ([[1], [2, 3]], r"seen_ids\.p: expected a list of labels"),
        ({1: 2}, r"seen_ids\.p: expected a list of labels, got \{1: 2\}"),
        (np.array(1), r"seen_ids\.p: expected a list of labels"),
        ([2, 3], "seen_ids and unseen_ids both have label 2"),
        (os.getcwd, "the global .* is forbidden"),
    ],
    ids=range(10),
)
def test_labels_that_cannot_be_seen_are_refused(write, load, seen, message):
    folder = write()
    (folder / "seen_ids.p").write_bytes(pickle.dumps(seen))
    (folder / "unseen_ids.p").write_bytes(pickle.dumps([2]))
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_one_pickle_of_seen_labels_is_enough(write, load):
    folder = write()
    for place in ("seen_ids.p", "train/seen_ids.p"):
        (folder / place).write_bytes(pickle.dumps([1]))
    with pytest.raises(ValueError, match=r"expected one pickle seen_ids, got .*seen_ids\.p, .*train/seen_ids\.p"):
        load(folder)


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ({"X_ids": padded([[3], [-4], [5]], 2)}, "word ids must be whole numbers from 0 to 2,147,483,647, got -4"),
        ({"X_ids": np.array([[3], [1 << 31], [5]])}, "word ids must be .* got 2147483648"),
        ({"X_ids": np.array([[3], [0.5], [5]])}, "word ids must be .* got 0.5"),
        ({"X_ids": np.array([[3], [np.nan], [5]])}, "word ids must be .* got nan"),
        ({"X_ids": np.array([[3], [np.inf], [5]])}, "word ids must be .* got inf"),
        ({"Y_ids": padded([[1], [5], [2]], 2, -1)}, "labels must be whole numbers from 0 to 4, got 5"),
        ({"Y_ids": padded([[1], [-2], [2]], 2, -1)}, "labels must be .* got -2"),
        ({"Y_ids": padded([[1, 2, 3], [0], [2, 3, 4]], 3)}, "label 0 is there 3 times; .* label_padding"),
        ({"Y_ids": ragged([[1], [4, 4], [2]])}, "label 4 is there 2 times"),
        ({"Y_ids": np.array([[0, 1, 0, 0, 0], [0, 2, 0, 0, 0], [1, 1, 0, 0, 0]])}, "a zero or a one .* got 2"),
    ],
    ids=range(10),
)
def test_malformed_documents_are_refused_by_number_or_skipped(write, load, datasets, message):
    folder = write(**datasets)
    with pytest.raises(ValueError, match=rf"train/english\.h5: document 2: .*{message}"):
        load(folder)
    with pytest.raises(ValueError, match=rf"train/english\.h5: document 2: .*{message}"):
        list(load(folder, streaming=True).documents["train"])
    report = ReadReport("skip")
    assert len(load(folder, report=report).documents["train"]) == 2
    assert (report.records, report.left_out) == (2, {"malformed document": 1})


def test_rows_filled_up_with_another_number_are_read_where_told(write, load):
    folder = write(Y_ids=padded([[1, 4], [2], [4, 3]], 3))
    assert load(folder, label_padding=0).documents["train"]["labels"] == [[1, 4], [2], [4, 3]]


def test_documents_without_words_are_left_out_and_those_without_labels_stay(write, load):
    report = ReadReport()
    folder = write(X_ids=padded([[3], [], [5]], 2), Y_ids=padded([[], [1], [2]], 2, -1))
    assert rows(load(folder, report=report).documents["train"]) == [([3], []), ([5], [2])]
    assert report.left_out == {"without words": 1}
    assert report.examples["without words"][0].endswith("english.h5: document 2")


def test_a_label_may_have_no_known_word(write, load):
    assert load(write(label_ids=padded([[3], [], [5]], 2)), streaming=True).label_words == [[3], [], [5]]


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ({"X_ids": None}, r"a dataset X_ids, or chunks of it; got Y_ids \(3, 4\) of int32, label_ids \(5, 3\)"),
        ({"X_ids": None, "Y_ids": None, "label_ids": None}, "a dataset label_ids, or chunks of it; got nothing"),
        ({"X_ids": np.arange(3)}, r"/X_ids has shape \(3,\) of int64; expected numbers in 2 dimensions or"),
        ({"X_ids": np.array(["a b"] * 3, "S")}, r"/X_ids has shape \(3,\) of \|S3; expected numbers"),
        ({"X_ids": np.ones((3, 2), complex)}, r"/X_ids has shape \(3, 2\) of complex128"),
        ({"X_ids": h5py.Empty("i4")}, "/X_ids has shape None"),
        ({"X_ids": np.int32(3)}, r"/X_ids has shape \(\)"),
        ({"Y_ids": np.zeros((3, 5, 1))}, r"/Y_ids has shape \(3, 5, 1\) of float64; expected numbers in 2"),
        ({"Y_ids": padded(GOLD[:2], 4, -1)}, "3 X_ids, but 2 Y_ids"),
        ({"X_ids": None, "X_ids/0": padded(TEXTS[:1], 4), "X_ids/1": ragged(TEXTS[1:])}, "/X_ids/0 hold both"),
        ({"label_ids": np.array(["3_x"], "S")}, r"/label_ids\[0\]: expected word ids joined by \"_\", got '3_x'"),
        ({"label_ids": np.array([[3], [-1]])}, r"/label_ids\[1\]: word ids must be .* got -1"),
        ({"label_ids": np.zeros((0, 3))}, "label_ids is empty"),
    ],
    ids=range(13),
)
def test_files_of_another_form_are_refused_by_what_they_hold(write, load, datasets, message):
    with pytest.raises(ValueError, match=rf"train/english\.h5: .*{message}"):
        load(write(**datasets))


def test_labels_are_the_same_in_all_splits(write, load):
    folder = write("dev") and write(label_ids=padded(LABELS[::-1], 3))
    with pytest.raises(ValueError, match=r"dev/english\.h5: label_ids differ from those of .*train.english\.h5"):
        load(folder, ["train", "dev"])


def test_missing_and_damaged_files_are_named(write, load, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*bioasq/train/english\.h5; found only \[\]"):
        load(tmp_path / "bioasq")
    with pytest.raises(ValueError, match="splits must name at least one folder"):
        load(tmp_path, [])
    folder = write(name="english.HDF5")
    assert rows(load(folder).documents["train"]) == PAIRS
    with pytest.raises(FileNotFoundError, match=r"no file .*dev/english\.h5; found only \['train'\]"):
        load(folder, ["dev"])
    write()
    with pytest.raises(ValueError, match=r"train: expected one HDF5 file, got english\.HDF5, english\.h5"):
        load(folder)
    (folder / "train" / "english.HDF5").unlink()
    path = folder / "train" / "english.h5"
    whole = path.read_bytes()
    for data in (b"", b"no HDF5", whole[:-1]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"train/english\.h5: expected a whole HDF5 file"):
            load(folder)


def test_documents_before_the_damage_are_kept_where_asked(write, load):
    folder = write(X_ids=None)
    path = folder / "train" / "english.h5"
    with h5py.File(path, "a") as file:
        texts = file.create_dataset("X_ids", data=padded(TEXTS, 7), chunks=(1, 7), compression="gzip", fletcher32=True)
        where = texts.id.get_chunk_info(2).byte_offset
    data = bytearray(path.read_bytes())
    data[where + 5] ^= 255
    path.write_bytes(data)
    step = "hf_gile.data.published_bioasq._BLOCK_ROWS"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, 1)
        with pytest.raises(ValueError, match=r"english\.h5: damaged after 2 records: /X_ids, rows 2 and on"):
            load(folder)
        report = ReadReport("skip")
        assert rows(load(folder, report=report).documents["train"]) == PAIRS[:2]
        assert report.left_out == {"damaged file": 1}


def test_h5py_is_asked_for_by_the_name_of_its_extra(write, load, monkeypatch):
    folder = write()
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        ImportError, match=r"load_published_bioasq needs the `data` extra: pip install 'hf-gile\[data\]'"
    ):
        load(folder)
