"""Messages of Annif's REST API, as in its OpenAPI document."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from ..models.texts_gile import check_characters

BATCH = 32
"""Maximum number of documents of `suggest-batch`, as in Annif."""


class Parent(BaseModel):
    """A parent of a label."""

    uri: str
    label: str


class Evidence(BaseModel):
    """A part of a text, and how far the logit of a label falls without it."""

    text: str
    weight: float


class Suggestion(BaseModel):
    """A suggested label: id, name and probability, its parents, and evidence if requested."""

    uri: str
    label: str
    notation: str | None = None
    score: float
    parents: list[Parent] = []
    evidence: list[Evidence] | None = None


class Suggestions(BaseModel):
    """The suggested labels of a text, best first."""

    results: list[Suggestion]


class NumberedSuggestions(Suggestions):
    """The suggested labels of a document in a batch."""

    document_id: str | None = None


class Vocabulary(BaseModel):
    """The labels of the model."""

    vocab_id: str
    languages: list[str]
    size: int
    loaded: bool = True


class Project(BaseModel):
    """A model, described as an Annif project.

    Args:
        project_id: Name of the model in URLs.
        name: Display name of the model.
        language: Language of texts and labels, a two-letter code.
        vocab: Labels of the model.
        modification_time: Time when the model was saved.
    """

    project_id: str
    name: str
    language: str
    backend: dict[str, str] = {"backend_id": "hf-gile"}
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


class Problem(BaseModel):
    """An error."""

    title: str
    status: int
    detail: str


def _check_text(text: str) -> str:
    check_characters(text, "it")
    return text


Text = Annotated[str, AfterValidator(_check_text)]


class Question(BaseModel):
    """A text whose labels are wanted, as a form or as JSON; metadata are ignored."""

    text: Annotated[Text, Field(min_length=1)]
    limit: Annotated[int, Field(ge=0)] = 10
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
    language: str = ""
    exclude: list[Text] = []
    include_branch: list[Text] = []
    evidence: bool = False


class Document(BaseModel):
    """A text to score; metadata are ignored."""

    text: Text
    document_id: Text | None = None


class Documents(BaseModel):
    """A batch of texts."""

    documents: Annotated[list[Document], Field(max_length=BATCH)]


class Subject(BaseModel):
    """A label of a corrected document; its name is ignored."""

    uri: Text
    label: Text | None = None


class Corrected(BaseModel):
    """A text with all its labels; metadata are ignored."""

    text: Annotated[Text, Field(min_length=1)]
    subjects: list[Subject]


def describe(project_id: str, num_labels: int, language: str, saved: datetime) -> Project:
    """Describes a model as an Annif project, whose id is also its name, with a two-letter code of the language."""
    return Project(
        project_id=project_id,
        name=project_id,
        language=language,
        vocab=Vocabulary(vocab_id=project_id, languages=[language], size=num_labels),
        vocab_language=language,
        modification_time=saved,
    )
