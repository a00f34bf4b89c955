"""A demo page for a model: shows the probabilities of labels and a heat map of a text (extra `space`: Gradio).

User input and the texts of labels are always escaped.
"""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from .attention import AttentionRecord, render_words
from .extras import needs_extra
from .models import Label, LabelScoringPipeline, LabelSet

if TYPE_CHECKING:
    from gradio import Blocks

TEXT_LENGTH = 20_000
"""Maximum number of characters of a text."""

NUM_LABELS = 1_000
"""Maximum number of typed labels."""

LABEL_LENGTH = 2_000
"""Maximum number of characters of a typed label with its description."""

SHOWN, SEARCHED = 10, 50
"""Maximum numbers of bars of a group of labels, without and with a search."""

OCCLUSIONS = 64
"""Maximum number of occluded texts for a heat map of a model without attention."""


class Scored(NamedTuple):
    """A label with its probability, and its name in the answer of the pipeline."""

    label: Label
    probability: float
    name: str


class Group(NamedTuple):
    """Labels under a heading, best first, and the candidate labels of the pipeline call."""

    heading: str
    rows: list[Scored]
    candidates: LabelSet | None


def read_labels(typed: str) -> LabelSet | None:
    r"""Reads typed or pasted labels: one per line, with a description after a tab, or after a colon and a space.

    Args:
        typed: The lines.

    Returns:
        The labels, with their names as ids; None if nothing is typed.

    Raises:
        ValueError: If there are too many labels, a label is too long, or a name has two descriptions.

    Example:
        >>> [(label.name, label.description) for label in read_labels("Milk, Human: breast milk\nIron\tFe, a metal")]
        [('Milk, Human', 'breast milk'), ('Iron', 'Fe, a metal')]
    """
    lines = [(number, line.strip()) for number, line in enumerate(typed.splitlines(), 1) if line.strip()]
    if len(lines) > NUM_LABELS:
        raise ValueError(
            f"The page accepts at most {NUM_LABELS:,} labels, got {len(lines):,}. Remove some, or put them into a file "
            "for hf-gile score --label-file, which has no limit."
        )
    described: dict[str, str] = {}
    for number, line in lines:
        if len(line) > LABEL_LENGTH:
            raise ValueError(
                f"The label in line {number} has {len(line):,} characters, more than {LABEL_LENGTH:,}: shorten it."
            )
        name, _, description = line.partition("\t" if "\t" in line else ": ")
        name, description = name.strip(), description.strip()
        if described.setdefault(name, description) != description:
            raise ValueError(f"The label {name!r} in line {number} has another description above: change its name.")
    return LabelSet.from_names(described) if described else None


class Page:
    """Renders the answers of the page as HTML.

    Args:
        pipe: Pipeline that scores texts.
        labels: The labels to search and score; by default those stored with the model, if any.
    """

    def __init__(self, pipe: LabelScoringPipeline, labels: LabelSet | None = None) -> None:
        self.pipe, self.passed_labels = pipe, labels
        self.labels: LabelSet | None = labels or pipe.model.label_set
        self.by_id = {label.id: label for label in self.labels or ()}

    def answer(self, *fields: Any) -> Iterator[tuple[str, str]]:
        """Yields the bars, then the bars with the heat map; `fields` are the arguments of `bars`."""
        bars = self.bars(*fields)
        yield bars, ""
        try:
            yield bars, self.heat_map(*fields[:-1])
        except ValueError:  # shown by the bars
            yield bars, ""

    def bars(self, text: str, typed: str, stored: bool, single: bool, language: str | None, search: str) -> str:
        """Renders the labels of a text with their probabilities.

        Args:
            text: The text.
            typed: Typed labels, see `read_labels`.
            stored: Whether the labels of the page are scored as well.
            single: Whether exactly one label is correct.
            language: Language of texts and labels, for a multilingual model.
            search: Words that the name, synonyms or id of a label of the page must contain to be shown.
        """
        words = search.casefold().split()
        try:
            groups, note = self.groups(text, typed, stored, single, language)
        except ValueError as error:
            return f'<p class="warn" role="alert">{escape(str(error))}</p>'
        parts = [f'<p class="warn">{escape(note)}</p>'] * bool(note)
        for group in groups:
            rows, count = group.rows, SHOWN
            if group.heading == _STORED and words:
                rows, count = [row for row in rows if _matches(row.label, words)], SEARCHED
            number = f"{min(count, len(rows)):,} of {len(rows):,}" if len(rows) > count else f"{len(rows):,}"
            items = "".join(self._bar(*row) for row in rows[:count])
            parts.append(f"<h3>{group.heading} <small>{number}</small></h3><ul>{items}</ul>")
        return "".join([*parts, f"<p>{self._explain(single) if text.strip() else 'Type a text to score it.'}</p>"])

    def groups(
        self, text: str, typed: str, stored: bool, single: bool, language: str | None
    ) -> tuple[list[Group], str]:
        """Scores labels; arguments are as in `bars`.

        Returns:
            The typed labels and the labels of the page, and the note of the pipeline, if any.

        Raises:
            ValueError: If the text or the labels are too long, there are no labels, or the pipeline refuses them.
        """
        if len(text) > TEXT_LENGTH:
            raise ValueError(
                f"The text has {len(text):,} characters, more than {TEXT_LENGTH:,}. Shorten it, or score it with "
                "hf-gile score, which has no limit."
            )
        new, existing = read_labels(typed), self.labels if stored else None
        if new is None and existing is None:
            raise ValueError("There are no labels: type some, one per line.")
        if not text.strip():
            return [Group(_STORED, [Scored(label, 0, "") for label in existing], existing)] if existing else [], ""
        options = {"multi_label": not single, "language": language}
        if single and new and existing:  # a softmax over both
            ids, texts = set(existing.ids), set(existing.texts)
            added = [label for label in new if label.id not in ids and label.text not in texts]
            both, note = self._scored(text, LabelSet([*existing, *added]), options)
            typed_rows = [row for row in both.rows if row.label.id not in ids]
            rows = [row for row in both.rows if row.label.id in ids]
            groups = [Group(_TYPED, typed_rows, both.candidates), Group(_STORED, rows, both.candidates)]
            return [group for group in groups if group.rows], note
        scored = [self._scored(text, labels, options) for labels in (new, existing) if labels]
        return [group for group, _ in scored], scored[0][1]

    def heat_map(self, text: str, typed: str, stored: bool, single: bool, language: str | None) -> str:
        """Renders the words of a text, shaded by their weights for the best label; arguments are as in `bars`."""
        if not text.strip():
            return ""
        groups, _ = self.groups(text, typed, stored, single, language)
        group = max(groups, key=lambda group: group.rows[0].probability)
        options, best = {"multi_label": not single, "language": language}, group.rows[0]
        try:
            (answer,) = self.pipe([text], group.candidates, return_evidence=True, top_k=1, **options)
        except ValueError:  # the model has no attention
            record = self._occlude(text, best, group, options)
            name = f"<b dir=auto>{escape(best.label.name)}</b>"
            meaning = f"how much the probability of {name} falls without the word"
        else:
            sentences = answer["evidence"]["sentences"]
            words, weights = ([[pair[part] for pair in sentence["words"]] for sentence in sentences] for part in (0, 1))
            record = _record(words, weights, [sentence["weight"] for sentence in sentences])
            meaning = "the attention of the model to a word, which is the same for all labels"
        return f"<h3>Evidence</h3><div class=heat>{render_words(record)}</div><p>Shade: {meaning}.</p>"

    def _occlude(self, text: str, best: Scored, group: Group, options: dict[str, Any]) -> AttentionRecord:
        """Weights words by how much the probability falls without them; words of long texts are grouped.

        This is occlusion, or representation erasure (Li, Monroe and Jurafsky, 2016, arXiv:1612.08220).
        """
        words = text.split()
        size = -(-len(words) // OCCLUSIONS)
        starts = range(0, len(words), size)
        candidates, name = group.candidates, best.name
        if options["multi_label"] and self.pipe.model.config.output_layer != "linear":
            candidates, name = LabelSet([best.label]), best.label.name  # other labels have no effect
        texts = [text, *(" ".join(words[:start] + words[start + size :]) for start in starts)]
        answers = self.pipe(texts, candidates, batch_size=16, **options)
        whole, *parts = (answer["scores"][answer["labels"].index(name)] for answer in answers)
        falls = [max(0.0, whole - part) for part in parts]
        return _record([words], [[falls[position // size] for position in range(len(words))]], [1.0])

    def _scored(self, text: str, labels: LabelSet, options: dict[str, Any]) -> tuple[Group, str]:
        """Scores a text against labels, and returns the note of the pipeline as well."""
        candidates = None if labels is self.labels and self.passed_labels is None else labels
        self.pipe.call_count = 0  # prevents a warning of Transformers about sequential calls on a GPU
        (answer,) = self.pipe([text], candidates, **options)
        by_name = dict(zip(labels.id2label().values(), labels, strict=True))
        pairs = zip(answer["labels"], answer["scores"], strict=True)
        rows = [Scored(by_name[name], score, name) for name, score in pairs]
        return Group(_STORED if labels is self.labels else _TYPED, rows, candidates), answer.get("note", "")

    def _bar(self, label: Label, probability: float, name: str) -> str:
        """Renders a label with its ancestors and its probability."""
        names = " > ".join(self._ancestors(label))
        ancestors = f"<small dir=auto>{escape(names)}</small>" if names else ""
        percent = ("<0.1%" if probability < 0.001 else f"{probability:.1%}") if name else ""
        bar = f'<i style="--a:{probability:.4f}"></i>' if name else ""
        content = f"{ancestors}<span dir=auto>{escape(label.name)}</span>{bar}"
        return f'<li title="{escape(label.description)}"><div>{content}</div><b>{escape(percent)}</b></li>'

    def _ancestors(self, label: Label) -> list[str]:
        """Returns the names of the ancestors of a label, from the top, by the first parent that the page has."""
        path = [label]
        while parent := next((self.by_id[key] for key in path[0].broader if key in self.by_id), None):
            if parent in path:  # a cycle
                break
            path.insert(0, parent)
        return [ancestor.name for ancestor in path[:-1]]

    def _explain(self, single: bool) -> str:
        """Explains the probabilities."""
        calibrated = self.pipe.model.config.calibration
        trust = "Probabilities are calibrated." if calibrated else "The model is not calibrated: trust the order more."
        kind = "One label fits: probabilities add up to 100%." if single else "Each label is scored independently."
        return f"{kind} {trust}"


def make_space(
    pipe: LabelScoringPipeline,
    labels: LabelSet | None = None,
    title: str = "Score text with labels",
) -> "Blocks":
    """Creates the page, to be served by its `launch()`.

    Args:
        pipe: Pipeline that scores texts.
        labels: The labels to search and score in addition to typed labels; by default those stored with the model. The
            ancestors of a label by `Label.broader` are shown above its name.
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

    page, config = Page(pipe, labels), pipe.model.config
    count, languages = len(page.labels or ()), list(config.languages)
    with gr.Blocks(analytics_enabled=False, title=title) as blocks:
        gr.HTML(f"<style>{_STYLE}</style><h1>{escape(title)}</h1>", apply_default_css=False)
        with gr.Row():
            with gr.Column():
                text = gr.Textbox("" if count else _TEXT, label="Text", lines=6, max_lines=14, elem_id="text")
                typed = gr.Textbox(
                    "" if count else _LABELS,
                    label="Your labels",
                    info="One per line. A description follows a colon or a tab.",
                    lines=4,
                    max_lines=12,
                    elem_id="labels",
                )
                stored = gr.Checkbox(
                    bool(count), label=f"and the {count:,} labels of the vocabulary", visible=bool(count)
                )
                single = gr.Checkbox(
                    config.problem_type == "single_label_classification", label="Exactly one label fits"
                )
                language = gr.Dropdown(
                    languages, value=(languages or [None])[0], label="Language", visible=bool(languages)
                )
                score = gr.Button("Score", variant="primary", elem_id="score")
                with gr.Row():
                    name = gr.Textbox("", label="Another label", elem_id="name", min_width=120)
                    description = gr.Textbox("", label="What it means", elem_id="description", min_width=120)
                add = gr.Button("Add and score", elem_id="add")
            with gr.Column():
                search = gr.Textbox("", label="Find in the vocabulary", visible=bool(count), elem_id="search")
                bars = gr.HTML(elem_id="bars", elem_classes="gile", apply_default_css=False)
                heat = gr.HTML(elem_id="heat", elem_classes="gile", apply_default_css=False)
        fields, outputs = [text, typed, stored, single, language, search], [bars, heat]
        gr.on([blocks.load, score.click, stored.input, single.input, language.input], page.answer, fields, outputs)
        gr.on([search.change], page.bars, fields, [bars], trigger_mode="always_last", show_progress="hidden")
        label = [typed, name, description]
        gr.on([add.click, name.submit, description.submit], add_label, label, label).then(page.answer, fields, outputs)
    return blocks


def add_label(typed: str, name: str, description: str) -> tuple[str, str, str]:
    r"""Appends a label to the typed labels.

    Args:
        typed: Typed labels, see `read_labels`.
        name: Name of the new label; if empty, nothing changes.
        description: Description of the new label.

    Returns:
        The new values of the three fields.

    Example:
        >>> add_label("Iron", "Milk, Human", "breast milk")
        ('Iron\nMilk, Human: breast milk', '', '')
    """
    name, description = " ".join(name.split()), " ".join(description.split())
    if not name:
        return typed, name, description
    line = f"{name}: {description}" if description else name
    return f"{typed.rstrip()}\n{line}".lstrip("\n"), "", ""


def _record(words: list[list[str]], weights: list[list[float]], sentence_weights: list[float]) -> AttentionRecord:
    """Returns a record of word and sentence weights, without labels."""
    return {"text": words, "watts": weights, "satts": sentence_weights, "gold_tags": [], "tags": []}


def _matches(label: Label, words: list[str]) -> bool:
    """Checks whether the name, synonyms and id of a label contain all words."""
    text = " ".join([label.name, *label.synonyms, label.id]).casefold()
    return all(word in text for word in words)


_TYPED, _STORED = "Your labels", "The vocabulary"

_TEXT = "My parcel was due on Monday. It has not come yet, and nobody answers the phone."

_LABELS = """delivery: where a parcel is and when it comes
invoice: bills and payments
password: how to log in"""

_STYLE = """
:root, .gradio-container { --font: system-ui, -apple-system, "Segoe UI", sans-serif; }
.gradio-container h1 { font-size: 1.35rem; font-weight: 600; margin: 0; }
.gile { --line: var(--border-color-primary); --bar: var(--color-accent); color: var(--body-text-color); }
.gile { --soft: color-mix(in srgb, var(--body-text-color) 65%, transparent); }
.gile h3 { font-size: 1rem; font-weight: 600; margin: .6rem 0 .4rem; }
.gile small, .gile p { color: var(--soft); font-size: .85rem; font-weight: 400; margin: 0; }
.gile ul { list-style: none; margin: 0; padding: 0; }
.gile li { display: grid; grid-template-columns: 1fr 3.6rem; column-gap: .8rem; align-items: end; margin: 0 0 .6rem; }
.gile li > div { min-width: 0; }
.gile li small { display: block; line-height: 1.2; }
.gile li span { overflow-wrap: anywhere; }
.gile li b { text-align: right; font-weight: 500; font-variant-numeric: tabular-nums; line-height: 1; }
.gile i { display: block; height: 6px; border-radius: 3px; background: var(--line); overflow: hidden; }
.gile i::after { content: ""; display: block; height: 100%; width: calc(100% * var(--a)); background: var(--bar); }
.gile .heat p { color: inherit; font-size: 1rem; line-height: 1.8; margin: 0 0 .4rem; overflow-wrap: anywhere; }
.gile .heat p span { background: rgb(255 171 46 / calc(.75 * var(--a))); border-radius: 3px; padding: .1em .12em; }
.gile .heat p span { margin: 0 -.1em; }
.gile .heat > div { display: grid; grid-template-columns: 3.2rem 1fr; column-gap: 1rem; }
.gile aside { padding-top: .7rem; text-align: right; line-height: 1; }
.gile .warn { border-left: 4px solid var(--error-icon-color); color: inherit; font-size: 1rem; padding: .3rem .8rem; }
"""
