"""Fills in cards of trained models."""

import shlex
import sys
from pathlib import Path
from typing import Any

from hf_gile.publishing.card import CardInfo, read_card_fields


def card_info(path: str | None, **defaults: Any) -> CardInfo:
    """Reads the content of a card from a YAML file, with defaults of the recipe.

    Args:
        path: The file with fields of `CardInfo`; None for the defaults only.
        defaults: Default fields.
    """
    fields = {} if path is None else read_card_fields(path)
    return CardInfo(**{"training_command": command(), **defaults, **fields})


def command() -> str:
    """Returns the command line of this run, without local paths of the script and the output."""
    script = Path(sys.argv[0]).resolve()
    words = iter(sys.argv[1:])
    flags = []
    for word in words:
        if word == "--output_dir":
            next(words, None)
        elif not word.startswith(("--output_dir=", "--overwrite_output_dir", "--overwrite-output-dir")):
            flags.append(word)
    return shlex.join(["python", f"{script.parent.name}/{script.name}", *flags])
