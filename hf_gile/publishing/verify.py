"""Compares the code files of a model with the installed package by hash, without running them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download

from ..models.checks_gile import read_json_object
from ..models.saving_gile import LONGEST_JSON, check_folder
from .contents import code_references, referenced_code

INSTALLED = [Path(__file__).parent.parent / folder for folder in ("models", "language_models")]
"""Folders of the code files that are saved with models."""

_CONFIG_FILES = ("config.json", "processor_config.json", "tokenizer_config.json")


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
        return bool(self.files) and not self.elsewhere and all(status == "same" for _, status in self.files.values())


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
    return CodeCheck(commit, files, _foreign_references(folder))


def _foreign_references(folder: Path) -> list[str]:
    """Returns references to code of other repositories, `user/name--module.Class`."""
    files = [folder / name for name in _CONFIG_FILES if (folder / name).is_file()]
    return sorted({text for file in files for text in code_references(read_json_object(file)) if "--" in text})
