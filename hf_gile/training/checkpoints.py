"""Where training goes on: the newest checkpoint that is whole, which one is not that a killed run was writing."""

import json
import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open
from tqdm.auto import tqdm
from transformers import Trainer

_NO, _NEWEST = ("", "0", "false", "no"), ("1", "true", "yes")


def checkpoint_to_resume(trainer: Trainer) -> str | None:
    """Finds the checkpoint that `--resume_from_checkpoint` asks for, and says which it is.

    Args:
        trainer: The trainer; `true` asks for the newest whole checkpoint in its `output_dir`, a path for that one.

    Returns:
        Its folder; None to start from the beginning.

    Raises:
        ValueError: The checkpoint of a path is not whole, or of another model.
    """
    wanted = str(trainer.args.resume_from_checkpoint or "")
    if wanted.lower() in _NO:
        return None
    if wanted.lower() not in _NEWEST:
        fault = _fault(Path(wanted), trainer) or _other_model(Path(wanted), trainer)
        if fault:
            raise ValueError(
                f"--resume_from_checkpoint {wanted}: {fault}; --resume_from_checkpoint true takes the newest whole "
                f"checkpoint in {trainer.args.output_dir}"
            )
        return wanted
    folders = [path for path in Path(trainer.args.output_dir).glob("checkpoint-*") if path.name[11:].isdecimal()]
    say = tqdm.write if trainer.is_world_process_zero() else lambda text: None
    for folder in sorted(folders, key=lambda path: int(path.name[11:]), reverse=True):
        fault = _fault(folder, trainer)
        if fault is None:
            say(f"resuming from {folder}")
            return str(folder)
        say(f"passing over {folder}: {fault}; was the run killed while writing it?")
    say(f"no whole checkpoint in {trainer.args.output_dir}: starting from the beginning")
    return None


def _fault(folder: Path, trainer: Trainer) -> str | None:
    """What a checkpoint lacks of what the trainer reads, in words; None if nothing."""
    if not folder.is_dir():
        return "there is no such folder"
    try:
        state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "it has no trainer_state.json"
    except ValueError:
        return "its trainer_state.json is not whole"
    if not isinstance(state, dict) or "global_step" not in state:
        return "its trainer_state.json is not that of a trainer"
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return None  # each keeps weights in a way of its own, and checks them
    try:
        index = folder / "model.safetensors.index.json"
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) if index.is_file() else set()
    except (ValueError, LookupError):
        return f"its {index.name} is not whole"
    weights = sorted(folder / name for name in shards) or list(folder.glob("*model.safetensors"))
    states = [] if trainer.args.save_only_model else [folder / "optimizer.pt", folder / "scheduler.pt"]
    if not trainer.args.save_only_model:
        states += sorted(folder.glob("rng_state*.pth")) or [folder / "rng_state.pth"]
    if not weights:
        return "it has no model.safetensors"
    for path in [*weights, *states]:
        if not path.is_file():
            return f"it has no {path.name}"
        try:
            if path.suffix == ".safetensors":
                with safe_open(path, framework="pt"):  # refuses a file that does not have the length its head says
                    pass
            else:
                zipfile.ZipFile(path).close()  # what torch.save writes; its list of contents is at the end
        except (SafetensorError, zipfile.BadZipFile):
            return f"its {path.name} is not whole"
    return None


def _other_model(folder: Path, trainer: Trainer) -> str | None:
    assert trainer.model is not None
    sizes = {name: list(tensor.shape) for name, tensor in trainer.model.state_dict().items()}
    for path in folder.glob("model*.safetensors"):
        with safe_open(path, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118, not a mapping
                if sizes.get(name) != weights.get_slice(name).get_shape():
                    return f"it is a checkpoint of another model, with another {name}"
    return None
