"""Finds the newest complete checkpoint, skipping those that a killed run left incomplete."""

import json
import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open
from tqdm.auto import tqdm
from transformers import Trainer, TrainingArguments

from ..models.saving_gile import find_problem

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
        ValueError: If the checkpoint of a path is incomplete or belongs to another model.
    """
    if not resumes(trainer.args):
        return None
    selection = str(trainer.args.resume_from_checkpoint)
    if selection.lower() not in _NEWEST:
        problem = _describe_damage(Path(selection), trainer) or _describe_mismatch(Path(selection), trainer)
        if problem:
            raise ValueError(
                f"--resume_from_checkpoint {selection}: {problem}; --resume_from_checkpoint true uses the newest "
                f"complete checkpoint in {trainer.args.output_dir}"
            )
        return selection
    folders = [path for path in Path(trainer.args.output_dir).glob("checkpoint-*") if path.name[11:].isdecimal()]
    report = tqdm.write if trainer.is_world_process_zero() else lambda text: None
    for folder in sorted(folders, key=lambda path: int(path.name[11:]), reverse=True):
        problem = _describe_damage(folder, trainer)
        if problem is None:
            report(f"resuming from {folder}")
            return str(folder)
        report(f"skipping {folder}: {problem}; the run may have been killed while writing it")
    report(f"no complete checkpoint in {trainer.args.output_dir}: starting from the beginning")
    return None


def _describe_damage(folder: Path, trainer: Trainer) -> str | None:
    """Describes the first missing or incomplete file of a checkpoint; None if it is complete."""
    if not folder.is_dir():
        return "the folder does not exist"
    path = folder / "trainer_state.json"
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(state, dict) or "global_step" not in state:
            return "its trainer_state.json is not from a trainer"
        if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
            return None  # their formats differ, and their loaders check them
        files = sorted(folder.glob("*model.safetensors"))
        path = folder / "model.safetensors.index.json"
        if path.is_file():
            shards = json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()
            files = [folder / name for name in sorted(set(shards))]
        if not files:
            return "it has no model.safetensors"
        if not trainer.args.save_only_model:
            files += [folder / "optimizer.pt", folder / "scheduler.pt"]
            files += sorted(folder.glob("rng_state*.pth")) or [folder / "rng_state.pth"]
        for path in files:
            if path.suffix == ".safetensors":
                with safe_open(path, framework="pt"):  # raises an error if the length differs from the header
                    pass
            else:
                zipfile.ZipFile(path).close()  # written by torch.save; the table of contents is at the end
    except FileNotFoundError:
        return f"it has no {path.name}"
    except (ValueError, LookupError, SafetensorError, zipfile.BadZipFile):
        return f"its {path.name} is incomplete"
    return find_problem(folder, "model")


def _describe_mismatch(folder: Path, trainer: Trainer) -> str | None:
    """Describes the first weight whose shape differs from that of the model; None if all match."""
    assert trainer.model is not None
    sizes = {name: list(tensor.shape) for name, tensor in trainer.model.state_dict().items()}
    for path in folder.glob("model*.safetensors"):
        with safe_open(path, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118, not a mapping
                if sizes.get(name) != weights.get_slice(name).get_shape():
                    return f"it is a checkpoint of another model, with a different {name}"
    return None
