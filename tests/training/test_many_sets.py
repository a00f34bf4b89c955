"""Several labelled sets as one task, and the trainer that takes its batches from one set at a time."""

from collections import Counter

import pytest
import torch
from datasets import Dataset
from torch.nn import functional
from transformers import TrainingArguments

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.training import GileLoss, encode_dataset
from hf_gile.training.labelled_sets import (
    LabelledSet,
    divide,
    held_out_ids,
    join_sets,
    labelled_set,
    training_parts,
    with_gold_among,
)
from hf_gile.training.many_sets import ManySetTrainer, SetBatches, _boundaries, cosine_scorer, fit_or_keep, mean_of


def labelled(name, labels, rows, **options):
    documents = Dataset.from_dict(
        {"id": [f"{name}{row}" for row in range(len(rows))], "text": ["x"] * len(rows), "labels": rows}
    )
    return LabelledSet(name, documents, {key: Label(key, key) for key in labels}, **options)


def test_no_set_trains_on_a_label_that_another_one_holds_out():
    keys = [f"label {place}" for place in range(40)]
    first = labelled("first", keys, [[key] for key in keys], held_out=0.5)
    second = labelled("second", keys[20:], [keys[20:22], [keys[22]]])
    held_out = held_out_ids([first, second])
    assert 10 <= len(held_out) <= 30
    assert held_out == held_out_ids([first])
    train, measured = divide(second, set(keys[20:22]))
    assert 0 in measured  # all its labels are held out
    assert sorted([*train, *measured]) == [0, 1]


def test_joined_sets_count_what_is_trained_on_and_put_seen_labels_first():
    keys = [f"label {place}" for place in range(40)]
    rows = [[keys[place % 40], keys[(place + 1) % 40]] for place in range(400)]
    first = labelled("first", keys, rows, held_out=0.3)
    second = labelled("second", keys[:5], [[key] for key in keys[:5]] * 20)
    foreign = labelled("foreign", ["other"], [["other"]], test_only=True)
    joined = join_sets([first, second, foreign])
    assert [one.name for one in joined.trained] == ["first", "second"]
    assert [one.name for one in joined.foreign] == ["foreign"]
    assert "other" not in joined.labels
    seen = joined.labels.seen
    assert sorted(seen, reverse=True) == list(seen)
    assert {label.id for label in joined.labels if not label.seen} == joined.held_out
    counts = Counter(
        key
        for one in joined.trained
        for row in one.documents.select(joined.rows[one.name][0])["labels"]
        for key in row
        if key not in joined.held_out
    )
    assert {label.id: label.count for label in joined.labels if label.seen} == counts


def test_sets_that_are_all_for_the_test_or_held_out_are_refused():
    one = labelled("one", ["a", "b"], [["a"], ["b"]] * 20, test_only=True)
    with pytest.raises(ValueError, match="nothing to train on, all sets are test_only"):
        join_sets([one])
    held_out = labelled("held", ["a"], [["a"]] * 20, held_out=0.999)
    with pytest.raises(ValueError, match="set held: no document is left to train on"):
        join_sets([held_out])


def test_a_set_whose_labels_another_one_holds_out_is_refused():
    keys = [f"label {place}" for place in range(40)]
    first = labelled("first", keys, [[key] for key in keys] * 20, held_out=0.5)
    (key, *_) = held_out_ids([first])
    second = LabelledSet("second", first.documents, {key: Label(key, key)})
    joined = join_sets([first, second])

    def encode(documents, labels):
        return documents.map(lambda ids: {"labels": [labels.column(one) for one in ids]}, input_columns="labels")

    with pytest.raises(ValueError, match="set second: all its labels are held out, lower held_out"):
        training_parts(joined, encode, num_negatives=2, seed=0)


def test_parts_have_seen_labels_only_and_tasks_their_candidates():
    keys = [f"label {place}" for place in range(40)]
    first = labelled("first", keys, [[keys[place % 40], keys[(place * 7) % 40]] for place in range(400)], held_out=0.3)
    joined = join_sets([first])

    def encode(documents, labels):
        return documents.map(
            lambda ids: {"labels": [labels.column(one) for one in ids]}, input_columns="labels", features=None
        )

    (part,), _, tasks = training_parts(joined, encode, num_negatives=2, seed=0)
    num_seen = sum(joined.labels.seen)
    assert all(column < num_seen for row in part["labels"] for column in row)
    assert [task.group for task in tasks] == ["seen", "held_out", "held_out_among_all"]
    held_out = [joined.labels.column(key) for key in joined.held_out]
    assert [list(task.columns) for task in tasks] == [
        list(range(num_seen)),
        sorted(held_out),
        sorted([*range(num_seen), *held_out]),
    ]
    assert all(set(row) <= set(task.columns) for task in tasks for row in task.documents["labels"])


@pytest.fixture
def make_trainer(tmp_path):
    """Makes a trainer of two sets, colours and numbers, and what it measures."""
    words = {"red": "crimson", "blue": "navy", "green": "olive", "one": "single", "two": "pair", "three": "triple"}
    colours, numbers = list(words)[:3], list(words)[3:]
    sets = []
    for name, labels in (("colours", colours), ("numbers", numbers)):
        rows = [labels[place % 3] for place in range(90)]
        texts = [f"a {words[label]} thing" for label in rows]
        documents = Dataset.from_dict(
            {"id": [f"{name}{row}" for row in range(90)], "text": texts, "labels": [[label] for label in rows]}
        )
        sets.append(LabelledSet(name, documents, {label: Label(label, label) for label in labels}))
    joined = join_sets(sets)
    tokenizer = build_tokenizer([*words.values(), "a thing"], label_texts=list(words), min_count=1)
    config = GileConfig(vocab_size=len(tokenizer), num_labels=6, problem_type="multi_label_classification")
    model, processor = GileForSequenceClassification(config), GileProcessor.for_config(tokenizer, config)
    model.set_labels(joined.labels, processor)
    model.loss_function = GileLoss("decoupled_softmax")
    parts, samplers, tasks = training_parts(
        joined, lambda rows, labels: encode_dataset(rows, processor, labels), num_negatives=2, seed=0
    )

    def make(tasks=tasks, **options):
        args = TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=8,
            num_train_epochs=4,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            report_to="none",
            use_cpu=True,
            dataloader_pin_memory=False,
            **options,
        )
        sets = {"parts": parts, "samplers": samplers, "tasks": tasks, "shares": [None, None]}
        trainer = ManySetTrainer(model, args, **sets, processing_class=processor)
        assert args.per_device_train_batch_size == 8
        return trainer, tasks

    return make


def test_a_model_is_trained_on_batches_of_one_set_each(make_trainer):
    trainer, tasks = make_trainer(learning_rate=1e-2)
    before = trainer.measure(tasks)
    trainer.train()
    after = trainer.measure(tasks)
    assert trainer.chosen_by == "seen"
    assert {name: set(groups) for name, groups in after.items()} == {"colours": {"seen"}, "numbers": {"seen"}}
    assert mean_of(before, "seen") < mean_of(after, "seen") == 1.0
    assert trainer.evaluate()["eval_seen_average_precision"] == 1.0
    with pytest.raises(ValueError, match="no document is left to choose the epoch by"):
        make_trainer(tasks=[])


@pytest.mark.parametrize(("learning_rate", "kept"), [(1e-2, False), (1e-12, True)])
def test_a_scorer_that_training_does_not_make_better_stays_as_it_is(make_trainer, learning_rate, kept):
    trainer, tasks = make_trainer(learning_rate=learning_rate)
    weights = {name: one.detach().clone() for name, one in trainer.model.named_parameters()}
    results = fit_or_keep(trainer, tasks, patience=9)
    assert results["gile"]["kept_cosine"] == kept
    assert (results["gile"]["figures"] == results["cosine"]["figures"]) == kept
    moved = {name for name, one in trainer.model.named_parameters() if not torch.equal(one, weights[name])}
    assert (moved == {"gile.output_layer.classifier.bias"}) == kept
    boundary = mean_of(results["gile"]["figures"], "seen", "boundary")
    assert trainer.model.gile.output_layer.classifier.bias.item() == pytest.approx(-boundary)
    assert trainer.model.config.problem_type == "single_label_classification"


def test_labels_that_say_the_same_are_one():
    documents = Dataset.from_dict({"id": ["1", "2"], "text": ["x", "y"], "labels": [["A", "B", "C"], ["D"]]})
    labels = {"A": Label("A", "Mice"), "B": Label("B", "mice"), "C": Label("C", "Rats")}
    one = labelled_set("animals", documents, labels, held_out=0.2)
    assert list(one.label_of) == ["mice", "rats"]
    assert one.documents["labels"] == [["mice", "rats"]]  # D is no label
    assert one.held_out == 0.2
    with pytest.raises(ValueError, match="set none: no document has one of its labels"):
        labelled_set("none", documents, {"E": Label("E", "Cats")})


@pytest.mark.parametrize("bag_size", [0, 7])
def test_before_training_the_score_is_the_cosine(save_text_encoder, bag_size):
    labels = LabelSet.from_names(["iron", "milk", "pay bill"])
    encoder = save_text_encoder(texts=["play some music", "the heart", *labels.names])
    model, processor = cosine_scorer(encoder, labels, 9.0, bag_size=bag_size)
    words = processor(["play some music", "the heart"], label_text=["iron", "pay bill"], return_tensors="pt")
    with torch.no_grad():
        out = model.eval().gile(**words)
        parts = zip(*(one.split([12, bag_size], dim=1) for one in (out.text_embeds, out.label_embeds)), strict=True)
        cosines = sum(functional.cosine_similarity(text[:, None], label[None], dim=-1) for text, label in parts)
    scores = out.logits - model.gile.output_layer.classifier.bias
    torch.testing.assert_close(scores, 9 * cosines, atol=1e-4, rtol=1e-4)


def test_documents_keep_the_gold_labels_among_some():
    encoded = Dataset.from_dict({"input_ids": [[1], [2], [3]], "labels": [[0, 2], [1], [2]]})
    assert with_gold_among(encoded, [0, 2]).to_dict() == {"input_ids": [[1], [3]], "labels": [[0, 2], [2]]}


def test_batches_are_of_one_set_each_and_drawn_by_the_shares():
    parts = [
        Dataset.from_dict({"x": [f"{name}{place}" for place in range(size)]}) for name, size in (("a", 50), ("b", 5))
    ]
    batches = SetBatches(parts, [3.0, 1.0], batch_size=8, seed=1)
    assert len(batches) == 7
    drawn = Counter()
    for step in range(400):
        batch = batches[step]
        (place,) = {example["set"] for example in batch}
        assert {example["x"][0] for example in batch} == {"ab"[place]}
        assert len({example["x"] for example in batch}) == len(batch) == (8, 5)[place]
        drawn[place] += 1
    assert 0.68 < drawn[0] / 400 < 0.82
    first = batches[0]
    assert batches[0] == first
    batches.set_epoch(1)
    assert any(batches[step] != SetBatches(parts, [3.0, 1.0], 8, seed=1)[step] for step in range(3))


def test_the_boundary_lies_between_the_lowest_gold_label_and_the_highest_other_one():
    scores = torch.tensor([[5.0, 1.0, 3.0], [2.0, 4.0, -2.0], [1.0, 2.0, 3.0]])
    gold = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert _boundaries(scores, gold).tolist() == [4.0, 0.0, 0.0]


def test_means_are_over_the_sets_that_have_a_group():
    figures = {"a": {"seen": {"boundary": 1.0}}, "b": {"held_out": {"boundary": 5.0}}, "c": {"seen": {"boundary": 2.0}}}
    assert mean_of(figures, "seen", "boundary") == 1.5
