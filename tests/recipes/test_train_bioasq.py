"""The biomedical recipe from the command line, on a few synthetic records."""

import io
import json
import sys

import pytest
from topics import NAMES, SEEN, WORDS, write_lines, write_record_parts, write_records

STEPS = "--num_train_epochs 8 --per_device_train_batch_size 5 --word_dropout 0.1 --use_cpu --output_dir out"
SIZES = "--embedding_size 37 --joint_size 41 --min_count 1 --num_negatives 2"


@pytest.fixture
def files(tmp_path):
    return write_record_parts(tmp_path)


@pytest.fixture
def train(run_recipe, monkeypatch):
    """Runs the recipe in this process, without a card, which test_train_table.py covers."""

    def score_here(command, input, **_):
        monkeypatch.setattr(sys, "stdin", io.StringIO(input))
        exec(command[-1].replace('sys.modules["hf_gile"] = None', ""), {})

    def train_bioasq(flags, **options):
        monkeypatch.setattr("subprocess.run", score_here)
        return run_recipe("train_bioasq", f"--make_cards false {SIZES} {STEPS} {flags}", **options)

    return train_bioasq


def test_the_recipe_trains_evaluates_saves_and_scores_typed_labels(files, train):
    done = train(f"{files} --candidate_labels Ferritin 'Cardiac Output' --test_curve")
    assert "4 labels seen in training, 1 unseen" in done.stdout
    assert "unseen labels" in done.stdout
    last = done.stdout.partition("loaded in a process without hf_gile")[2]
    assert all(name in last for name in ("Ferritin", "Cardiac Output", "cardiac output"))
    assert done.results["linear"]["test"]["test_average_precision"] > 0.9
    assert done.results["gile"]["test"]["test_seen_average_precision"] > 0.9
    assert done.results["gile"]["test"]["test_unseen_documents"] > 0
    assert len(done.results["gile"]["history"]) % 2 == 0  # validation and test


UNITS = "bilinear_n16 bilinear_yh15 constrained only_label only_input hinge label_encoder wsabie aitextml"


@pytest.mark.slow
def test_the_recipe_trains_every_unit_of_the_paper_table(files, train):
    done = train(f"{files} --units {UNITS} --embedding_size 17 --calibration none --no_baselines")
    assert set(done.results) == {*UNITS.split(), "aitextml_inferred"}
    for unit, figures in done.results.items():
        prefix = "" if unit == "hinge" else "seen_"
        assert figures["test"][f"test_{prefix}average_precision"] > 0.7, unit
    both = [done.results[name]["test"]["test_ranking_loss"] for name in ("aitextml", "aitextml_inferred")]
    assert all(0 <= loss <= 1 for loss in both)
    assert both[0] != both[1]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["frequency --hard_negatives 2 --hard_refresh_steps 3", "in_batch"])
def test_every_label_sampling_method_learns(files, train, method):
    done = train(f"{files} --units gile --negatives {method}")
    assert done.results["gile"]["test"]["test_seen_average_precision"] > 0.9


def test_sharing_labels_needs_several_processes(tmp_path, files, train):
    done = train(f"{files} --num_negatives 0 --share_labels", fails=True)
    assert "it needs num_negatives 0" in done.stderr
    assert "1 processes" in done.stderr
    assert not (tmp_path / "out" / "linear").exists()


def test_the_paper_protocol_splits_by_year_and_reads_mesh_labels(tmp_path, train):
    for seed, year in enumerate((2003, 2004, 2005, 2016), 10):
        labels = list(WORDS) if year == 2005 else SEEN
        write_records(tmp_path / f"{year}.jsonl", 40, labels, seed, year=year, meshUI=None)
    mesh = []
    for label in NAMES.keys() - {"kidney"}:
        row = {"ui": label, "name": NAMES[label], "synonyms": [f"{NAMES[label]}s"], "tree": []}
        mesh.append(row | {"definition": f"About {WORDS[label]}."})
    write_lines(tmp_path / "mesh.jsonl", mesh)
    files = "--train_files 2003.jsonl 2004.jsonl 2005.jsonl 2016.jsonl --num_proc 2"
    protocol = "--train_until 2004 --test_until 2015 --validation 16"
    done = train(f"{files} {protocol} --label_file mesh.jsonl --describe scope_note --units gile")
    assert "64 documents for training, 16 for validation, 40 for the test" in done.stdout
    assert "; 4 labels seen in training, 1 unseen" in done.stdout
    assert "'other years': 40" in done.stdout
    assert "mesh.jsonl lacks 1 labels, which are named as in the records" in done.stdout
    lines = (tmp_path / "out" / "gile" / "model" / "labels.jsonl").read_text().splitlines()
    labels = {label["id"]: label for label in map(json.loads, lines)}
    assert set(labels) == {"heart", "milk", "iron", "kidneys", "cardiac"}
    assert labels["heart"]["description"] == "About heart failing cardiac output ventricle"
    assert done.results["gile"]["test"]["test_seen_average_precision"] > 0.8
    assert done.results["gile"]["test"]["test_unseen_documents"] > 0
