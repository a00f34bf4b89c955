"""The extreme classification recipe from the command line, on a few synthetic documents."""

import json
import random

import pytest

WORDS = {
    "Heart Failure": "heart failing cardiac output ventricle",
    "Milk, Human": "milk breast human feeding",
    "Iron": "iron anemia ferritin deficiency",
    "Kidney": "kidney renal nephron urine",
    "Human Heart": "human heart ventricle cardiac",
}
NAMES = list(WORDS)
SIZES = ["--embedding_size", "37", "--joint_size", "41", "--min_count", "1", "--num_negatives", "2", "--use_cpu"]


def make_documents(number, seed):
    draw = random.Random(seed)
    for _ in range(number):
        gold = sorted(draw.sample(range(4), k=draw.choice([1, 2])))
        words = [word for column in gold for word in WORDS[NAMES[column]].split()]
        draw.shuffle(words)
        yield {"title": " ".join(words[:3]), "content": " ".join(words * 3), "target_ind": gold}


@pytest.mark.slow
def test_filtered_pairs_are_excluded(tmp_path, run_recipe):
    folder = tmp_path / "set"
    folder.mkdir()
    parts = {"trn": list(make_documents(60, seed=1)), "tst": list(make_documents(30, seed=2))}
    for part, documents in parts.items():
        (folder / f"{part}.json").write_text("".join(json.dumps(document) + "\n" for document in documents))
    (folder / "lbl.json").write_text("".join(json.dumps({"title": name}) + "\n" for name in NAMES))
    gold = [document["target_ind"] for document in parts["tst"]]
    excluded = [(row, column) for row in range(30) for column in range(5) if column not in gold[row]]
    (folder / "filter_labels_test.txt").write_text("".join(f"{row} {column}\n" for row, column in excluded))
    units = ["--units", "linear", "gile", "--num_train_epochs", "1", "--per_device_train_batch_size", "5"]
    done = run_recipe("train_xmc", ["--data", "set", "--output_dir", "out", *SIZES, *units])
    assert done.returncode == 0, done.stderr[-3000:]
    assert "4 labels seen in training, 1 unseen" in done.stdout
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [results[unit]["test"]["test_average_precision"] for unit in ("linear", "gile")] == [1.0, 1.0]
    report = json.loads((tmp_path / "out" / "gile" / "model" / "results.json").read_text())
    assert report["metrics"]["average_precision"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "absent"], "data: no folder absent (in "),
        (["--data", ".", "--encoding", "no such"], "encoding must be"),
        (["--data", "."], "no trn.json or trn_X.txt or "),
    ],
)
def test_missing_data_are_named(run_recipe, arguments, message):
    done = run_recipe("train_xmc", [*arguments, "--use_cpu"])
    assert done.returncode in (1, 2)
    assert message in done.stderr
