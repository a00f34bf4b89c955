"""What a person knows about a model, in a YAML file: `card.yaml` beside the card that was made of it."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from .card import CardInfo

CARD_FILE = "card.yaml"
"""The name of this file in a saved model."""


def read_card_fields(path: str | PathLike[str]) -> dict[str, Any]:
    """Reads fields of a `CardInfo` from a YAML file, `name: value`.

    Args:
        path: The file.

    Returns:
        The fields, for `CardInfo(**fields)`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not YAML, or holds something that is not a field of `CardInfo`.
    """
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold `name: value` lines, got {str(content)[:40]!r}")
    names: Sequence[str] = [field.name for field in fields(CardInfo)]
    for name in content:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
            raise ValueError(f"{path}: a card knows no {name!r}{hint}")
    return content


def write_card_fields(path: str | PathLike[str], info: CardInfo) -> None:
    """Writes what a `CardInfo` says, where that is not what any says, for `read_card_fields` and for people.

    Args:
        path: The file, such as `card.yaml` beside the card.
        info: What to write.
    """
    plain = asdict(CardInfo())
    said = {name: value for name, value in asdict(info).items() if value != plain[name]}
    said = json.loads(json.dumps(said, default=lambda number: number.item()))  # of numpy
    Path(path).write_text(yaml.safe_dump(said, allow_unicode=True, sort_keys=False, width=120), encoding="utf-8")


__all__ = ["CARD_FILE", "read_card_fields", "write_card_fields"]
