"""Killed training resumes from its newest complete checkpoint."""

import os
import shutil
import signal
import sys

import pytest
import torch
from datasets import Dataset
from forks import is_killed
from transformers import Trainer, TrainingArguments

from hf_gile.metrics import LabelMetrics
from hf_gile.training import GileDataCollator, encode_dataset
from hf_gile.training.checkpoints import checkpoint_to_resume
from hf_gile.training.experiment import train
from hf_gile.training.options import STEPS


@pytest.fixture
def make_trainer(tmp_path, make_model, label_set):
    def make(folder="run", joint_size=13, **options):
        model, processor = make_model(joint_size=joint_size, problem_type="multi_label_classification")
        names = label_set.names
        rows = Dataset.from_dict({"text": names * 4, "labels": [[name] for name in names] * 4})
        dataset = encode_dataset(rows, processor, label_set)
        settings = {"metric_for_best_model": "average_precision", "num_train_epochs": 3, "learning_rate": 1e-2}
        settings |= {"use_cpu": True, "seed": 3, "per_device_train_batch_size": 5, "disable_tqdm": True}
        return Trainer(
            model,
            TrainingArguments(output_dir=str(tmp_path / folder), **(STEPS | settings | options)),
            data_collator=GileDataCollator(processor),
            train_dataset=dataset,
            eval_dataset=dataset,
            compute_metrics=LabelMetrics(len(label_set)),
        )

    return make


def weights_of(trainer):
    train(trainer, patience=9)
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def are_equal(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def checkpoints(folder):
    return sorted(path.name for path in folder.glob("checkpoint-*"))


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def trained(make_trainer, cache_folder, tmp_path):
    """Returns a folder with two complete checkpoints."""
    if not (cache_folder / "run").exists():
        make_trainer(str(cache_folder / "run"), num_train_epochs=2, save_total_limit=2).train()
    shutil.copytree(cache_folder / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("trainer_state.json", "empty"),
        ("optimizer.pt", "absent"),
        ("rng_state.pth", "empty"),
    ],
)
def test_an_incomplete_checkpoint_is_skipped(make_trainer, trained, file, damage):
    path = trained / "checkpoint-8" / file
    data = path.read_bytes()
    path.unlink() if damage == "absent" else path.write_bytes(data[:-9] if damage == "cut" else b"")
    trainer = make_trainer(resume_from_checkpoint="true")
    assert checkpoint_to_resume(trainer) == str(trained / "checkpoint-4")
    trainer.args.resume_from_checkpoint = str(trained / "checkpoint-8")
    fault = f"it has no {file}" if damage == "absent" else f"its {file} is incomplete"
    with pytest.raises(
        ValueError, match=f"checkpoint-8: {fault}; --resume_from_checkpoint true uses the newest complete"
    ):
        checkpoint_to_resume(trainer)
    path.write_bytes(data)
    assert checkpoint_to_resume(trainer) == str(trained / "checkpoint-8")


def test_the_requested_checkpoint_is_resumed_or_refused(make_trainer, trained, capsys):
    trainer = make_trainer()
    assert checkpoint_to_resume(trainer) is None
    for selection, expected in [("false", None), ("True", str(trained / "checkpoint-8"))]:
        trainer.args.resume_from_checkpoint = selection
        assert checkpoint_to_resume(trainer) == expected
    trainer.args.resume_from_checkpoint = str(trained / "checkpoint-9")
    with pytest.raises(ValueError, match="checkpoint-9: the folder does not exist"):
        checkpoint_to_resume(trainer)
    other = make_trainer(joint_size=17, resume_from_checkpoint=str(trained / "checkpoint-8"))
    with pytest.raises(ValueError, match="checkpoint-8: it is a checkpoint of another model, with a different gile"):
        checkpoint_to_resume(other)
    capsys.readouterr()
    fresh = make_trainer("fresh", resume_from_checkpoint="true")
    assert checkpoint_to_resume(fresh) is None
    assert capsys.readouterr().out.startswith("no complete checkpoint in")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_training_killed_at_any_checkpoint_operation_reaches_the_same_weights(make_trainer, tmp_path):
    expected = weights_of(make_trainer("whole"))

    def killed_at(number, folder):
        def act():
            remaining = [number]

            def count(event, arguments):
                writes = event in ("os.mkdir", "os.remove", "os.rename", "os.rmdir") or (
                    event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
                )
                if writes and f"{folder}/checkpoint-" in str(arguments[0]):
                    remaining[0] -= 1
                    if remaining[0] == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            train(make_trainer(folder), patience=9)

        return is_killed(act)

    number, from_the_beginning = 3, 0
    while killed_at(number, f"killed-{number}"):
        complete = checkpoints(tmp_path / f"killed-{number}")
        trainer = make_trainer(f"killed-{number}", resume_from_checkpoint="true")
        from_the_beginning += checkpoint_to_resume(trainer) is None
        if complete not in ([], ["checkpoint-4"]):
            assert checkpoint_to_resume(trainer) is not None
        assert are_equal(weights_of(trainer), expected)
        number += 17
    assert number > 70
