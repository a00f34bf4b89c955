"""Defines the information about a model that its author provides for the card."""

import re
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from huggingface_hub import ModelCard
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from ..masking import masked_in

EMISSIONS = ("emissions", "source", "training_type", "geographical_location", "hardware_used")
"""Fields of the Hub about the energy used in training."""

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
        energy: Energy used in training: `energy_consumed` (kWh), and the fields of the Hub, `emissions` (grams of CO2
            equivalent), `source`, `training_type`, `geographical_location`, `hardware_used`.
        limits: Limitations and out-of-scope uses, a sentence each.
        citation: BibTeX of your work, in addition to that of GILE.
        show_examples: Whether the card shows example texts of the report. Their licence must allow it.
        example_text: Text in the code example; by default a sentence with names of labels.
        example_labels: Names and descriptions of unknown labels in the code example.

    Raises:
        ValueError: If a field has the wrong type, the Hub would not accept an id, a language or a licence, or `energy`
            has an unknown field.

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
    energy: dict[str, Any] | None = None
    limits: list[str] = field(default_factory=list)
    citation: str | None = None
    show_examples: bool = False
    example_text: str | None = None
    example_labels: dict[str, str] = field(
        default_factory=lambda: {
            "Weather": "rain, snow, wind and sunshine",
            "Cooking": "how food is made",
        }
    )

    def __post_init__(self) -> None:
        for name in _LISTS:
            value = getattr(self, name)
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
                raise ValueError(f"{name} must be a list of texts, got {value!r:.200}; in YAML, quote words such as no")
            setattr(self, name, list(value))
        for declared in fields(self):
            name, value = declared.name, getattr(self, declared.name)
            kind, expected = {
                "show_examples": (bool, "true or false"),
                "energy": (dict | None, "fields with values"),
                "example_labels": (dict, "names with descriptions"),
            }.get(name, (list if name in _LISTS else str | None, "a text"))
            is_described = name != "example_labels" or (value and all(isinstance(text, str) for text in value.values()))
            if not isinstance(value, kind) or not is_described:
                raise ValueError(f"{name} must be {expected}, got {value!r:.200}")
            setattr(self, name, masked_in(value))
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
        ids: dict[str, list[str | None]] = {
            "repo_id": [self.repo_id],
            "base_model": [self.base_model],
            "datasets": [*self.datasets],
        }
        for name, values in ids.items():
            for value in values:
                try:
                    validate_repo_id("none" if value is None else value)
                except HFValidationError as error:
                    raise ValueError(f"{name} must be an id on the Hub, got {value!r:.200} ({error})") from None
        unknown = set(self.energy or ()) - {"energy_consumed", *EMISSIONS}
        if unknown:
            names = ", ".join(("energy_consumed", *EMISSIONS))
            raise ValueError(f"energy has no field {sorted(unknown)[0]!r}; its fields are {names}")

    @property
    def name(self) -> str:
        """Returns the title of the card."""
        return self.model_name or (self.repo_id or "GILE model").rpartition("/")[2]


Card = CardInfo | ModelCard | str | Literal[False] | None
"""Information for a card, or an existing card; False for no card."""

__all__ = ["EMISSIONS", "Card", "CardInfo"]
