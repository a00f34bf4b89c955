"""The table recipe from the command line, on a few synthetic rows."""

import csv
import json
import random
import re

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from transformers import AutoConfig, pipeline

from hf_gile import LabelSet

WORDS = {
    "heart": ("Heart Failure", "heart failing cardiac output ventricle"),
    "milk": ("Milk, Human", "milk breast human feeding"),
    "iron": ("Iron", "iron anemia ferritin deficiency"),
    "kidney": ("Kidney", "kidney renal nephron urine"),
    "human": ("Human Heart", "human heart ventricle cardiac"),
}


def make_rows(number, labels, seed, prefix=""):
    draw = random.Random(seed)
    for row in range(number):
        gold = sorted(draw.sample(labels, k=draw.choice([1, 2])))
        words = [word for label in gold for word in WORDS[label][1].split()]
        draw.shuffle(words)
        title, body = " ".join(words[:3]), " ".join(words * 3)
        yield {"key": f"{seed}-{row}", "title": title, "body": body, "tags": [prefix + name for name in gold]}


@pytest.fixture
def run(tmp_path, run_recipe):
    def run_table(*arguments):
        done = run_recipe("train_table", ["--use_cpu", "--output_dir", tmp_path / "out", *arguments])
        path = tmp_path / "out" / "results.json"
        return done, json.loads(path.read_text()) if path.is_file() else None

    return run_table


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "title", "body", "tags"])
        writer.writerows([row["key"], row["title"], row["body"], "; ".join(row["tags"])] for row in rows)


def test_a_single_csv_file_is_split_and_trained_on(tmp_path, run):
    rows = list(make_rows(120, ["heart", "milk", "iron", "kidney"], seed=1))
    write_csv(tmp_path / "notes.csv", rows)
    columns = ["--text", "title", "body", "--labels", "tags", "--separator", ";", "--id", "key"]
    done, results = run("--train_files", "notes.csv", *columns)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "train: 120 records from 1 file; left out: none" in done.stdout
    assert "4 labels seen in training, 0 unseen" in done.stdout
    assert list(results) == ["tfidf_linear_svm", "auto"]
    assert re.search(r"^tfidf_linear_svm +\d", done.stdout, flags=re.MULTILINE)  # a row of the table
    for figures in results.values():
        assert figures["test"]["test_average_precision"] > 0.9
        assert figures["test"]["test_micro_f1"] > 0.8
        assert figures.get("fitted_again_on", 120) == 120
    assert "fitted again on all 120 documents" in done.stdout
    assert "fitted again on all 120 documents" in (tmp_path / "out/auto/model/README.md").read_text()
    labels = LabelSet.load(tmp_path / "out/auto/model/labels.jsonl")
    assert sum(label.count for label in labels) == sum(len(row["tags"]) for row in rows)
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"results.json", "settings.yaml", "auto"} <= written


def test_a_dataset_with_a_single_class_each_is_trained_on_with_softmax(tmp_path, run):
    draw = random.Random(0)
    names = list(WORDS)
    gold = [draw.randrange(len(names)) for _ in range(100)]
    texts = [" ".join(draw.choices(WORDS[names[label]][1].split(), k=9)) for label in gold]
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    (tmp_path / "mine").mkdir()
    Dataset.from_dict({"text": texts, "label": gold}, features=features).to_parquet(tmp_path / "mine/train.parquet")
    done, results = run("--dataset", "mine", "--labels", "label", "--no_baselines")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "every document has exactly one label: trained with softmax, chosen by accuracy" in done.stdout
    assert "Acc  MacroF1" in done.stdout
    assert results["auto"]["test"]["test_accuracy"] > 0.8
    folder = tmp_path / "out/auto/model"
    config = AutoConfig.from_pretrained(folder)
    assert config.problem_type == "single_label_classification"
    assert config.calibration["seen"]["method"] == "platt"
    assert config.thresholds == {}
    pipe = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    assert pipe("milk breast")[0]["label"] == "milk"
    card = (folder / "README.md").read_text()
    assert "Assigns to a text the best of 5 labels" in card
    assert "| accuracy |" in card
    assert "threshold=" not in card


def test_an_annif_corpus_and_vocabulary_are_trained_on(tmp_path, run):
    rows = list(make_rows(120, ["heart", "milk", "iron", "kidney"], seed=2))
    uris = [" ".join(f"<http://a.org/{name}>" for name in row["tags"]) for row in rows]
    lines = [f"{row['body']}\t{uri}\n" for row, uri in zip(rows, uris, strict=True)]
    (tmp_path / "corpus.tsv").write_text("".join(lines))
    (tmp_path / "subjects.tsv").write_text("".join(f"<http://a.org/{name}>\t{WORDS[name][0]}\n" for name in WORDS))
    files = ["--train_files", "corpus.tsv", "--label_file", "subjects.tsv"]
    done, results = run("--format", "annif", *files, "--make_cards", "false")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "train: 120 records from 1 file; left out: none" in done.stdout
    assert "4 labels seen in training, 1 unseen" in done.stdout
    assert results["auto"]["test"]["test_seen_average_precision"] > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "xml", "--train_files", "notes.csv"], "format must be one of table, annif, got 'xml'"),
        ([], "no training documents: pass --train_files"),
        (["--train_files", "notes.csv", "--dataset", "x"], "pass either --dataset or files"),
        (
            ["--train_files", "notes.csv", "--text", "body", "--labels", "tags", "--label_file", "two.csv"],
            "two.csv lacks 1 label id of the documents, such as 'iron', first in document 'notes.csv:2'; add them",
        ),
    ],
)
def test_invalid_arguments_are_named(tmp_path, run, arguments, message):
    write_csv(
        tmp_path / "notes.csv", [{"key": "1", "title": "a", "body": f"a {row}", "tags": ["iron"]} for row in range(40)]
    )
    (tmp_path / "two.csv").write_text("id,name\nmilk,Milk\nheart,Heart\n")
    done, _ = run(*arguments)
    assert done.returncode != 0
    assert message in done.stderr
