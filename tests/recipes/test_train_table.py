"""The table recipe from the command line, on a few synthetic rows."""

import csv
import random
import re

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from table_source import join_file_names
from topics import NAMES, WORDS, draw_documents
from transformers import AutoConfig, pipeline

from hf_gile import LabelSet


@pytest.fixture
def run(run_recipe):
    return lambda flags: run_recipe("train_table", f"--use_cpu --output_dir out {flags}")


def test_a_single_csv_file_is_split_and_trained_on(tmp_path, run):
    rows = list(draw_documents(120))
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "title", "body", "tags"])
        for number, (words, gold) in enumerate(rows):
            writer.writerow([number, " ".join(words[:3]), " ".join(words * 3), "; ".join(gold)])
    done = run("--train_files notes.csv --text title body --labels tags --separator ';' --id key")
    assert "train: 120 records from 1 file; left out: none" in done.stdout
    assert "4 labels seen in training, 0 unseen" in done.stdout
    assert list(done.results) == ["tfidf_linear_svm", "auto"]
    assert re.search(r"^tfidf_linear_svm +\d", done.stdout, flags=re.MULTILINE)  # a row of the table
    for figures in done.results.values():
        assert figures["test"]["test_average_precision"] > 0.9
        assert figures["test"]["test_micro_f1"] > 0.8
        assert figures.get("fitted_again_on", 120) == 120
    assert "fitted again on all 120 documents" in done.stdout
    assert "fitted again on all 120 documents" in (tmp_path / "out/auto/model/README.md").read_text()
    labels = LabelSet.load(tmp_path / "out/auto/model/labels.jsonl")
    assert sum(label.count for label in labels) == sum(len(gold) for _, gold in rows)


def test_a_dataset_with_a_single_class_each_is_trained_on_with_softmax(tmp_path, run):
    draw = random.Random(0)
    names = list(WORDS)
    gold = [draw.randrange(len(names)) for _ in range(100)]
    texts = [" ".join(draw.choices(WORDS[names[label]].split(), k=9)) for label in gold]
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    (tmp_path / "mine").mkdir()
    Dataset.from_dict({"text": texts, "label": gold}, features=features).to_parquet(tmp_path / "mine/train.parquet")
    done = run("--dataset mine --labels label --no_baselines")
    assert "every document has exactly one label: trained with softmax, chosen by accuracy" in done.stdout
    assert "Acc  MacroF1" in done.stdout
    assert done.results["auto"]["test"]["test_accuracy"] > 0.8
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
    with (tmp_path / "corpus.tsv").open("w") as file:
        for words, gold in draw_documents(120, seed=2):
            file.write(f"{' '.join(words * 3)}\t{' '.join(f'<http://a.org/{label}>' for label in gold)}\n")
    subjects = "".join(f"<http://a.org/{label}>\t{name}\n" for label, name in NAMES.items())
    (tmp_path / "subjects.tsv").write_text(subjects)
    done = run("--format annif --train_files corpus.tsv --label_file subjects.tsv --make_cards false")
    assert "train: 120 records from 1 file; left out: none" in done.stdout
    assert "4 labels seen in training, 1 unseen" in done.stdout
    assert done.results["auto"]["test"]["test_seen_average_precision"] > 0.9


def test_a_label_that_nearly_all_documents_have_is_named_beside_the_figures(tmp_path, run):
    rows = "".join(f"text {row},{'milk' if row % 10 else 'iron'}\n" for row in range(200))
    (tmp_path / "a.csv").write_text(f"text,labels\n{rows}")
    done = run("--train_files a.csv --text_encoder words")
    assert "18 of 20 test documents have the label 'milk'" in done.stdout


def test_the_name_of_documents_is_that_of_their_files():
    assert join_file_names(["notes/train.jsonl.gz", "more.csv"]) == "train, more"
