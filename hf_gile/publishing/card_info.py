"""Defines the information about a model that its author provides for the card."""

import re
from dataclasses import dataclass, field, fields
from typing import Literal

from huggingface_hub import ModelCard
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from ..masking import masked_in

LANGUAGE_CODE = r"[a-z]{2,3}(-[A-Za-z]+)?|multilingual|code"
LICENSE_ID = r"[a-z0-9][a-z0-9.-]*"

_LISTS = ("language", "datasets", "tags", "limits")


@dataclass
class CardInfo:
    """Information about a model that its files do not contain. Missing information is left out of the card.

    Secrets in any field, such as a token in `training_command`, are masked.

    `summary`, `training_data`, `limits` and `citation` are inserted verbatim and may use Markdown.

    Args:
        model_name: Title; by default the last part of `repo_id`.
        repo_id: Repository of the model on the Hub.
        summary: Purpose of the model, in a sentence or two.
        language: Language codes of the texts, such as "en".
        license: Licence of the model, by its id on the Hub, such as "apache-2.0".
        datasets: Ids of the training data on the Hub.
        dataset_name: Name of the training data.
        dataset_license: Licence of the training data.
        base_model: Id on the Hub of the model that training started from.
        tags: Additional tags.
        training_command: Command that trains the model.
        training_data: Description of the training data.
        limits: Limitations and out-of-scope uses, a sentence each.
        citation: BibTeX of your work, in addition to that of GILE.

    Raises:
        ValueError: If a field has the wrong type, or the Hub would not accept an id, a language or a licence.

    Example:
        >>> CardInfo(repo_id="somebody/news", language="en").language
        ['en']
    """

    model_name: str | None = None
    repo_id: str | None = None
    summary: str | None = None
    language: list[str] = field(default_factory=list)
    license: str | None = None
    datasets: list[str] = field(default_factory=list)
    dataset_name: str | None = None
    dataset_license: str | None = None
    base_model: str | None = None
    tags: list[str] = field(default_factory=list)
    training_command: str | None = None
    training_data: str | None = None
    limits: list[str] = field(default_factory=list)
    citation: str | None = None

    def __post_init__(self) -> None:
        for declared in fields(self):
            name = declared.name
            read = _read_list if name in _LISTS else _read_text
            setattr(self, name, masked_in(read(name, getattr(self, name))))
        for code in self.language:
            if not re.fullmatch(LANGUAGE_CODE, code):
                raise ValueError(
                    f"language must contain ISO 639 codes, such as 'en', or 'multilingual', got {code!r:.99}"
                )
        if self.license is not None and not re.fullmatch(LICENSE_ID, self.license):
            raise ValueError(
                f"license must be the id of a licence on the Hub, such as 'apache-2.0' or 'other', got "
                f"{self.license!r:.200}"
            )
        _check_id("repo_id", self.repo_id)
        _check_id("base_model", self.base_model)
        for dataset in self.datasets:
            _check_id("datasets", dataset)

    @property
    def name(self) -> str:
        """Returns the title of the card."""
        return self.model_name or (self.repo_id or "GILE model").rpartition("/")[2]


def _read_list(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name} must be a list of texts, got {value!r:.200}; in YAML, quote words such as no")
    return list(value)


def _read_text(name: str, value: object) -> str | None:
    if not isinstance(value, str | None):
        raise ValueError(f"{name} must be a text, got {value!r:.200}")
    return value


def _check_id(name: str, value: str | None) -> None:
    try:
        validate_repo_id("none" if value is None else value)
    except HFValidationError as error:
        raise ValueError(f"{name} must be an id on the Hub, got {value!r:.200} ({error})") from None


Card = CardInfo | ModelCard | str | Literal[False] | None
"""Information for a card, or an existing card; False for no card."""
