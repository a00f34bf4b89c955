"""The extreme classification recipe from the command line, on a few synthetic documents."""

import json

import pytest
from topics import NAMES, SEEN, draw_documents, write_lines


def write_part(path, number, seed):
    documents = []
    for words, gold in draw_documents(number, seed=seed):
        text = {"title": " ".join(words[:3]), "content": " ".join(words * 3)}
        documents.append(text | {"target_ind": [*map(SEEN.index, gold)]})
    write_lines(path, documents)
    return [document["target_ind"] for document in documents]


@pytest.mark.slow
def test_filtered_pairs_are_excluded(tmp_path, run_recipe):
    folder = tmp_path / "set"
    folder.mkdir()
    write_part(folder / "trn.json", 60, seed=1)
    gold = write_part(folder / "tst.json", 30, seed=2)
    write_lines(folder / "lbl.json", ({"title": name} for name in NAMES.values()))
    excluded = [(row, column) for row in range(30) for column in range(5) if column not in gold[row]]
    (folder / "filter_labels_test.txt").write_text("".join(f"{row} {column}\n" for row, column in excluded))
    sizes = "--embedding_size 37 --joint_size 41 --min_count 1 --num_negatives 2 --use_cpu"
    steps = "--num_train_epochs 1 --per_device_train_batch_size 5"
    done = run_recipe("train_xmc", f"--data set --output_dir out --units linear gile {sizes} {steps}")
    assert "4 labels seen in training, 1 unseen" in done.stdout
    assert [done.results[unit]["test"]["test_average_precision"] for unit in ("linear", "gile")] == [1.0, 1.0]
    report = json.loads((tmp_path / "out" / "gile" / "model" / "results.json").read_text())
    assert report["metrics"]["average_precision"] == 1.0
