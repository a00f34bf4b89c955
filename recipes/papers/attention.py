"""Attention of a model over words and sentences: as records, as JSON, and as an HTML page.

A record describes a document in the format of the published visualisation (https://github.com/idiap/mhan):

    {"text": [["breast", "milk"], ["infants", "were", "fed"]],
     "watts": [[0.3, 0.7], [0.8, 0.1, 0.1]],
     "satts": [0.6, 0.4],
     "gold_tags": ["Milk, Human"],
     "tags": [["Milk, Human", 0.93], ["Infant", 0.52]]}

`text` has the words of each sentence, `watts` the weight of each word in its sentence, and `satts` the weight of each
sentence. A document without sentence boundaries is a single sentence. `tags` are the predicted labels with their
probabilities, and `gold_tags` the gold labels.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, TypedDict

import torch

from hf_gile import GileForSequenceClassification, GileProcessor, LabelScoringPipeline
from hf_gile.models.texts_gile import split_sentences
from hf_gile.tokenizing import normalizer_and_splitter

KINDS = ("wan", "han")
"""Text encoders over words with attention."""


class AttentionRecord(TypedDict):
    """Attention and predictions for a document, in the format shown above."""

    text: list[list[str]]
    watts: list[list[float]]
    satts: list[float]
    gold_tags: list[str]
    tags: list[list[Any]]


def explain(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    texts: str | Sequence[Any],
    gold: Sequence[Iterable[str]] | None = None,
    **options: Any,
) -> list[AttentionRecord]:
    """Scores texts with the label-scoring pipeline and records the attention of the model.

    Words are shown as the model reads them, in lower case. The model is put in evaluation mode.

    Args:
        model: A WAN or a HAN with a stored label set.
        processor: The processor of the model.
        texts: A text or a list of texts, in any form that the processor accepts.
        gold: Ids of the gold labels of each document.
        options: Further arguments of a `LabelScoringPipeline` call, such as `top_k` (5 by default), `threshold` and
            `language`.

    Returns:
        A record for each text.

    Raises:
        ValueError: If the model has no label set or no attention, a gold label is unknown, the numbers of gold lists
            and texts differ, there are no texts or they form a table, or an option is invalid.

    Example:
        records = explain(model, processor, ["Infants were fed with breast milk."], gold=[["D008895"]])
        Path("attention.html").write_text(heat_map(records), encoding="utf-8")
    """
    if model.label_set is None:
        raise ValueError("the model has no label set: call model.set_labels(label_set, processor)")
    text_config = model.config.text_config
    if text_config.text_encoder_type not in KINDS or text_config.pooling != "attention":
        raise ValueError(
            f"the text encoder {text_config.text_encoder_type!r} with pooling {text_config.pooling!r} has no attention "
            "to words: train a 'wan' or a 'han'"
        )
    texts = [texts] if isinstance(texts, str) else texts
    pipe = LabelScoringPipeline(model=model, processor=processor, device=model.device)
    answers = pipe(texts, **{"top_k": 5, **options})
    if gold is not None and len(gold) != len(answers):
        raise ValueError(f"expected gold labels for {len(answers)} texts, got {len(gold)}")
    names = model.label_set.id2label()
    records: list[AttentionRecord] = []
    for row, answer in enumerate(answers):
        words, weights, shares = _attention(model, processor, answer["sequence"], options.get("language"))
        columns = [] if gold is None else model.label_set.columns(gold[row])
        records.append(
            {
                "text": words,
                "watts": weights,
                "satts": shares,
                "gold_tags": [names[column] for column in columns],
                "tags": [[name, score] for name, score in zip(answer["labels"], answer["scores"], strict=True)],
            }
        )
    return records


@torch.no_grad()
def _attention(
    model: GileForSequenceClassification, processor: GileProcessor, text: str | list[str], language: str | None
) -> tuple[list[list[str]], list[list[float]], list[float]]:
    """Returns the words of each sentence that the model reads, their weights, and the weights of sentences."""
    sentences: Sequence[str] = text
    if isinstance(text, str):
        sentences = split_sentences(text) if processor.reads_sentences else [text]
    normalizer, splitter = normalizer_and_splitter()
    rows = [[word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(row))] for row in sentences]
    inputs = processor([text], language=language, return_tensors="pt").to(model.device)
    over_words, *over_sentences = model(**inputs, output_attentions=True).attentions
    weights = over_words[0].tolist() if over_sentences else over_words.tolist()
    shares = over_sentences[0][0].tolist() if over_sentences else [1.0]
    words = []
    word_weights = []
    for row, row_weights in zip(filter(None, rows), weights, strict=False):
        size = min(len(row), len(row_weights))
        words.append(row[:size])
        word_weights.append(row_weights[:size])
    return words, word_weights, shares[: len(words)]


def heat_map(records: AttentionRecord | Sequence[AttentionRecord], title: str | None = None) -> str:
    """Renders records as a self-contained HTML page.

    A word is shaded by its weight in the document, that is, its weight in the sentence times the weight of the
    sentence, relative to the largest. A bar next to each sentence shows its weight in the same way.

    Args:
        records: A record or several, from `explain` or read from JSON.
        title: Heading of the page.

    Returns:
        The page. All content of records is escaped.

    Example:
        >>> record = {"text": [["<b>", "milk"]], "watts": [[0.2, 0.8]], "satts": [1.0], "gold_tags": [], "tags": []}
        >>> '<span style="--a:0.25" title="20.0%">&lt;b&gt;</span>' in heat_map(record)
        True
    """
    articles = [_article(record) for record in ([records] if isinstance(records, dict) else records)]
    heading = [f"<h1 dir=auto>{escape(title)}</h1>"] if title else []
    return _PAGE.format(title=escape(title or "Attention"), style=_STYLE, body="\n".join([*heading, *articles]))


def _article(record: AttentionRecord) -> str:
    gold = record["gold_tags"]
    labels = []
    for name, probability in record["tags"]:
        share = float(probability)  # the published files store strings
        kind = ' class="hit"' if name in gold else ""
        labels.append(
            f"<li{kind}><b></b><span dir=auto>{escape(name)}</span>"
            f'<i style="--a:{share:.3f}"></i><small>{share:.1%}</small></li>'
        )
    predicted = {name for name, _ in record["tags"]}
    missed = " · ".join(f"<span dir=auto>{escape(name)}</span>" for name in gold if name not in predicted)
    sentences = _render_words(record)
    parts = ["<ul>", *labels, "</ul>"]
    if missed:
        parts.append(f"<p class=missed>Missed: {missed}</p>")
    return "\n".join(["<article>", *parts, sentences or "<p class=note>No words.</p>", "</article>"])


def _render_words(record: AttentionRecord) -> str:
    """Draws the words of a record as HTML for a page with a style for it; `heat_map` has one.

    Args:
        record: As for `heat_map`.

    Returns:
        A paragraph for each sentence, of words in `<span style="--a:SHARE">`; SHARE is 1 for the word with most weight.
        Of several sentences, each has a bar before it.
    """
    weights = [
        [sentence * word for word in words] for sentence, words in zip(record["satts"], record["watts"], strict=False)
    ]
    # "or 1": nothing is shaded if all weights are zero.
    most = max((weight for sentence in weights for weight in sentence), default=0) or 1
    longest = max(record["satts"], default=0) or 1
    sentences = []
    for words, shares, weight in zip(record["text"], weights, record["satts"], strict=False):
        spans = (
            f'<span style="--a:{share / most:.2f}" title="{share:.1%}">{escape(word)}</span>'
            for word, share in zip(words, shares, strict=False)
        )
        sentence = f"<p dir=auto>{' '.join(spans)}</p>"
        if len(weights) > 1:
            bar = f'<i style="--a:{weight / longest:.3f}"></i><small>{weight:.0%}</small>'
            sentence = f"<div><aside>{bar}</aside>{sentence}</div>"
        sentences.append(sentence)
    return "\n".join(sentences)


_PAGE = """<!doctype html>
<html lang="">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
<footer>Shade: weight of a word in its document, relative to the largest. Bar: weight of a sentence.</footer>
</body>
</html>
"""

_STYLE = """:root {
  color-scheme: light dark;
  --paper: #fffefb; --ink: #222; --soft: #767168; --line: #e6e2d9; --bar: #a8a294;
  --mark: 255 171 46; --hit: #14804a; --missed: #b3372b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #17171a; --ink: #ebe8e2; --soft: #98948b; --line: #34343a; --bar: #6f6c66;
    --mark: 186 92 0; --hit: #5fcf92; --missed: #ff8d7e;
  }
}
body {
  margin: 0 auto; padding: 3rem 1.5rem; max-width: 48rem; background: var(--paper); color: var(--ink);
  font: 1.06rem/1.8 Charter, "Iowan Old Style", "Source Serif 4", Georgia, serif;
}
h1 { font-size: 1.6rem; font-weight: 600; line-height: 1.3; margin: 0 0 2.5rem; }
article { border-top: 1px solid var(--line); padding: 1.8rem 0; }
ul, small, footer, .missed, .note {
  font-family: system-ui, -apple-system, "Segoe UI", sans-serif; font-size: .9rem; color: var(--soft);
}
small, footer { font-size: .75rem; font-variant-numeric: tabular-nums; }
ul {
  display: grid; grid-template-columns: 1rem fit-content(22rem) minmax(4rem, 12rem) auto; gap: .2rem .7rem;
  justify-content: start; align-items: center; margin: 0 0 1.2rem; padding: 0; line-height: 1.5;
}
li { display: contents; }
.hit b::before { content: "\\2713"; color: var(--hit); }
.hit span { color: var(--ink); font-weight: 600; }
.missed { margin-bottom: 1.4rem; }
.missed span { color: var(--missed); }
i { display: block; height: 4px; border-radius: 2px; background: var(--line); overflow: hidden; }
i::after { content: ""; display: block; height: 100%; width: calc(100% * var(--a)); background: var(--bar); }
.hit i::after { background: var(--hit); }
div { display: grid; grid-template-columns: 3.2rem 1fr; column-gap: 1.3rem; }
aside { padding-top: .75rem; text-align: right; line-height: 1; }
p { margin: 0 0 .55rem; overflow-wrap: anywhere; }
p span[style] { background: rgb(var(--mark) / var(--a)); border-radius: 3px; padding: .12em .14em; margin: 0 -.1em; }
footer { border-top: 1px solid var(--line); padding-top: 1rem; }
@media print { body { max-width: none; padding: 0; } * { print-color-adjust: exact; } }
"""
