import math

import numpy as np
from baselines.bag_of_words import fit

VOCABULARY, LABELS = 23, 5


def corpus(seed, documents=60):
    """Returns documents: label 0 has word 3, label 1 word 5, label 2 is in all documents, labels 3 and 4 in none."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for row in range(documents):
        gold = [column for column in (0, 1) if random.random() < 0.5] + [2]
        words = random.integers(7, 20, size=11).tolist() + [{0: 3, 1: 5}[column] for column in gold if column < 2]
        texts.append(words if row else [])
        labels.append(gold if row else [2])
    return texts, labels


def test_tfidf_equals_scikit_learn():
    documents = [[0, 0, 1], [1]]
    model = fit(documents, [[0], []], vocab_size=2, num_labels=1)
    row = np.array([(1 + math.log(2)) * (math.log(3 / 2) + 1), 1.0])
    expected = row / np.linalg.norm(row) @ model.weights + model.bias
    assert np.allclose(model.scores(documents[:1])[0], expected, atol=1e-5)


def test_the_recipe_prints_a_line_for_each_vocabulary(write, tmp_path, run_recipe):
    for seed, split in enumerate(("train", "dev", "test")):
        documents, labels = corpus(seed)
        content = {"X_ids": [[row[:4], row[4:]] for row in documents[1:]], "Y_ids": labels[1:]}
        write(f"general/{split}/german.json", content | {"label_ids": ["3", "5_8", "6", "7", "8"]})
    words = np.array([f"word{number}" for number in range(VOCABULARY)])
    (tmp_path / "word_vectors").mkdir()
    np.savez(tmp_path / "word_vectors" / "german.npz", words=words, vectors=np.zeros((VOCABULARY, 3), np.float32))
    flags = "--data general --language german --share_of_words 1 0.4 --output_dir out"
    done = run_recipe("baselines.bag_of_words", flags)
    lines = done.stdout.splitlines()
    assert lines[0] == "59 train, 59 dev, 59 test; 5 labels, 2 unseen in training"  # in no document
    first, second = (line.split() for line in lines[-2:])
    assert (first[0], first[2], second[0], second[2]) == ("15", "80", "6", "35")
    for figures in (first[5:10], first[10:]):
        assert figures[:3] == ["0.00", "100.00", "0.00"]
        assert min(map(float, figures[3:])) > 97
    assert [result["parameters"] for result in done.results.values()] == [80, 35]
    assert done.results["1 of the words, C 100"]["german"]["tuned_f1"] > 0.97
