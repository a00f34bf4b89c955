"""What a person knows about a model, from a YAML file."""

import difflib
from collections.abc import Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from .card import CardInfo


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


__all__ = ["read_card_fields"]
