"""The recipe for a general label scorer: tiny sets, labels and a whole set held out of training."""

import json
import random

import pytest
import torch
import yaml
from datasets import Dataset
from train_zero_shot import Recipe, train_zero_shot
from transformers import TrainingArguments, pipeline

from hf_gile import Label
from hf_gile.training.labelled_sets import LabelledSet, join_sets
from hf_gile.training.many_sets import mean_of
from hf_gile.training.set_files import read_sets

TOPICS = {
    "T1": "heart failure",
    "T2": "human milk",
    "T3": "iron",
    "T4": "kidney",
    "T5": "cardiac output",
    "T6": "breast feeding",
    "T7": "blood pressure",
    "T8": "infant diet",
}
INTENTS = ["play_music", "order_status", "pay_bill", "book_flight", "kidney"]
FOREIGN = ["cancel_order", "music_volume", "bill_due"]
FILLERS = ["the", "a", "please", "now", "with", "some", "of", "my"]


def write_rows(path, names_of, number, gold, most=1):
    draw = random.Random(len(path.name))
    rows = []
    for place in range(number):
        own = draw.sample(sorted(names_of), k=draw.randint(1, most))
        words = [word for label in own for word in names_of[label].split()] + draw.choices(FILLERS, k=3)
        draw.shuffle(words)
        rows.append({"id": f"{path.stem}-{place}", "text": " ".join(words), gold: own if most > 1 else own[0]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def names(ids):
    return {one: one.replace("_", " ") for one in ids}


@pytest.fixture
def folder(tmp_path, save_text_encoder):
    """A folder of three sets and a file that names them."""
    save_text_encoder(texts=[*TOPICS.values(), *names(INTENTS).values(), *names(FOREIGN).values(), *FILLERS])
    write_rows(tmp_path / "topics.jsonl", TOPICS, 160, "topics", most=2)
    write_rows(tmp_path / "intents.jsonl", names(INTENTS), 120, "intent")
    write_rows(tmp_path / "foreign.jsonl", names(FOREIGN), 30, "intent")
    lines = [f"{topic},{name},{name.split()[0]}" for topic, name in TOPICS.items()]
    (tmp_path / "topics.csv").write_text("\n".join(["id,name,other", *lines]))
    sets = {
        "topics": {
            "files": str(tmp_path / "topics.jsonl"),
            "labels": "topics",
            "label_file": str(tmp_path / "topics.csv"),
            "label_synonyms": "other",
            "held_out": 0.4,
        },
        "intents": {"files": str(tmp_path / "intents.jsonl"), "labels": "intent"},
        "foreign": {"files": str(tmp_path / "foreign.jsonl"), "labels": "intent", "test_only": True},
    }
    (tmp_path / "sets.yaml").write_text(yaml.safe_dump(sets))
    return tmp_path


@pytest.fixture
def run(folder, run_recipe):
    settings = {
        "sets": str(folder / "sets.yaml"),
        "text_encoder": str(folder / "encoder"),
        "num_negatives": 3,
        "num_train_epochs": 3,
        "per_device_train_batch_size": 16,
        "use_cpu": True,
        "output_dir": str(folder / "out"),
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(settings))

    def run_zero_shot(*arguments):
        done = run_recipe("train_zero_shot", ["--config", folder / "mine.yaml", *arguments])
        path = folder / "out" / "results.json"
        return done, json.loads(path.read_text()) if path.is_file() else None

    return run_zero_shot


def test_several_sets_make_a_model_that_a_pipeline_scores_new_labels_with(folder, run):
    done, results = run("--bag_size", "64", "--cosine_scale", "10")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "foreign: 0 of its 3 labels stand in a set that is trained on, too" in done.stdout
    gile, cosine = results["gile"]["figures"], results["cosine"]["figures"]
    assert set(gile["topics"]) == {"seen", "held_out", "held_out_among_all"}
    assert {name: set(groups) for name, groups in gile.items() if name != "topics"} == {
        "intents": {"seen"},
        "foreign": {"all"},
    }
    assert gile["foreign"]["all"]["documents"] == 30
    assert gile["foreign"]["all"]["candidates"] == 3
    # The encoder knows nothing, but the bag shows which words of a label stand in the text.
    assert gile["topics"]["held_out"]["average_precision"] > 0.9
    assert gile["foreign"]["all"]["precision_at_1"] > 0.8
    assert gile["topics"]["held_out"]["average_precision"] >= cosine["topics"]["held_out"]["average_precision"]
    for line in ("held-out labels, among themselves", "all labels of an unseen set"):
        assert line in done.stdout
    # Labels count the documents that were trained on, and not those that were measured.
    joined = join_sets(read_sets(str(folder / "sets.yaml"), lambda *_: None))
    stored = [json.loads(line) for line in (folder / "out" / "model" / "labels.jsonl").read_text().splitlines()]
    counts = {label["id"]: label["count"] for label in stored if label.get("count")}
    assert counts == {label.id: label.count for label in joined.labels if label.count}
    assert counts.keys().isdisjoint(joined.held_out)
    pipe = pipeline("zero-shot-classification", model=str(folder / "out" / "model"), trust_remote_code=True)
    answer = pipe("please play some music", candidate_labels=["music volume", "bill due"])
    assert sorted(answer["labels"]) == ["bill due", "music volume"]
    assert sum(answer["scores"]) == pytest.approx(1)
    # A half lies between labels that a text is about and others, on average.
    rows = [json.loads(line) for line in (folder / "foreign.jsonl").read_text().splitlines()]
    candidates = list(names(FOREIGN).values())
    answers = pipe([row["text"] for row in rows], candidate_labels=candidates, multi_label=True)
    best = [answer["scores"][0] for answer in answers]
    last = [answer["scores"][-1] for answer in answers]
    assert sum(best) / len(rows) > 0.5 > sum(last) / len(rows)


@pytest.mark.slow
def test_a_tuned_encoder_is_another_one_and_a_frozen_one_the_same(folder, run):
    def embeddings(path):
        from safetensors.torch import load_file

        state = load_file(path)
        (name,) = [name for name in state if name.endswith("word_embeddings.weight")]
        return state[name]

    sets = yaml.safe_load((folder / "sets.yaml").read_text())
    sets["topics"]["held_out"] = 0.0
    (folder / "sets.yaml").write_text(yaml.safe_dump(sets))
    before = embeddings(folder / "encoder" / "model.safetensors")
    for flags, same in ([], True), (["--tune_text_encoder", "--text_encoder_learning_rate", "1e-3"], False):
        done, results = run("--learning_rate", "1e-2", "--num_train_epochs", "8", "--patience", "8", *flags)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "chosen by seen labels" in done.stdout
        assert torch.equal(embeddings(folder / "out" / "model" / "model.safetensors"), before) == same
        gile, cosine = (mean_of(results[way]["figures"], "seen") for way in ("gile", "cosine"))
        assert gile > cosine + 0.02


@pytest.mark.slow
def test_a_training_that_gains_nothing_on_held_out_labels_leaves_the_cosine(folder):
    sets = read_sets(str(folder / "sets.yaml"), lambda *_: None)
    said = []
    args = TrainingArguments(
        str(folder / "out"),
        num_train_epochs=1,
        per_device_train_batch_size=16,
        learning_rate=1e-9,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        use_cpu=True,
        report_to="none",
    )
    recipe = Recipe(text_encoder=str(folder / "encoder"), num_negatives=3)
    results = train_zero_shot(recipe, args, sets, said.append)
    assert results["gile"]["kept_cosine"]
    assert results["gile"]["figures"] == results["cosine"]["figures"]
    assert any("the cosine" in line for line in said)


def test_sets_too_small_to_choose_an_epoch_are_refused(folder):
    documents = Dataset.from_dict({"id": ["1", "2"], "text": ["x", "x"], "labels": [["iron"], ["kidney"]]})
    sets = [LabelledSet("tiny", documents, {name: Label(name, name) for name in ("iron", "kidney")})]
    args = TrainingArguments(str(folder / "out"), use_cpu=True, report_to="none")
    with pytest.raises(ValueError, match="no document is left to choose the epoch by"):
        train_zero_shot(Recipe(text_encoder=str(folder / "encoder")), args, sets, lambda *_: None)


def test_labels_that_say_the_same_are_one_and_ids_without_a_label_file_are_names(folder):
    sets = {one.name: one for one in read_sets(str(folder / "sets.yaml"), lambda *_: None)}
    assert "kidney" in sets["topics"].label_of.keys() & sets["intents"].label_of.keys()
    assert sets["intents"].label_of["play music"].name == "play music"
    assert sets["topics"].label_of["human milk"].synonyms == ("human",)
    assert {key for keys in sets["foreign"].documents["labels"] for key in keys} == set(names(FOREIGN).values())


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ("[]", "must hold `name of the set:`"),
        ("a: {files: x.csv, hold_out: 0.1}", "did you mean 'held_out'?"),
        ("a: {labels: x}", "set a: names no files"),
        ("a: {files: x.csv, held_out: 1.5}", "held_out must be from 0 to below 1"),
        (
            "a: {files: intents.jsonl, labels: intent, label_file: topics.csv}",
            "no document has one of its labels; is label_id the column of ids of topics.csv?",
        ),
    ],
)
def test_a_file_of_sets_that_makes_no_sense_is_named(folder, monkeypatch, sets, message):
    monkeypatch.chdir(folder)
    (folder / "wrong.yaml").write_text(sets)
    if "topics.csv" in sets:
        text = (folder / "intents.jsonl").read_text().replace('"kidney"', '"pay_bill"')
        (folder / "intents.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        read_sets("wrong.yaml", lambda *_: None)
