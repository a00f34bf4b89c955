"""Names of the flags of recipes, and suggestions for unknown ones; imports no torch."""

import difflib
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import hf_gile
from hf_gile.resources import resource

COMMON = (
    "output_dir",
    "num_train_epochs",
    "per_device_train_batch_size",
    "learning_rate",
    "gradient_accumulation_steps",
    "metric_for_best_model",
    "resume_from_checkpoint",
    "bf16",
    "use_cpu",
    "seed",
)
"""Training arguments in the short help."""

ALIASES = {
    "label": "labels",
    "lr": "learning_rate",
    "model": "text_encoder",
    "encoder": "text_encoder",
    "max_length": "max_words",
    "max_seq_length": "max_words",
    "text_column": "text",
    "text_columns": "text",
    "label_column": "labels",
    "label_columns": "labels",
    "sep": "separator",
    "delimiter": "separator",
    "dev_files": "validation_files",
    "dev_file": "validation_files",
    "eval_files": "validation_files",
    "eval_file": "validation_files",
    "val_files": "validation_files",
}
"""Names used by other tools, with the corresponding settings."""


_MORE = ("overwrite_output_dir", "config", "help", "help_all")
"""Flags that are no fields of a dataclass."""


def unknown_flag(words: Iterable[str]) -> str:
    """Returns an error for the first flag that the recipe for tables lacks, or an empty string.

    Names are read from source code, which takes a moment; to import the settings takes seconds.
    """
    files = [*Path(hf_gile.__file__).parent.glob("training/*.py"), resource("recipes/table_source.py")]
    settings = set(chain.from_iterable(map(_fields, files)))
    transformers = find_spec("transformers")
    known = {*settings, *_MORE}
    if transformers is not None:
        known.update(_fields(Path(str(transformers.origin)).with_name("training_args.py")))
    for flag in (word.partition("=")[0] for word in words):
        name = flag[2:].replace("-", "_")
        if flag.startswith("--") and name and not {name, name.removeprefix("no_")} & known:
            near = " or ".join(f"--{other}" for other in nearest(name, [*settings, *COMMON], sorted(known)))
            return f"error: {flag}: unknown flag{near and f'; did you mean {near}?'}; --help shows the flags"
    return ""


def _fields(file: Path) -> list[str]:
    """Returns the names of the fields of all dataclasses in a file, and possibly other names."""
    return re.findall(r"^    (\w+): ", file.read_text(encoding="utf-8"), re.MULTILINE)


def nearest(name: str, common: Sequence[str], candidates: Iterable[str]) -> list[str]:
    """Returns at most three candidates similar to an unknown name, most similar first.

    They contain all words of the name, or else are spelled similarly. If any of them is `common`, others are left out.

    Example:
        >>> nearest("labels_file", ["labels", "label_file"], ["labels", "label_file", "seed"])
        ['label_file']
    """
    candidates = list(candidates)
    if ALIASES.get(name) in candidates:
        return [ALIASES[name]]
    words = _words(name)

    def similarity(other: str) -> float:
        return difflib.SequenceMatcher(None, name, other).ratio()

    similar = [other for other in candidates if words <= _words(other)]
    similar = similar or [other for other in candidates if similarity(other) > 0.7]
    similar = [other for other in similar if other in common] or similar
    return sorted(similar, key=similarity, reverse=True)[:3]


def _words(name: str) -> set[str]:
    """Splits a name into words, without plural endings."""
    return {word.rstrip("s") for word in name.lower().split("_")}
