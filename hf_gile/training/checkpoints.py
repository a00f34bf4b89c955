"""Finds the newest complete checkpoint, skipping those that a killed run left incomplete."""

from pathlib import Path

from tqdm.auto import tqdm
from transformers import Trainer, TrainingArguments

from ..models.checks_gile import read_json_object
from ..models.saving_gile import find_problem

_LAST_FILE = "trainer_state.json"
_NO = ("", "0", "false", "no")
_NEWEST = ("1", "true", "yes")


def resumes(args: TrainingArguments) -> bool:
    """Returns whether a run continues from a checkpoint."""
    return str(args.resume_from_checkpoint or "").lower() not in _NO


def checkpoint_to_resume(trainer: Trainer) -> str | None:
    """Finds and reports the checkpoint of `--resume_from_checkpoint`: a path, or true for the newest complete one.

    Returns:
        Folder of the checkpoint; None to start from the beginning.

    Raises:
        ValueError: If the checkpoint of a path is incomplete.
    """
    if not resumes(trainer.args):
        return None
    selection = str(trainer.args.resume_from_checkpoint)
    if selection.lower() not in _NEWEST:
        problem = _describe_damage(Path(selection))
        if problem:
            raise ValueError(
                f"--resume_from_checkpoint {selection}: {problem}; --resume_from_checkpoint true uses the newest "
                f"complete checkpoint in {trainer.args.output_dir}"
            )
        return selection
    folders = [path for path in Path(trainer.args.output_dir).glob("checkpoint-*") if path.name[11:].isdecimal()]
    report = tqdm.write if trainer.is_world_process_zero() else lambda text: None
    for folder in sorted(folders, key=lambda path: int(path.name[11:]), reverse=True):
        problem = _describe_damage(folder)
        if problem is None:
            report(f"resuming from {folder}")
            return str(folder)
        report(f"skipping {folder}: {problem}; the run may have been killed while writing it")
    report(f"no complete checkpoint in {trainer.args.output_dir}: starting from the beginning")
    return None


def _describe_damage(folder: Path) -> str | None:
    """Describes why a checkpoint is incomplete; None if it is complete.

    A trainer writes `trainer_state.json` last, so a checkpoint that has it has all its files.
    """
    if not folder.is_dir():
        return "the folder does not exist"
    try:
        read_json_object(folder / _LAST_FILE)
    except FileNotFoundError:
        return f"it has no {_LAST_FILE}"
    except ValueError:
        return f"its {_LAST_FILE} is incomplete"
    return find_problem(folder, "model")
