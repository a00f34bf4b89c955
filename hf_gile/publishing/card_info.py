"""What a person knows about a model, and no file of it says: for its card."""

import re
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from huggingface_hub import ModelCard
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from ..masking import masked

EMISSIONS = ("emissions", "source", "training_type", "geographical_location", "hardware_used")
"""What the Hub knows of the energy that training took."""

_LISTS = ("language", "datasets", "tags", "limits")


@dataclass
class CardInfo:
    """What a person knows about a model, and no file of it says. What is not known stays out of the card.

    Secrets in it, such as a token in `training_command`, are masked.

    `summary`, `training_data`, `limits` and `citation` are put into the page as they are, and may hold Markdown.

    Args:
        model_name: The title; by default what follows the slash in `repo_id`.
        repo_id: Where the model is on the Hub.
        summary: A sentence or two: what it was made for.
        language: Codes of the languages of the texts, such as "en".
        license: The licence of the model, by its id on the Hub, such as "apache-2.0".
        datasets: Ids on the Hub of the data that it was trained on.
        dataset_name: What people call this data.
        dataset_license: Its licence.
        base_model: Id on the Hub of the model that training began with.
        tags: Further tags.
        training_command: The command that trains it.
        training_data: What it was trained on, in words.
        energy: What training took: `energy_consumed` (kWh), and the fields of the Hub, `emissions` (grams of CO2
            equivalent), `source`, `training_type`, `geographical_location`, `hardware_used`.
        limits: What it should not be used for, or is known to do badly, each a sentence.
        citation: BibTeX of your own work, beside that of GILE.
        show_examples: Whether the card shows example texts of the report, which the licence of the texts must allow.
        example_text: A text for the code on the card; by default a sentence made of names of labels.
        example_labels: Names and descriptions of labels that the model does not know, for the same.

    Raises:
        ValueError: A field of the wrong type, an id, a language or a licence that the Hub would not take, or an unknown
            field of `energy`.

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
            if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{name} must be a list of texts, got {value!r}; in YAML, quote words such as no")
            setattr(self, name, list(value))
        for one in fields(self):
            value = getattr(self, one.name)
            kind, said = {
                "show_examples": (bool, "true or false"),
                "energy": (dict | None, "fields with values"),
                "example_labels": (dict, "names with descriptions"),
            }.get(one.name, (list if one.name in _LISTS else str | None, "a text"))
            named = one.name != "example_labels" or (value and all(isinstance(text, str) for text in value.values()))
            if not isinstance(value, kind) or not named:
                raise ValueError(f"{one.name} must be {said}, got {value!r}")
            if isinstance(value, str):
                setattr(self, one.name, masked(value))
        for code in self.language:
            if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]+)?|multilingual|code", code):
                raise ValueError(f"language must hold codes of ISO 639, such as 'en', or 'multilingual', got {code!r}")
        if self.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", self.license):
            raise ValueError(
                f"license must be the id of a licence on the Hub, such as 'apache-2.0' or 'other', got {self.license!r}"
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
                    raise ValueError(f"{name} must be an id on the Hub, got {value!r} ({error})") from None
        unknown = set(self.energy or ()) - {"energy_consumed", *EMISSIONS}
        if unknown:
            known = ", ".join(("energy_consumed", *EMISSIONS))
            raise ValueError(f"energy has no field {sorted(unknown)[0]!r}; it has {known}")

    @property
    def name(self) -> str:
        """The title of the card."""
        return self.model_name or (self.repo_id or "GILE model").rpartition("/")[2]


Card = CardInfo | ModelCard | str | Literal[False] | None
"""What a card can be made of, or a card that is made already; False for none."""

__all__ = ["EMISSIONS", "Card", "CardInfo"]
