"""The biomedical recipe from the command line, on a few synthetic records."""

import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "train_bioasq.py"
WORDS = {
    "D1": ("Heart Failure", "heart failing cardiac output ventricle"),
    "D2": ("Milk, Human", "milk breast human feeding"),
    "D3": ("Iron", "iron anemia ferritin deficiency"),
    "D4": ("Kidney", "kidney renal nephron urine"),
    "D5": ("Human Heart", "human heart ventricle cardiac"),
}


def write_records(path, number, labels, seed, **fields):
    random_words = random.Random(seed)
    with path.open("w") as file:
        for row in range(number):
            gold = sorted(random_words.sample(labels, k=random_words.choice([1, 2])))
            words = [word for label in gold for word in WORDS[label][1].split()]
            random_words.shuffle(words)
            record = {
                "pmid": str(1000 * seed + row),
                "title": " ".join(words[:3]),
                "abstractText": " ".join(words * 3),
                "year": 1980,
                "meshUI": gold,
                "meshMajor": [WORDS[label][0] for label in gold],
            }
            file.write(json.dumps(record | fields) + "\n")


@pytest.fixture
def arguments(tmp_path):
    write_records(tmp_path / "train.jsonl", 60, ["D1", "D2", "D3", "D4"], seed=1)
    write_records(tmp_path / "dev.jsonl", 20, ["D1", "D2", "D3", "D4"], seed=2)
    write_records(tmp_path / "test.jsonl", 30, list(WORDS), seed=3)
    files = {"train": "train", "validation": "dev", "test": "test"}
    options = [word for part, name in files.items() for word in (f"--{part}_files", str(tmp_path / f"{name}.jsonl"))]
    sizes = ["--embedding_size", "37", "--joint_size", "41", "--min_count", "1", "--num_negatives", "2"]
    steps = ["--num_train_epochs", "8", "--per_device_train_batch_size", "5", "--word_dropout", "0.1", "--use_cpu"]
    return [*options, *sizes, *steps, "--output_dir", str(tmp_path / "out")]


@pytest.fixture
def train(run_recipe, monkeypatch):
    """Runs the recipe in this process, without a card, which test_train_table.py covers."""

    def score_here(command, input, **_):
        monkeypatch.setattr(sys, "stdin", io.StringIO(input))
        exec(command[-1].replace('sys.modules["hf_gile"] = None', ""), {})

    def train_bioasq(*arguments):
        monkeypatch.setattr("subprocess.run", score_here)
        return run_recipe("train_bioasq", ["--make_cards", "false", *arguments])

    return train_bioasq


def launch(arguments, tmp_path, launcher):
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "home"),
        "HF_DATASETS_CACHE": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [*launcher, str(RECIPE), *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )


def test_the_recipe_trains_evaluates_saves_and_scores_typed_labels(tmp_path, arguments, train):
    typed = ["Ferritin", "Cardiac Output"]
    arguments += ["--candidate_labels", *typed, "--test_curve"]
    result = train(*arguments)
    assert result.returncode == 0, result.stderr
    assert "4 labels seen in training, 1 unseen" in result.stdout
    assert "unseen labels" in result.stdout
    last = result.stdout[result.stdout.index("loaded in a process without hf_gile") :]
    assert all(name in last for name in (*typed, "Human Heart"))
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["linear"]["test"]["test_average_precision"] > 0.9
    assert results["gile"]["test"]["test_seen_average_precision"] > 0.9
    assert results["gile"]["test"]["test_unseen_documents"] > 0
    assert len(results["gile"]["history"]) % 2 == 0  # validation and test


UNITS = [
    *("bilinear_n16", "bilinear_yh15", "constrained", "only_label", "only_input", "hinge", "label_encoder"),
    *("wsabie", "aitextml"),
]


@pytest.mark.slow
def test_the_recipe_trains_every_unit_of_the_paper_table(tmp_path, arguments, train):
    flags = ["--embedding_size", "17", "--calibration", "none", "--no_baselines"]
    result = train(*arguments, *flags, "--units", *UNITS)
    assert result.returncode == 0, result.stderr[-3000:]
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(results) == {*UNITS, "aitextml_inferred"}
    for unit, figures in results.items():
        prefix = "" if unit == "hinge" else "seen_"
        assert figures["test"][f"test_{prefix}average_precision"] > 0.7, unit
    both = [results[name]["test"]["test_ranking_loss"] for name in ("aitextml", "aitextml_inferred")]
    assert all(0 <= loss <= 1 for loss in both)
    assert both[0] != both[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [["--negatives", "frequency", "--hard_negatives", "2", "--hard_refresh_steps", "3"], ["--negatives", "in_batch"]],
    ids=["by frequency, and hard", "in-batch"],
)
def test_every_label_sampling_method_learns(tmp_path, arguments, train, flags):
    result = train(*arguments, "--units", "gile", *flags)
    assert result.returncode == 0, result.stderr[-3000:]
    figures = json.loads((tmp_path / "out" / "results.json").read_text())["gile"]["test"]
    assert figures["test_seen_average_precision"] > 0.9


def test_sharing_labels_needs_several_processes(tmp_path, arguments, train):
    result = train(*arguments, "--num_negatives", "0", "--share_labels")
    assert result.returncode != 0
    assert "it needs num_negatives 0" in result.stderr
    assert "1 processes" in result.stderr
    assert not (tmp_path / "out" / "linear").exists()


@pytest.mark.slow
def test_the_recipe_shares_labels_between_two_processes(tmp_path, arguments):
    flags = ["--num_negatives", "0", "--label_chunk_size", "2", "--share_labels"]
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    result = launch([*arguments, "--units", "gile", "--seed", "1", *flags], tmp_path, launcher)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("no document left out has unseen labels") == 1
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["gile"]["test"]["test_documents"] == 30
    assert results["gile"]["test"]["test_seen_average_precision"] > 0.9


def test_the_paper_protocol_splits_by_year_and_reads_mesh_labels(tmp_path, arguments, train):
    seen = ["D1", "D2", "D3", "D4"]
    for seed, (year, labels) in enumerate({2003: seen, 2004: seen, 2005: list(WORDS), 2016: seen}.items(), 10):
        write_records(tmp_path / f"{year}.jsonl", 40, labels, seed, year=year, meshUI=None)
    mesh = [
        {"ui": ui, "name": name, "synonyms": [f"{name}s"], "tree": [], "definition": f"About {words}."}
        for ui, (name, words) in WORDS.items()
        if ui != "D4"
    ]
    (tmp_path / "mesh.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mesh))
    remaining = arguments[arguments.index("--embedding_size") :]
    files = ["--train_files", *(str(tmp_path / f"{year}.jsonl") for year in (2003, 2004, 2005, 2016))]
    protocol = ["--train_until", "2004", "--test_until", "2015", "--validation", "16", "--num_proc", "2"]
    meaning = ["--label_file", str(tmp_path / "mesh.jsonl"), "--describe", "scope_note"]
    result = train(*remaining, *files, *protocol, *meaning, "--units", "gile")
    assert result.returncode == 0, result.stderr[-3000:]
    assert (
        "64 documents for training, 16 for validation, 40 for the test; 4 labels seen in training, 1 unseen"
        in result.stdout
    )
    assert "'other years': 40" in result.stdout
    assert "mesh.jsonl lacks 1 labels, which are named as in the records" in result.stdout
    lines = (tmp_path / "out" / "gile" / "model" / "labels.jsonl").read_text().splitlines()
    labels = {label["id"]: label for label in map(json.loads, lines)}
    assert set(labels) == {"D1", "D2", "D3", "Kidney", "D5"}
    assert labels["D1"]["description"] == "About heart failing cardiac output ventricle"
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["gile"]["test"]["test_seen_average_precision"] > 0.8
    assert results["gile"]["test"]["test_unseen_documents"] > 0
