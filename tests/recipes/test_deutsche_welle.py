import numpy as np
import pytest
from papers.deutsche_welle import load_dw
from papers.multilingual import MultilingualDataset

from hf_gile.data import WordVectors

WORDS = {
    "english": ["science", "technology", "sports", "the", "ball", "moves", "internet"],
    "german": ["der", "ball", "rollt", "sport", "internet"],
}
VECTORS = {
    language: WordVectors(words, np.arange(3 * len(words), dtype=np.float32).reshape(-1, 3) + 1)
    for language, words in WORDS.items()
}
CONTENTS = {
    "english": {"X_ids": [[[3, 4], [5]], [[0, 1, 1]]], "Y_ids": [[1], [0, 2]], "label_ids": ["0_1", "2", "6"]},
    "german": {"X_ids": [[[0, 1, 2]]], "Y_ids": [[0]], "label_ids": ["3", "4"]},
}


@pytest.fixture
def write(write, tmp_path):
    """Writes all files, with changes to the file of a language and split; returns their folder."""

    def write_files(language="english", split="train", **changes):
        for part in ("train", "dev", "test"):
            for name, content in CONTENTS.items():
                write(f"{part}/{name}.json", content | (changes if (name, part) == (language, split) else {}))
        return tmp_path

    return write_files


def rows(dataset):
    return [list(row.values()) for row in dataset]


def test_documents_and_labels_are_read_for_each_language(write):
    corpus = load_dw(write(), word_vectors=VECTORS)
    assert corpus.languages == ["english", "german"]
    for split in ("train", "dev", "test"):
        assert rows(corpus.documents["english"][split]) == [[[[3, 4], [5]], [1]], [[[0, 1, 1]], [0, 2]]]
    labels = corpus.label_sets["english"]
    assert labels.ids == ["english:0_1", "english:2", "english:6"]
    assert labels.names == ["science technology", "sports", "internet"]
    assert {label.language for label in labels} == {"english"}
    assert [(label.seen, label.count) for label in corpus.label_sets["german"]] == [(True, 1), (False, 0)]
    assert corpus.label_words["english"] == [[0, 1], [2], [6]]


def test_joint_word_ids_stand_for_the_same_words(write):
    corpus = load_dw(write(), word_vectors=VECTORS)
    joint = corpus.joint()
    assert joint.words[:3] == ["[PAD]", "[UNK]", "english:science"]
    assert joint.words[9] == "german:der"
    assert len(set(joint.words)) == 2 + 7 + 5 == len(joint.vectors)
    assert joint.word_offsets == {"english": 2, "german": 9}
    for language, words in WORDS.items():
        separate, shared = corpus.documents[language]["train"], joint.documents[language]["train"]
        assert shared["language"] == [language] * len(separate)
        for before, after in zip(separate, shared, strict=True):
            texts = [[f"{language}:{words[word]}" for word in sentence] for sentence in before["input_ids"]]
            assert [[joint.words[word] for word in sentence] for sentence in after["input_ids"]] == texts
            ids = [corpus.label_sets[language].ids[column] for column in before["labels"]]
            assert [joint.label_set.ids[column] for column in after["labels"]] == ids


def test_empty_sentences_and_repeated_labels_are_left_out(write):
    documents = load_dw(write(X_ids=[[[], [3]], [[4], []]], Y_ids=[[2, 0, 2], []])).documents["english"]["train"]
    assert rows(documents) == [[[[3]], [2, 0]], [[[4]], []]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X_ids": [[[0]], [[1, 7]]]}, "document 2: word ids must be whole numbers from 0 to 6, got 7"),
        ({"X_ids": [[0, 1], [[0]]]}, "document 1: expected sentences of word ids"),
        ({"X_ids": [[[0]], [[], []]]}, "document 2: no words"),
        ({"Y_ids": [[0], [1, 3]]}, "document 2: labels must be whole numbers from 0 to 2, got 3"),
    ],
)
def test_malformed_documents_are_refused_by_number_or_skipped(write, changes, message, lenient):
    folder = write("english", "dev", **changes)
    with pytest.raises(ValueError, match=rf"dev/english\.json: {message}"):
        load_dw(folder, word_vectors=VECTORS)
    corpus = load_dw(folder, word_vectors=VECTORS, report=lenient)
    assert len(corpus.documents["english"]["dev"]) == 1
    assert lenient.left_out == {"malformed document": 1}
    assert (lenient.records, lenient.files) == (8, 6)


def test_missing_and_damaged_files_are_named(write, tmp_path):
    with pytest.raises(FileNotFoundError, match="train"):
        load_dw(tmp_path)
    folder = write()
    with pytest.raises(FileNotFoundError, match=r"train/french\.json"):
        load_dw(folder, languages=["french"])
    with pytest.raises(FileNotFoundError, match=r"no word vectors for 'english': expected one of .*english\.npz"):
        load_dw(folder, word_vectors=tmp_path)
    for damage in (b'{"X_ids": [[[0]', b"\xff\xfe"):
        (folder / "dev" / "german.json").write_bytes(damage)
        with pytest.raises(ValueError, match=r"dev/german\.json: not JSON"):
            load_dw(folder)


def numbered(size):
    return [{"input_ids": [row]} for row in range(size)]


def test_every_row_has_a_document_of_each_language():
    rows = MultilingualDataset({"english": numbered(7), "german": numbered(3)})
    assert len(rows) == 7
    assert [[document["language"] for document in rows[row]] for row in range(7)] == [["english", "german"]] * 7
    assert sorted(rows[row][0]["input_ids"][0] for row in range(7)) == list(range(7))
    german = [rows[row][1]["input_ids"][0] for row in range(7)]
    assert sorted(german[:3]) == sorted(german[3:6]) == [0, 1, 2]


def test_rows_depend_only_on_seed_and_epoch():
    def draw(seed, epoch):
        rows = MultilingualDataset({"english": numbered(50)}, rounds=20, seed=seed)
        rows.set_epoch(epoch)
        return [rows[row][0]["input_ids"][0] for row in range(20)]

    assert draw(0, 3) == draw(0, 3)
    assert len({tuple(draw(*each)) for each in ((0, 3), (0, 4), (1, 3))}) == 3
    assert len(set(draw(0, 3))) == 20
