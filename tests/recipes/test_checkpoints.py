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
    def make(folder="run", **options):
        model, processor = make_model(problem_type="multi_label_classification")
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


@pytest.mark.parametrize(("kept_bytes", "fault"), [(None, "it has no"), (0, "its"), (9, "its")])
def test_an_incomplete_checkpoint_is_skipped(make_trainer, trained, kept_bytes, fault):
    path = trained / "checkpoint-8" / "trainer_state.json"
    data = path.read_bytes()
    path.unlink() if kept_bytes is None else path.write_bytes(data[:kept_bytes])
    trainer = make_trainer(resume_from_checkpoint="true")
    assert checkpoint_to_resume(trainer) == str(trained / "checkpoint-4")
    trainer.args.resume_from_checkpoint = str(trained / "checkpoint-8")
    with pytest.raises(ValueError, match=f"checkpoint-8: {fault} trainer_state.json.* uses the newest complete"):
        checkpoint_to_resume(trainer)
    path.write_bytes(data)
    assert checkpoint_to_resume(trainer) == str(trained / "checkpoint-8")


def test_a_trainer_writes_its_state_last(make_trainer, monkeypatch):
    written = []
    for name in ("_save_optimizer_and_scheduler", "_save_rng_state", "save_model"):
        monkeypatch.setattr(Trainer, name, lambda *_, name=name, **__: written.append(name))
    monkeypatch.setattr("transformers.TrainerState.save_to_json", lambda *_: written.append("state"))
    make_trainer(num_train_epochs=1, load_best_model_at_end=False).train()
    assert written[-1] == "state"
    assert len(written) == 4


def test_the_requested_checkpoint_is_resumed_or_refused(make_trainer, trained, capsys):
    trainer = make_trainer()
    assert checkpoint_to_resume(trainer) is None
    for selection, expected in [("false", None), ("True", str(trained / "checkpoint-8"))]:
        trainer.args.resume_from_checkpoint = selection
        assert checkpoint_to_resume(trainer) == expected
    trainer.args.resume_from_checkpoint = str(trained / "checkpoint-9")
    with pytest.raises(ValueError, match="checkpoint-9: the folder does not exist"):
        checkpoint_to_resume(trainer)
    capsys.readouterr()
    fresh = make_trainer("fresh", resume_from_checkpoint="true")
    assert checkpoint_to_resume(fresh) is None
    assert capsys.readouterr().out.startswith("no complete checkpoint in")
