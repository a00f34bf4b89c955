"""Classifies the files of a published model: required, uploaded, or replaced by a new version."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..label_index import leads_out
from ..models.checks_gile import read_json_object
from ..models.labels_gile import LABELS_FILE

UNKNOWN_REPOSITORY = "path/to/this/model"
"""Placeholder for the name of the repository on a card, while it is unknown."""

MODEL_TYPES = ("gile", "gile_published")
"""Values of `model_type` in config.json for GILE models; the second is for converted ones."""

_LOADED = re.compile(
    r"model(-\d{5}-of-\d{5})?\.safetensors"
    r"|model\.safetensors\.index\.json"
    r"|label_embeds\.safetensors"
    r"|\w+_gile\.py"
    r"|(model|processor)_manifest\.json"
    r"|index/(.+/)?label_index(-[0-9a-f]{8})?\.(json|jsonl|safetensors)"
)
_MANAGED = re.compile(
    rf"{_LOADED.pattern}"
    r"|(added_tokens|preprocessor_config|processor_config|special_tokens_map|tokenizer|tokenizer_config|vocab)\.json"
    r"|merges\.txt|vocab\.txt|chat_template\.jinja"
    r"|labels\.(jsonl|csv)|results\.json|card\.yaml"
    r"|figures/calibration\.png"
)
# Files that a push may add, but never deletes.
_ADDED = re.compile(r"config\.json|README\.md|(LICENSE|NOTICE)(\.md|\.txt)?|[\w-]+\.safetensors|figures/[\w-]+\.png")
_SIBLING = re.compile(r"^\s*from\s+\.(\w+)\s+import", re.MULTILINE)


def is_managed(path: str) -> bool:
    """Returns whether every upload of a model rewrites or deletes a file of the repository.

    Example:
        >>> paths = ("model-00001-of-00002.safetensors", "labels.csv", "notebook.ipynb")
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


def select_files(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """Selects the files of a folder to upload to the Hub: those of a model, by their names.

    Args:
        folder: A saved model.

    Returns:
        The files by their paths in the repository, and the paths left out; a folder includes its content. Both are
        sorted.

    Raises:
        ValueError: If a file is a link to a file outside of the folder.
    """
    inner: list[Path] = []
    for name in ("figures", "index"):
        _refuse_links(folder / name, folder)
        inner += (folder / name).rglob("*")
    code = referenced_code(folder)
    files: dict[str, Path] = {}
    left_out: list[str] = []
    for path in sorted([*folder.iterdir(), *inner]):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            if path.parent == folder and name not in ("figures", "index"):
                left_out.append(f"{name}/")
        elif path.is_file() and (is_managed(name) or _ADDED.fullmatch(name) or name in code):
            _refuse_links(path, folder)
            files[name] = path
        else:
            left_out.append(name)
    return files, left_out


def _refuse_links(path: Path, folder: Path) -> None:
    if leads_out(path, folder):
        raise ValueError(
            f"{path} is a link to {path.resolve()}, outside of the folder: replace the link with the file to upload it"
        )


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
