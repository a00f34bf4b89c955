"""A demo page for a model: text and labels in, probabilities out (extra `space`: Gradio)."""

from html import escape
from typing import TYPE_CHECKING

from .extras import needs_extra
from .models import LabelScoringPipeline, LabelSet

if TYPE_CHECKING:
    from gradio import Interface

TEXT_LENGTH = 20_000
"""Maximum number of characters of a text, and of all typed labels."""

SHOWN = 20
"""Maximum number of labels shown for a text."""


def read_labels(typed: str) -> LabelSet | None:
    r"""Reads typed or pasted labels: one per line, with a description after a tab, or after a colon and a space.

    Returns:
        The labels, with their names as ids; None if nothing is typed.

    Raises:
        ValueError: If a name has two descriptions.

    Example:
        >>> [(label.name, label.description) for label in read_labels("Milk, Human: breast milk\nIron\tFe, a metal")]
        [('Milk, Human', 'breast milk'), ('Iron', 'Fe, a metal')]
    """
    described: dict[str, str] = {}
    for line in filter(None, map(str.strip, typed.splitlines())):
        name, _, description = line.partition("\t" if "\t" in line else ": ")
        if described.setdefault(name.strip(), description.strip()) != description.strip():
            raise ValueError(f"the label {name.strip()!r} has two descriptions: change its name")
    return LabelSet.from_names(described) if described else None


def score_text(
    pipe: LabelScoringPipeline, labels: LabelSet | None, text: str, typed: str, language: str | None
) -> tuple[dict[str, float], str]:
    """Scores a text with typed labels, or else those of the page.

    Args:
        pipe: Pipeline that scores texts.
        labels: The labels of the page; None for those stored with the model.
        text: The text.
        typed: Typed labels, see `read_labels`.
        language: Language of the text.

    Returns:
        Probabilities by name, best first, and the note of the pipeline, if any.

    Raises:
        ValueError: If the text or the labels are too long, or the pipeline refuses them.
    """
    if max(len(text), len(typed)) > TEXT_LENGTH:
        raise ValueError(f"text and labels may have {TEXT_LENGTH:,} characters each; hf-gile score has no limit")
    pipe.call_count = 0  # prevents a warning of Transformers about sequential calls on a GPU
    (answer,) = pipe([text], read_labels(typed) or labels, top_k=SHOWN, language=language)
    return dict(zip(answer["labels"], answer["scores"], strict=True)), answer.get("note", "")


def make_space(
    pipe: LabelScoringPipeline, labels: LabelSet | None = None, title: str = "Score text with labels"
) -> "Interface":
    """Creates the page, to be served by its `launch()`. It shows texts and labels as text, never as HTML.

    Args:
        pipe: Pipeline that scores texts.
        labels: The labels to score if none are typed; by default those stored with the model.
        title: Title of the page.

    Raises:
        ImportError: If the extra `space` is not installed.

    Example:
        ```python
        make_space(pipeline("label-scoring", model="runs/mine/auto/model")).launch()
        ```
    """
    with needs_extra("space", "the page"):
        import gradio as gr

    def score(text: str, typed: str, language: str | None) -> tuple[dict[str, float], str]:
        try:
            return score_text(pipe, labels, text, typed, language)
        except ValueError as error:  # the dialog renders HTML
            raise gr.Error(escape(str(error)), print_exception=False) from None

    languages = list(pipe.model.config.languages)
    stored = labels or pipe.model.label_set
    info = "One per line. A description follows a colon or a tab."
    if stored:
        info += f" Without any, the {len(stored):,} labels of the model are scored."
    return gr.Interface(
        score,
        [
            gr.Textbox("" if stored else _TEXT, label="Text", lines=8, elem_id="text"),
            gr.Textbox("" if stored else _LABELS, label="Your labels", info=info, lines=4, elem_id="labels"),
            gr.Dropdown(languages, value=next(iter(languages), None), label="Language", visible=bool(languages)),
        ],
        [
            gr.Label(label="Probabilities", num_top_classes=SHOWN, show_heading=False, elem_id="scores"),
            gr.Textbox(label="Note", elem_id="note"),
        ],
        title=escape(title),
        flagging_mode="never",
        analytics_enabled=False,
        submit_btn="Score",
    )


_TEXT = "My parcel was due on Monday. It has not come yet, and nobody answers the phone."

_LABELS = """delivery: where a parcel is and when it comes
invoice: bills and payments
password: how to log in"""
