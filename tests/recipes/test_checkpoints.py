"""Killed training resumes from its newest complete checkpoint."""

import shutil

import pytest
from datasets import Dataset
from transformers import Trainer, TrainingArguments

from hf_gile.metrics import LabelMetrics
from hf_gile.training import GileDataCollator, encode_dataset
from hf_gile.training.checkpoints import checkpoint_to_resume
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
