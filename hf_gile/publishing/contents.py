"""Classifies the files of a published model, and compares its code with the installed package, without running it."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, snapshot_download

from ..label_index import leads_out
from ..models.checks_gile import read_json_object
from ..models.labels_gile import LABELS_FILE
from ..models.saving_gile import LONGEST_JSON, check_folder

UNKNOWN_REPOSITORY = "path/to/this/model"
"""Placeholder for the name of the repository on a card, while it is unknown."""

MODEL_TYPES = ("gile", "gile_published")
"""Values of `model_type` in config.json for GILE models; the second is for converted ones."""

INSTALLED = [Path(__file__).parent.parent / folder for folder in ("models", "language_models")]
"""Folders of the code files that are saved with models."""

_CONFIG_FILES = ("config.json", "processor_config.json", "tokenizer_config.json")

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
    """Describes the parts that a folder lacks to be a saved GILE model that loads without hf_gile."""
    if _read_json(folder / "config.json").get("model_type") not in MODEL_TYPES:
        return ["a config.json with model_type 'gile'"]
    shards = _read_json(folder / "model.safetensors.index.json").get("weight_map", {})
    code = referenced_code(folder)
    parts = {
        "the weights": set(shards.values()) or {"model.safetensors"},
        "its code": code,
        "its processor": {"processor_config.json", "tokenizer_config.json", "tokenizer.json"},
        "its labels": {LABELS_FILE},
    }
    missing = []
    if not code:
        missing.append("its code (config.json has no auto_map)")
    for part, names in parts.items():
        absent = sorted(name for name in names if not (folder / name).is_file())
        if absent:
            missing.append(f"{part} ({', '.join(absent)})")
    return missing


def code_references(config: Any) -> list[str]:
    """Lists the code references in `auto_map` and pipelines, at any depth of an untrusted JSON file of a model.

    References are such as `modeling_gile.GileModel`; those to another repository begin with `user/name--`.
    """
    references: list[str] = []
    stack = [(config, False)]
    while stack:
        value, is_code = stack.pop()
        if isinstance(value, dict):
            stack += [(item, is_code or name in ("auto_map", "impl")) for name, item in value.items()]
        elif isinstance(value, list):
            stack += [(item, is_code) for item in value]
        elif isinstance(value, str) and is_code:
            references.append(value)
    return references


def referenced_code(folder: Path) -> set[str]:
    """Returns the names of the code files that a GILE model refers to, and of all that they import."""
    config = _read_json(folder / "config.json")
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


def _read_json(file: Path) -> dict[str, Any]:
    """Returns the content of a JSON file; empty if it is missing or not an object."""
    try:
        return read_json_object(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}


@dataclass(frozen=True)
class CodeCheck:
    """Result of `verify_code`.

    Args:
        commit: The checked commit of a model on the Hub.
        files: For each code file, by its path: its SHA-256, and whether it is the "same" as the installed file,
            "differs", is "unknown" to the package, or is "missing" although the configuration refers to it.
        elsewhere: References to code in other repositories, which `trust_remote_code=True` would run as well.
    """

    commit: str | None
    files: dict[str, tuple[str, str]]
    elsewhere: list[str]

    @property
    def is_same(self) -> bool:
        """Returns whether all code files are identical to the installed files."""
        statuses = {status for _, status in self.files.values()}
        return statuses == {"same"} and not self.elsewhere


def verify_code(model: str, revision: str | None = None) -> CodeCheck:
    """Compares all Python files of a model with the installed package.

    Args:
        model: Folder of the model, or its name on the Hub.
        revision: Branch, tag or commit of a model on the Hub.

    Raises:
        OSError: If the model does not exist or is not accessible.
        ValueError: If it is not a GILE model.
    """
    folder = Path(model)
    commit = None
    if not folder.is_dir():
        commit = str(HfApi().model_info(model, revision=revision).sha)
        folder = Path(snapshot_download(model, revision=commit, allow_patterns=["*.py", *_CONFIG_FILES]))
    check_folder(folder)
    referenced = referenced_code(folder)
    if not referenced:
        raise ValueError(f"{model} is not a saved GILE model: its config.json refers to no code")
    installed = {path.name: path.read_bytes() for source in INSTALLED for path in source.glob("*.py")}
    files = dict.fromkeys(sorted(referenced), ("", "missing"))
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or path.stat().st_size > LONGEST_JSON:
            raise ValueError(f"{path} is not a file of code: it is a folder, a device, or too long")
        data = path.read_bytes()
        status = "unknown"
        if name in installed:
            status = "same" if data == installed[name] else "differs"
        files[name] = hashlib.sha256(data).hexdigest(), status
    configs = [read_json_object(folder / name) for name in _CONFIG_FILES if (folder / name).is_file()]
    elsewhere = {text for config in configs for text in code_references(config) if "--" in text}
    return CodeCheck(commit, files, sorted(elsewhere))
