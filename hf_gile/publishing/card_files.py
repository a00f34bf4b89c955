"""Reads and writes the files of a model card: `README.md`, and `card.yaml` with information from the author."""

import difflib
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import yaml

from ..data.files import read_yaml
from ..label_index import leads_out
from ..models import GileForSequenceClassification
from ..writing import whole_file
from .card import make_card
from .card_info import CardInfo
from .report import Report

CARD_FILE = "card.yaml"
"""File in a saved model with the fields of `CardInfo` used for its card."""


def read_card_fields(path: str | PathLike[str]) -> dict[str, Any]:
    """Reads fields of `CardInfo` from a YAML file, `name: value`.

    Args:
        path: The file.

    Returns:
        The fields, for `CardInfo(**fields)`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is not YAML, or has an unknown field.
    """
    path = Path(path)
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} must contain `name: value` lines, got {shortened(content)}")
    names: Sequence[str] = [field.name for field in fields(CardInfo)]
    for name in content:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; its fields are {', '.join(names)}"
            raise ValueError(f"{path}: a card has no field {name!r}{hint}")
    return content


def write_card(
    folder: str | PathLike[str],
    model: GileForSequenceClassification,
    info: CardInfo | None = None,
    report: Report | None = None,
) -> None:
    """Writes the card of a saved model with its figure, and `info` for later cards.

    Args:
        folder: Folder of the model; an earlier card is replaced.
        model: The model.
        info: Information about the model, saved as `card.yaml`. If None, an existing `card.yaml` is not changed.
        report: Evaluation report.

    Raises:
        ImportError: If the extra `train` is not installed.
        ValueError: If the folder for figures is a link to another folder.
    """
    folder = Path(folder)
    if leads_out(folder / "figures", folder):
        raise ValueError(
            f"{folder / 'figures'} is a link to another folder, whose files would be replaced: remove the link"
        )
    text = str(make_card(model, CardInfo() if info is None else info, report, folder))
    with whole_file(folder / "README.md") as staged:
        staged.write_text(text, encoding="utf-8")
    if info is not None:
        defaults = asdict(CardInfo())
        content = {name: value for name, value in asdict(replace(info)).items() if value != defaults[name]}
        with whole_file(folder / CARD_FILE) as staged:
            staged.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False, width=120), encoding="utf-8")
