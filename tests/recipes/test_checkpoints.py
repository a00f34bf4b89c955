"""Killed training resumes from its newest complete checkpoint."""

from types import SimpleNamespace

import pytest
from datasets import Dataset
from transformers import Trainer, TrainingArguments

from hf_gile.training import GileDataCollator, encode_dataset
from hf_gile.training.checkpoints import checkpoint_to_resume


@pytest.fixture
def resume(tmp_path):
    """Finds the checkpoint that a run in a folder resumes."""

    def find(selection=None):
        args = TrainingArguments(str(tmp_path), use_cpu=True, resume_from_checkpoint=selection and str(selection))
        return checkpoint_to_resume(SimpleNamespace(args=args, is_world_process_zero=lambda: True))

    return find


@pytest.fixture
def checkpoints(make_model, tmp_path):
    """Saves two complete checkpoints."""
    folders = [tmp_path / "checkpoint-8", tmp_path / "checkpoint-12"]
    for folder in folders:
        make_model()[0].save_pretrained(folder)
        (folder / "trainer_state.json").write_text('{"global_step": 8}')
    return folders


@pytest.mark.parametrize("name", ["trainer_state.json", "model.safetensors"])
@pytest.mark.parametrize("kept", [0, 9])
def test_an_incomplete_checkpoint_is_skipped(resume, checkpoints, name, kept):
    path = checkpoints[1] / name
    data = path.read_bytes()
    path.write_bytes(data[:kept])
    assert resume("true") == str(checkpoints[0])
    with pytest.raises(ValueError, match=f"checkpoint-12: .*{name} .* uses the newest complete"):
        resume(checkpoints[1])
    path.write_bytes(data)
    assert resume(checkpoints[1]) == str(checkpoints[1])


def test_the_requested_checkpoint_is_resumed_or_refused(resume, checkpoints, tmp_path):
    assert resume() is resume("false") is None
    assert resume("True") == str(checkpoints[1])
    with pytest.raises(ValueError, match="checkpoint-9: the folder does not exist"):
        resume(tmp_path / "checkpoint-9")
    (checkpoints[1] / "trainer_state.json").unlink()
    with pytest.raises(ValueError, match=r"checkpoint-12: it has no trainer_state\.json"):
        resume(checkpoints[1])


def test_a_run_without_checkpoints_starts_from_the_beginning(resume, capsys):
    assert resume("true") is None
    assert capsys.readouterr().out.startswith("no complete checkpoint in")


def test_a_trainer_writes_its_state_last(make_model, label_set, tmp_path, monkeypatch):
    written = []
    for name in ("_save_optimizer_and_scheduler", "_save_rng_state", "save_model"):
        monkeypatch.setattr(Trainer, name, lambda *_, name=name, **__: written.append(name))
    monkeypatch.setattr("transformers.TrainerState.save_to_json", lambda *_: written.append("state"))
    model, processor = make_model(problem_type="multi_label_classification")
    rows = Dataset.from_dict({"text": label_set.names, "labels": [[name] for name in label_set.names]})
    args = TrainingArguments(str(tmp_path), use_cpu=True, report_to=[], max_steps=1, save_steps=1)
    dataset = encode_dataset(rows, processor, label_set)
    Trainer(model, args, data_collator=GileDataCollator(processor), train_dataset=dataset).train()
    assert written[-1] == "state"
    assert len(written) == 4
