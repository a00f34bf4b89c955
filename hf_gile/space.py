"""A page to try a model with: texts and labels in, probabilities and a heat map out (extra `space`: Gradio).

Whatever is typed, or stands in a label, is text in the page and never markup.
"""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from .attention import AttentionRecord, shaded
from .extras import needs_extra
from .models import Label, LabelScoringPipeline, LabelSet

if TYPE_CHECKING:
    from gradio import Blocks

TEXT_LENGTH = 20_000
"""Characters of a text that the page takes."""

NUM_LABELS = 1_000
"""Labels that can be typed at a time."""

LABEL_LENGTH = 2_000
"""Characters of a typed label with its description."""

SHOWN, SEARCHED = 10, 50
"""Bars of a group of labels, without a search and with one."""

LEFT_OUT = 64
"""Passes of the text encoder for a heat map of a model without attention."""


class Scored(NamedTuple):
    """A label with its probability, and the name that the pipeline calls it by."""

    label: Label
    probability: float
    name: str


class Group(NamedTuple):
    """Labels under a heading, best first, and the candidates of the call that scored them."""

    heading: str
    rows: list[Scored]
    candidates: LabelSet | None


def read_labels(typed: str) -> LabelSet | None:
    r"""Reads labels as people type or paste them: one a line, a description behind a tab, or a colon and a space.

    Args:
        typed: The lines.

    Returns:
        The labels, with their names as ids; None if nothing is typed.

    Raises:
        ValueError: More labels or a longer one than the page takes, or a name with two descriptions.

    Example:
        >>> [(label.name, label.description) for label in read_labels("Milk, Human: breast milk\nIron\tFe, a metal")]
        [('Milk, Human', 'breast milk'), ('Iron', 'Fe, a metal')]
    """
    lines = [(number, line.strip()) for number, line in enumerate(typed.splitlines(), 1) if line.strip()]
    if len(lines) > NUM_LABELS:
        raise ValueError(
            f"The page takes {NUM_LABELS:,} labels, and these are {len(lines):,}. Leave some out, or put them into a "
            "file for hf-gile score --label-file, which takes any number."
        )
    described: dict[str, str] = {}
    for number, line in lines:
        if len(line) > LABEL_LENGTH:
            raise ValueError(
                f"The label in line {number} has {len(line):,} characters; the page takes {LABEL_LENGTH:,}: shorten it."
            )
        name, _, description = line.partition("\t" if "\t" in line else ": ")
        name, description = name.strip(), description.strip()
        if described.setdefault(name, description) != description:
            raise ValueError(f"The label {name!r} in line {number} has another description above: change its name.")
    return LabelSet.from_names(described) if described else None


class Page:
    """What the page answers, as HTML.

    Args:
        pipe: Scores texts.
        labels: The labels to search and score; by default those stored with the model, if any are.
    """

    def __init__(self, pipe: LabelScoringPipeline, labels: LabelSet | None = None) -> None:
        self.pipe, self.given = pipe, labels
        self.labels: LabelSet | None = labels or pipe.model.label_set
        self.by_id = {label.id: label for label in self.labels or ()}

    def answer(self, *fields: Any) -> Iterator[tuple[str, str]]:
        """Bars at once, and then with the heat map; `fields` are those of `groups`, with the search behind them."""
        bars = self.bars(*fields)
        yield bars, ""
        try:
            yield bars, self.heat_map(*fields[:-1])
        except ValueError:  # which the bars say
            yield bars, ""

    def bars(self, text: str, typed: str, stored: bool, one: bool, language: str | None, search: str) -> str:
        """The labels of a text with their probabilities.

        Args:
            text: The text.
            typed: Labels, see `read_labels`.
            stored: Whether the page's labels count, too.
            one: Whether exactly one label is right.
            language: Of texts and labels, in a model of several.
            search: Words that must stand in names, synonyms or ids of those of the page's labels that are shown.
        """
        words = search.casefold().split()
        try:
            groups, note = self.groups(text, typed, stored, one, language)
        except ValueError as error:
            return f'<p class="warn" role="alert">{escape(str(error))}</p>'
        parts = [f'<p class="warn">{escape(note)}</p>'] * bool(note)
        for group in groups:
            rows, count = group.rows, SHOWN
            if group.heading == _STORED and words:
                rows, count = [row for row in rows if _matches(row.label, words)], SEARCHED
            of = f"{min(count, len(rows)):,} of {len(rows):,}" if len(rows) > count else f"{len(rows):,}"
            items = "".join(self._bar(*row) for row in rows[:count])
            parts.append(f"<h3>{group.heading} <small>{of}</small></h3><ul>{items}</ul>")
        return "".join([*parts, f"<p>{self._kind(one) if text.strip() else 'Type a text to score it.'}</p>"])

    def groups(self, text: str, typed: str, stored: bool, one: bool, language: str | None) -> tuple[list[Group], str]:
        """Scores labels; the arguments are those of `bars`.

        Returns:
            The typed labels and the page's, and a note of the pipeline, if there is one.

        Raises:
            ValueError: A text or labels that the page does not take, or the pipeline.
        """
        if len(text) > TEXT_LENGTH:
            raise ValueError(
                f"The text has {len(text):,} characters; the page takes {TEXT_LENGTH:,}. Shorten it, or score it with "
                "hf-gile score, which takes any."
            )
        new, own = read_labels(typed), self.labels if stored else None
        if new is None and own is None:
            raise ValueError("There is no label: type some, one a line.")
        if not text.strip():
            return [Group(_STORED, [Scored(label, 0, "") for label in own], own)] if own else [], ""
        options = {"multi_label": not one, "language": language}
        if one and new and own:  # they share one probability
            ids, texts = set(own.ids), set(own.texts)
            added = [label for label in new if label.id not in ids and label.text not in texts]
            together, note = self._scored(text, LabelSet([*own, *added]), options)
            typed_rows = [row for row in together.rows if row.label.id not in ids]
            rows = [row for row in together.rows if row.label.id in ids]
            groups = [Group(_TYPED, typed_rows, together.candidates), Group(_STORED, rows, together.candidates)]
            return [group for group in groups if group.rows], note
        scored = [self._scored(text, labels, options) for labels in (new, own) if labels]
        return [group for group, _ in scored], scored[0][1]

    def heat_map(self, text: str, typed: str, stored: bool, one: bool, language: str | None) -> str:
        """The words of a text, shaded by what they count for its best label; the arguments are those of `bars`."""
        if not text.strip():
            return ""
        groups, _ = self.groups(text, typed, stored, one, language)
        group = max(groups, key=lambda group: group.rows[0].probability)
        options, best = {"multi_label": not one, "language": language}, group.rows[0]
        try:
            (answer,) = self.pipe([text], group.candidates, return_evidence=True, top_k=1, **options)
        except ValueError:  # the model has no attention
            record = self._by_leaving_out(text, best, group, options)
            name = f"<b dir=auto>{escape(best.label.name)}</b>"
            what = f"how much the probability of {name} falls without the word"
        else:
            sentences = answer["evidence"]["sentences"]
            words, weights = ([[pair[part] for pair in one["words"]] for one in sentences] for part in (0, 1))
            record = _record(words, weights, [one["weight"] for one in sentences])
            what = "the attention of the model to a word, which is the same for all labels"
        return f"<h3>Evidence</h3><div class=heat>{shaded(record)}</div><p>Shade: {what}.</p>"

    def _by_leaving_out(self, text: str, best: Scored, group: Group, options: dict[str, Any]) -> AttentionRecord:
        """Leaves out words, or runs of words of a long text, and looks what becomes of a probability.

        This is occlusion, or representation erasure (Li, Monroe and Jurafsky, 2016, arXiv:1612.08220).
        """
        words = text.split()
        size = -(-len(words) // LEFT_OUT)
        starts = range(0, len(words), size)
        candidates, name = group.candidates, best.name
        if options["multi_label"] and self.pipe.model.config.output_layer != "linear":
            candidates, name = LabelSet([best.label]), best.label.name  # the others change nothing
        texts = [text, *(" ".join(words[:start] + words[start + size :]) for start in starts)]
        answers = self.pipe(texts, candidates, batch_size=16, **options)
        whole, *parts = (answer["scores"][answer["labels"].index(name)] for answer in answers)
        falls = [max(0.0, whole - part) for part in parts]
        return _record([words], [[falls[place // size] for place in range(len(words))]], [1.0])

    def _scored(self, text: str, labels: LabelSet, options: dict[str, Any]) -> tuple[Group, str]:
        candidates = None if labels is self.labels and self.given is None else labels
        self.pipe.call_count = 0  # else Transformers advises, on a GPU, against calls with a few texts
        (answer,) = self.pipe([text], candidates, **options)
        by_name = dict(zip(labels.id2label().values(), labels, strict=True))
        pairs = zip(answer["labels"], answer["scores"], strict=True)
        rows = [Scored(by_name[name], score, name) for name, score in pairs]
        return Group(_STORED if labels is self.labels else _TYPED, rows, candidates), answer.get("note", "")

    def _bar(self, label: Label, probability: float, name: str) -> str:
        names = " > ".join(self._above(label))
        above = f"<small dir=auto>{escape(names)}</small>" if names else ""
        share = ("<0.1%" if probability < 0.001 else f"{probability:.1%}") if name else ""
        bar = f'<i style="--a:{probability:.4f}"></i>' if name else ""
        shown = f"{above}<span dir=auto>{escape(label.name)}</span>{bar}"
        return f'<li title="{escape(label.description)}"><div>{shown}</div><b>{escape(share)}</b></li>'

    def _above(self, label: Label) -> list[str]:
        """The names above a label, from the top; of several parents the first one that the page has."""
        above = [label]
        while parent := next((self.by_id[one] for one in above[0].broader if one in self.by_id), None):
            if parent in above:  # a circle
                break
            above.insert(0, parent)
        return [one.name for one in above[:-1]]

    def _kind(self, one: bool) -> str:
        calibrated = self.pipe.model.config.calibration
        trust = "Probabilities are calibrated." if calibrated else "The model is not calibrated: trust the order more."
        return f"{'One label fits: all add up to 100%.' if one else 'Each label is scored for itself.'} {trust}"


def make_space(
    pipe: LabelScoringPipeline,
    labels: LabelSet | None = None,
    title: str = "Score text with labels",
) -> "Blocks":
    """Makes the page; its `launch()` serves it.

    Args:
        pipe: Scores texts.
        labels: The labels to search and score beside those that are typed; by default those stored with the model.
            Those above a label by `Label.broader` stand over its name.
        title: Stands above all.

    Raises:
        ImportError: The extra `space` is not installed.

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
                    info="One a line. A description follows a colon or a tab.",
                    lines=4,
                    max_lines=12,
                    elem_id="labels",
                )
                stored = gr.Checkbox(
                    bool(count), label=f"and the {count:,} labels of the vocabulary", visible=bool(count)
                )
                one = gr.Checkbox(config.problem_type == "single_label_classification", label="Exactly one label fits")
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
        fields, shown = [text, typed, stored, one, language, search], [bars, heat]
        gr.on([blocks.load, score.click, stored.input, one.input, language.input], page.answer, fields, shown)
        gr.on([search.change], page.bars, fields, [bars], trigger_mode="always_last", show_progress="hidden")
        of_new = [typed, name, description]
        gr.on([add.click, name.submit, description.submit], add_label, of_new, of_new).then(page.answer, fields, shown)
    return blocks


def add_label(typed: str, name: str, description: str) -> tuple[str, str, str]:
    r"""Writes another label behind those that are typed.

    Args:
        typed: Labels, see `read_labels`.
        name: Of the new label; where it is empty, nothing changes.
        description: Of the new label.

    Returns:
        What the three fields hold afterwards.

    Example:
        >>> add_label("Iron", "Milk, Human", "breast milk")
        ('Iron\nMilk, Human: breast milk', '', '')
    """
    name, description = " ".join(name.split()), " ".join(description.split())
    if not name:
        return typed, name, description
    line = f"{name}: {description}" if description else name
    return f"{typed.rstrip()}\n{line}".lstrip("\n"), "", ""


def _record(words: list[list[str]], weights: list[list[float]], of_sentences: list[float]) -> AttentionRecord:
    return {"text": words, "watts": weights, "satts": of_sentences, "gold_tags": [], "tags": []}


def _matches(label: Label, words: list[str]) -> bool:
    where = " ".join([label.name, *label.synonyms, label.id]).casefold()
    return all(word in where for word in words)


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
