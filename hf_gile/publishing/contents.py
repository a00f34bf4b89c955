"""Classifies the files of a published model: required, never uploaded, or replaced by a new version."""

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy

from ..label_index import leads_out
from ..models.configuration_gile import read_json_object
from ..models.labels_gile import LABELS_FILE

UNKNOWN_REPOSITORY = "path/to/this/model"
"""Placeholder for the name of the repository on a card, while it is unknown."""

TEXTS_HEADING = "Texts that have these labels"
"""Heading above example texts on a card; without it, a report is uploaded without its texts."""

MODEL_TYPES = ("gile", "gile_published")
"""Values of `model_type` in config.json for GILE models; the second is for converted ones."""

_LOADED = re.compile(
    r"model(-\d{5}-of-\d{5})?\.safetensors"
    r"|model\.safetensors\.index\.json"
    r"|\w+_gile\.py"
    r"|(model|processor)_manifest\.json"
    r"|index/(.+/)?label_index(-[0-9a-f]{8})?\.(json|jsonl|safetensors)"
)
_MANAGED = re.compile(
    rf"{_LOADED.pattern}"
    r"|(added_tokens|preprocessor_config|processor_config|special_tokens_map|tokenizer|tokenizer_config|vocab)\.json"
    r"|merges\.txt|vocab\.txt|chat_template\.jinja"
    r"|labels\.(jsonl|csv)|results\.json|card\.yaml"
    r"|figures/(calibration|label_map|learning_curve)\.png"
)
_SIBLING = re.compile(r"^\s*from\s+\.(\w+)\s+import", re.MULTILINE)

_PICKLE = "a pickle, which runs code when it is loaded"
_LOGS = "training logs"
_PICKLED = re.compile(r".+\.(bin|ckpt|distcp|joblib|pickle|pkl|pt|pth)(\.(bz2|gz|lz4|xz|zst))?")
# First bytes of files of torch.save before it wrote zip archives.
_LEGACY_TORCH_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF"


def is_managed(path: str) -> bool:
    """Returns whether every upload of a model rewrites or deletes a file of the repository.

    Example:
        >>> paths = ("model-00001-of-00002.safetensors", "figures/label_map.png", "notebook.ipynb")
        >>> [is_managed(path) for path in paths]
        [True, True, False]
    """
    return _MANAGED.fullmatch(path) is not None


def is_loaded(path: str) -> bool:
    """Returns whether a managed file would be loaded with the files of another model: weights, code, index.

    Example:
        >>> is_loaded("index/label_index.json"), is_loaded("labels.csv")
        (True, False)
    """
    return _LOADED.fullmatch(path) is not None


def select_files(folder: Path) -> tuple[dict[str, Path], list[tuple[str, str]]]:
    """Selects the files of a folder to upload to the Hub.

    Args:
        folder: A saved model.

    Returns:
        The files by their paths in the repository, and the paths left out with the reasons; a folder includes its
        content. Both are sorted by path.

    Raises:
        ValueError: If a file is a link to a file outside of the folder.
    """
    files: dict[str, Path] = {}
    left_out: list[tuple[str, str]] = []
    root = folder

    def walk(folder: Path, prefix: str) -> None:
        for path in sorted(folder.iterdir()):
            name = prefix + path.name
            if path.is_dir():
                reason = _reason_to_skip_folder(path)
                if reason is None:
                    walk(path, f"{name}/")
                else:
                    left_out.append((f"{name}/", reason))
            else:
                reason = _reason_to_skip_file(path)
                if reason is None and leads_out(path, root):
                    raise ValueError(
                        f"{path} is a link to {path.resolve()}, outside of the folder: replace the link with the file "
                        "to upload it"
                    )
                if reason is None:
                    files[name] = path
                else:
                    left_out.append((name, reason))

    walk(folder, "")
    return dict(sorted(files.items())), sorted(left_out)


def _reason_to_skip_folder(path: Path) -> str | None:
    if path.name.startswith("."):
        return "hidden"
    if path.name == "__pycache__":
        return "a cache"
    if re.fullmatch(r"checkpoint-\d+", path.name):
        return "a training checkpoint"
    if path.name in ("logs", "mlruns", "runs", "wandb"):
        return _LOGS
    return "a link to a folder" if path.is_symlink() else None


def _reason_to_skip_file(path: Path) -> str | None:
    if path.name.startswith("."):
        return "hidden"
    if not path.is_file():
        return "not a file"
    if _PICKLED.fullmatch(path.name) or _is_pickle(path):
        return _PICKLE
    if path.suffix in (".pyc", ".pyo"):
        return "a cache"
    if path.suffix == ".log" or path.name.startswith("events.out.tfevents"):
        return _LOGS
    if path.name == "trainer_state.json":
        return "a training state"
    if path.suffix in (".arrow", ".parquet"):
        return "data, which does not belong to a model"
    return None


def _is_pickle(path: Path) -> bool:
    """Returns whether a file contains a pickle, by its first bytes."""
    if path.suffix == ".safetensors":  # starts with an arbitrary number
        return False
    with path.open("rb") as file:
        first = file.read(8)
        if first == _LEGACY_TORCH_MAGIC:
            return True
        if first[:1] == b"\x80" and first[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
            file.seek(-1, 2)
            return file.read(1) == b"."
        if first.startswith(b"\x93NUMPY"):
            return _has_objects(file)
    if first.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                return any(_is_pickled(archive, name) for name in archive.namelist())
        except (ValueError, zipfile.BadZipFile):
            return True  # an unreadable archive is not uploaded either
    return False


def _is_pickled(archive: zipfile.ZipFile, name: str) -> bool:
    if name.endswith(".npy"):
        with archive.open(name) as file:
            return _has_objects(file)
    return _PICKLED.fullmatch(Path(name).name) is not None


def _has_objects(file: IO[bytes]) -> bool:
    file.seek(0)
    try:
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        return bool(read_header(file)[2].hasobject)
    except ValueError:
        return True


def missing_parts(folder: Path) -> list[str]:
    """Lists the parts that a folder lacks to be a saved GILE model that loads without hf_gile.

    Args:
        folder: Any folder.

    Returns:
        Descriptions of the missing parts; empty if complete.
    """
    config = _read_json(folder / "config.json")
    if config is None or config.get("model_type") not in MODEL_TYPES:
        return ["a config.json with model_type 'gile'"]
    missing = []
    shards = _read_json(folder / "model.safetensors.index.json")
    names = set(shards.get("weight_map", {}).values()) if shards else {"model.safetensors"}
    missing += _list_missing(folder, names, "the weights")
    code = referenced_code(folder)
    missing += _list_missing(folder, code, "its code") if code else ["its code (config.json has no auto_map)"]
    missing += _list_missing(
        folder, ["processor_config.json", "tokenizer_config.json", "tokenizer.json"], "its processor"
    )
    missing += _list_missing(folder, [LABELS_FILE], "its labels")
    return missing


def code_references(config: Any) -> list[str]:
    """Lists the code references in `auto_map` and `custom_pipelines`, at any depth of a JSON file of a model.

    Args:
        config: The content of the file, which is untrusted.

    Returns:
        References such as `modeling_gile.GileModel`; references to another repository begin with `user/name--`.
    """
    references: list[str] = []
    stack = [config]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            references += _strings(value.get("auto_map"))
            pipelines = value.get("custom_pipelines")
            for pipeline in pipelines.values() if isinstance(pipelines, dict) else []:
                references += _strings(pipeline.get("impl") if isinstance(pipeline, dict) else pipeline)
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return references


def _strings(value: Any) -> list[str]:
    """Returns the strings in a value, including nested lists and dicts."""
    if isinstance(value, dict | list):
        return [text for item in (value.values() if isinstance(value, dict) else value) for text in _strings(item)]
    return [value] if isinstance(value, str) else []


def referenced_code(folder: Path) -> set[str]:
    """Returns the code files that a model's `config.json` refers to, and all files that they import.

    Args:
        folder: Any folder.

    Returns:
        The file names; empty if the folder contains no GILE model.
    """
    config = _read_json(folder / "config.json") or {}
    if config.get("model_type") not in MODEL_TYPES:
        return set()
    modules = {reference.split("--")[-1].split(".")[0] for reference in code_references(config)}
    visited: set[str] = set()
    while new := modules - visited:
        visited |= new
        for module in new:
            file = folder / f"{module}.py"
            if file.is_file():
                modules = modules | set(_SIBLING.findall(file.read_text(encoding="utf-8")))
    return {f"{module}.py" for module in visited}


def _list_missing(folder: Path, names: Iterable[str], part: str) -> list[str]:
    missing = sorted(name for name in names if not (folder / name).is_file())
    return [f"{part} ({', '.join(missing)})"] if missing else []


def _read_json(file: Path) -> dict[str, Any] | None:
    try:
        return read_json_object(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
