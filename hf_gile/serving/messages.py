"""The messages of Annif's REST API, as its OpenAPI document has them."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

BATCH = 32
"""Documents that `suggest-batch` takes at most, as Annif does."""


class Suggestion(BaseModel):
    """A label of a text: its id, its name and its probability."""

    uri: str
    label: str
    notation: str | None = None
    score: float


class Suggestions(BaseModel):
    """The labels of a text, best first."""

    results: list[Suggestion]


class NumberedSuggestions(Suggestions):
    """The labels of a document of a batch."""

    document_id: str | None = None


class Backend(BaseModel):
    """The kind of a project."""

    backend_id: str = "hf-gile"


class Vocabulary(BaseModel):
    """The labels of the model."""

    vocab_id: str
    languages: list[str]
    size: int
    loaded: bool = True


class Project(BaseModel):
    """A model as Annif describes it.

    Args:
        project_id: Its name in addresses.
        name: Its name for people.
        language: Of texts and labels, a code of two letters.
        vocab: Its labels.
        modification_time: When it was saved.
    """

    project_id: str
    name: str
    language: str
    backend: Backend = Backend()
    vocab: Vocabulary
    vocab_language: str
    is_trained: bool = True
    modification_time: datetime


class Projects(BaseModel):
    """All projects."""

    projects: list[Project]


class Vocabularies(BaseModel):
    """All vocabularies."""

    vocabs: list[Vocabulary]


class Info(BaseModel):
    """What the service is."""

    title: str
    version: str


class Health(BaseModel):
    """That the service runs."""

    status: str


class Problem(BaseModel):
    """An error."""

    title: str
    status: int
    detail: str


def _readable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no character") from None
    return text


Text = Annotated[str, AfterValidator(_readable)]


class Document(BaseModel):
    """A text to score; its metadata are not read."""

    text: Text
    document_id: Text | None = None


class Documents(BaseModel):
    """A batch of texts."""

    documents: Annotated[list[Document], Field(max_length=BATCH)]


def describe(project_id: str, num_labels: int, language: str, saved: datetime) -> Project:
    """Describes a model as Annif does.

    Args:
        project_id: Its name, in addresses, too.
        num_labels: Number of labels stored with it.
        language: Of texts and labels, a code of two letters.
        saved: When it was saved.
    """
    return Project(
        project_id=project_id,
        name=project_id,
        language=language,
        vocab=Vocabulary(vocab_id=project_id, languages=[language], size=num_labels),
        vocab_language=language,
        modification_time=saved,
    )
