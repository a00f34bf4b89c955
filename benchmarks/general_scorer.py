"""Chooses the weights of the general scorer and measures their gain on data sets that did not influence the choice.

    apt-cache dumpavail > packages.txt
    python benchmarks/general_scorer.py --data FOLDER --wordnet FOLDER --packages packages.txt --cache FOLDER

Each data set is ranked with the weights chosen on all other data sets, and compared with the cosine of the same
encoder. It is ranked twice: "alone", and "centred" by the mean of 50 validation documents, which also say how rare
words are. The weights of shared words are those with the largest gain in average precision relative to the cosine.
Every data set has the same influence, and gains above a tenth count as a tenth, so that no data set pays for another.
The mean is taken of all weights whose gain is within a thousandth of the largest, since chance decides among them.
Documents come from training parts: 200, or up to 1,000 if they are short. Of a large label set, the candidates are the
labels of the documents and 500 others. Weights are also chosen on definitions of MeSH and WordNet (Debian's
wordnet-base) and on tags of Debian packages.

Writes results/general_scorer.json, the final weights (chosen on all data sets) to
hf_gile/training/general_scorer.json, and the model card.
"""

import argparse
import json
import random
import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from machine import RESULTS, provenance, write_json
from obvious_sets import Task, clinc150, pubmed_mesh, read_lines, sib200, tibkat
from obvious_systems import Encoder
from pictures import draw_all
from torch import Tensor
from torch.nn import functional

from hf_gile import Label, LabelSet
from hf_gile.metrics import LabelMetrics
from hf_gile.models.lexical_gile import LexicalFeatures, Postings, list_features, pad_features
from hf_gile.models.mixture_gile import WORD_TERMS
from hf_gile.training.encoders import LABEL_FRAME, best_text_encoder, prompt_of
from hf_gile.training.general import SHRINKAGE, document_idf

SETS: dict[str, Callable[[Path], Task]] = {
    "clinc150": lambda data: clinc150(data, 0),
    "sib200_english": lambda data: sib200(data, 0, "english"),
    "pubmed_mesh": lambda data: pubmed_mesh(data, 0),
    "tibkat_english": lambda data: tibkat(data, 0, "en"),
    "sib200_german": lambda data: sib200(data, 0, "german"),
    "sib200_russian": lambda data: sib200(data, 0, "russian"),
    "tibkat_german": lambda data: tibkat(data, 0, "de"),
}
ENGLISH = ("clinc150", "sib200_english", "pubmed_mesh", "tibkat_english")
DRAWS = 2
ENCODERS = {
    "sentence-transformers/all-MiniLM-L6-v2": (["An English text."], ENGLISH, DRAWS),
    "intfloat/multilingual-e5-small": (["Ein deutscher Text über Bücher und Bibliotheken."], tuple(SETS), 1),
}
"""Sample texts in a language of the encoder, data sets, and draws from each; e5 takes five times as long as MiniLM."""

_KINDS = """
    act animal artifact attribute body cognition communication event feeling food group location motive natural_object
    person phenomenon plant possession process quantity relation shape state substance time
"""
KINDS = dict(enumerate((kind.replace("_", " ") for kind in _KINDS.split()), start=4))
"""Names of the WordNet noun files by their numbers in lexnames(5WN)."""

FACETS = ("use", "field", "works-with", "game", "network", "hardware", "security", "web", "mail", "sound", "science")
"""Facets of Debian tags that describe the topic of a package."""

PHRASES = "pubmed_mesh, 40 headings"
DOCUMENTS, OTHERS, BACKGROUND = 200, 500, 50
WAYS = ("alone", "centred")
COUNTS = tuple(product((0.0, 0.1, 0.2, 0.4, 0.8), (0.0, 0.5, 1.0, 2.0, 4.0)))
"""Candidate weights of match and coverage, in standard deviations of the cosines of a text."""

ENOUGH = 1.1
"""Gains of a data set above this ratio are ignored."""

AS_GOOD = 0.001
"""Choices whose mean ratios differ by less are equally good."""

WEIGHTS = Path(__file__).parents[1] / "hf_gile" / "training" / "general_scorer.json"

CARD = Path(__file__).parents[1] / "model_cards" / "gile-general" / "README.md"

Sample = tuple[list[str], list[list[int]], list[Label], list[str]]
"""Texts, gold labels as indices of candidates, candidates, and background documents of the same data set."""

Choice = tuple[float, float]
"""Weights of match and coverage; the cosine has weight 1."""


class Example(NamedTuple):
    """Holds the scoring terms of a sample.

    Args:
        cosines: `(N, L)` cosines by way, alone and centred, of labels read twice; and of their names alone.
        words: `(N, L, 2)`, match and coverage, by way.
        gold: Gold columns of each text.
    """

    cosines: dict[str, Tensor]
    words: dict[str, Tensor]
    gold: list[list[int]]

    def scores(self, choice: Choice, way: str) -> Tensor:
        """Returns `(N, L)` scores with the chosen weights."""
        return self.cosines[way] + self.words[way] @ torch.tensor(choice)


def main() -> None:
    """Chooses weights for each encoder and writes results, weights and card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--wordnet", type=Path, required=True, help="folder with data.noun")
    parser.add_argument("--packages", type=Path, required=True, help="output of apt-cache dumpavail")
    parser.add_argument("--cache", type=Path, required=True, help="folder of cached text vectors")
    parser.add_argument("--encoders", nargs="+", choices=[*ENCODERS], default=[*ENCODERS])
    parser.add_argument("--results", type=Path, default=RESULTS / "general_scorer.json")
    options = parser.parse_args()
    results, origin = {}, provenance(seed=0)
    vocabularies = {
        "mesh, definitions": mesh_definitions(options.data),
        **wordnet(options.wordnet),
        "debian, tags": packages(options.packages),
    }
    for name in options.encoders:
        texts, sets, draws = ENCODERS[name]
        available = best_text_encoder(texts)
        if available is None or available.name != name:
            raise SystemExit(f"{name} is not available")
        print(name, flush=True)
        samples: dict[str, list[Sample]] = {key: [sample] for key, sample in vocabularies.items()}
        for key in sets:
            task = SETS[key](options.data)
            samples[key] = [sampled(task, draw) for draw in range(draws)]
            if key == "pubmed_mesh":  # long texts with few candidates, from the same documents
                samples[PHRASES] = [few_labels(task, draw) for draw in range(draws)]
        encoder = Encoder(available.folder, prompt_of(name), options.cache)
        examples = {}
        for key, draws_of_key in samples.items():
            examples[key] = [terms_of(encoder, *sample) for sample in draws_of_key]
            print(key, *(tuple(example.cosines["alone"].shape) for example in examples[key]), flush=True)
        results[name] = measured(examples, [key for key in samples if key not in vocabularies])
        write_json(options.results, {"encoders": results, **origin})
    before = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    write_json(WEIGHTS, before | {name: result["weights"] for name, result in results.items()})
    CARD.parent.mkdir(exist_ok=True)
    CARD.write_text(card(results), encoding="utf-8")
    draw_all()


def measured(examples: dict[str, list[Example]], sets: Sequence[str]) -> dict[str, Any]:
    """Measures each data set with the weights chosen on the others, and chooses the final weights on all."""
    vocabularies = [example for name in examples if name not in sets for example in examples[name]]
    spread = float(np.mean([example.cosines["alone"].std(1).mean() for example in vocabularies]))
    choices = [(match * spread, coverage * spread) for match, coverage in COUNTS]
    gains = {
        name: np.mean([gains_of(example, choices) for example in draws], axis=0) for name, draws in examples.items()
    }
    rows: dict[str, Any] = {}
    for name in sets:
        others = [other for other in examples if set_of(other) != set_of(name)]
        choice = best_choice(choices, {other: gains[other] for other in others})
        scale = sharpness([example for other in others for example in examples[other]], choice)
        rows[name] = {
            "cosine": mean_of([figures(example.cosines["names"], example.gold) for example in examples[name]])
        }
        for way in WAYS:
            scored = [(scale * example.scores(choice, way), example.gold) for example in examples[name]]
            rows[name][way] = mean_of(
                [
                    figures(scores, gold) | {"calibration_error": calibration_error(scores, gold)}
                    for scores, gold in scored
                ]
            )
        rows[name]["chosen"] = {"match": choice[0], "coverage": choice[1], "scale": scale}
        print(name, rows[name], flush=True)
    ratios = {
        way: {
            figure: float(np.mean([row[way][figure] / row["cosine"][figure] for row in rows.values()]))
            for figure in FIGURES
        }
        for way in WAYS
    }
    choice = best_choice(choices, gains)
    all_examples = [example for draws in examples.values() for example in draws]
    scale = sharpness(all_examples, choice)
    values = [scale, *(scale * weight for weight in choice), offset(all_examples, choice, scale)]
    terms = zip(("cosine", "match", "coverage", "offset"), (float(f"{value:.3g}") for value in values), strict=True)
    weights = dict(terms)
    print(ratios, weights, flush=True)
    return {"sets": rows, "mean_ratio": ratios, "weights": weights}


def mean_of(rows: list[dict[str, float]]) -> dict[str, float]:
    """Returns the mean of each figure."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def gains_of(example: Example, choices: Sequence[Choice]) -> Any:
    """Returns `(C,)` average precisions of each choice relative to the cosine, averaged over both ways."""
    before = figures(example.cosines["names"], example.gold)["average_precision"]
    after = [
        np.mean([figures(example.scores(choice, way), example.gold)["average_precision"] for way in WAYS])
        for choice in choices
    ]
    return np.array(after) / before


def best_choice(choices: Sequence[Choice], gains: dict[str, Any]) -> Choice:
    """Returns the mean of all choices whose mean gain is within `AS_GOOD` of the largest.

    Data sets weigh the same, regardless of their number of tasks.
    """
    by_set: dict[str, list[Any]] = {}
    for name, ratios in gains.items():
        by_set.setdefault(set_of(name), []).append(np.minimum(ratios, ENOUGH))
    total = np.mean([np.mean(ratios, axis=0) for ratios in by_set.values()], axis=0)
    match, coverage = np.mean(np.array(choices)[total >= total.max() - AS_GOOD], axis=0)
    return float(match), float(coverage)


def sharpness(examples: Sequence[Example], choice: Choice) -> float:
    """Returns the factor of scores for which the softmax probability of the best label is best calibrated."""
    trials = np.geomspace(3, 300, 60)
    total = np.zeros(len(trials))
    for example, way in product(examples, WAYS):
        scores = example.scores(choice, way)
        right = is_right(scores, example.gold)
        for trial, factor in enumerate(trials):
            confidence = (factor * scores).softmax(1).amax(1).clamp(max=1 - 1e-6)
            total[trial] += float(functional.binary_cross_entropy(confidence, right))
    return float(trials[total.argmin()])


def is_right(scores: Tensor, gold: list[list[int]]) -> Tensor:
    """Returns `(N,)` values, 1 where the best label is gold and 0 elsewhere."""
    return torch.tensor([int(column) in row for column, row in zip(scores.argmax(1), gold, strict=True)]).float()


def mesh_definitions(data: Path) -> Sample:
    """Samples definitions of MeSH headings, with the headings as labels; skips definitions taken from WordNet."""
    rows = [row for row in read_lines(data / "mesh" / "mesh_labels.jsonl.gz") if row["definition"]]
    rows = [row for row in rows if "wordnet" not in str(row.get("definition_source")).lower()]
    rows = random.Random(5).sample(rows, DOCUMENTS + OTHERS)
    labels = [Label(row["ui"], row["name"], synonyms=tuple(dict.fromkeys(row["synonyms"]))) for row in rows]
    return definitions([row["definition"] for row in rows], labels)


def definitions(texts: list[str], labels: list[Label]) -> Sample:
    """Makes a sample of label texts: the first texts are documents, the last are background."""
    return texts[:DOCUMENTS], [[row] for row in range(DOCUMENTS)], labels, texts[-BACKGROUND:]


def wordnet(folder: Path) -> dict[str, Sample]:
    """Samples glosses of WordNet nouns in two tasks: predict the noun, and predict the file that contains it."""
    nouns = []
    for line in (folder / "data.noun").read_text(encoding="utf-8").splitlines():
        head, _, gloss = line.partition(" | ")
        fields, gloss = head.split(), gloss.partition('; "')[0].strip()
        words = [word.replace("_", " ") for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]] if gloss else []
        if len(gloss.split()) >= 6:
            nouns.append((KINDS.get(int(fields[1]), ""), words, gloss))
    drawn = list(
        {words[0].lower(): (words, gloss) for _, words, gloss in random.Random(3).sample(nouns, 1500)}.values()
    )
    labels = [Label(words[0], words[0], synonyms=tuple(words[1:])) for words, _ in drawn[: DOCUMENTS + OTHERS]]
    by_kind = [(f"{words[0]}: {gloss}", kind) for kind, words, gloss in random.Random(4).sample(nouns, 20000) if kind]
    kinds = sorted({kind for _, kind in by_kind})
    pairs = [(text, kinds.index(kind)) for kind in kinds for text, text_kind in by_kind if text_kind == kind]
    grouped = {kind: [pair for pair in pairs if pair[1] == kind][:16] for kind in range(len(kinds))}
    documents = [pair for group in grouped.values() for pair in group[:12]]
    background = [text for group in grouped.values() for text, _ in group[12:]]
    sample = [text for text, _ in documents], [[kind] for _, kind in documents], list(LabelSet.from_names(kinds))
    glosses = [gloss for _, gloss in drawn[: DOCUMENTS + OTHERS]]
    return {"wordnet, words": definitions(glosses, labels), "wordnet, kinds": (*sample, background)}


def set_of(name: str) -> str:
    """Returns the data set of a task, without its language."""
    return name.partition(",")[0].partition("_")[0].replace("pubmed", "mesh")


def packages(file: Path) -> Sample:
    """Samples descriptions of Debian packages, with the tags that describe their topics as labels."""
    rows: dict[str, list[str]] = {}
    for record in file.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*(?:\n .*)*)", record, re.MULTILINE))
        tags = [tag.strip().partition("::") for tag in fields.get("Tag", "").split(",")]
        about = [re.sub("[:-]+", " ", value) for facet, _, value in tags if facet in FACETS]
        if about and len(fields["Description"].split()) >= 4:
            rows[fields["Description"]] = about
    drawn = random.Random(7).sample(sorted(rows.items()), 2 * DOCUMENTS + BACKGROUND)
    names = sorted({name for _, about in drawn for name in about})
    texts = [text for text, _ in drawn]
    gold = [sorted({names.index(name) for name in about}) for _, about in drawn]
    return texts[:-BACKGROUND], gold[:-BACKGROUND], list(LabelSet.from_names(names)), texts[-BACKGROUND:]


def rows_of(task: Task, draw: int) -> list[int]:
    """Draws training documents that have a label."""
    rows = [row for row, gold in enumerate(task.gold["train"]) if gold]
    number = min(DOCUMENTS if task.titled else 5 * DOCUMENTS, len(rows) // DRAWS)
    return random.Random(0).sample(rows, DRAWS * number)[draw * number :][:number]


def sampled(task: Task, draw: int) -> Sample:
    """Samples documents; candidates are their labels and further labels."""
    rows = rows_of(task, draw)
    used = sorted({column for row in rows for column in task.gold["train"][row]})
    rest = sorted(set(range(len(task.labels))) - set(used))
    return among(task, rows, used + random.Random(draw + 1).sample(rest, min(OTHERS, len(rest))))


def few_labels(task: Task, draw: int) -> Sample:
    """Samples documents that have at least one of 40 labels of medium frequency."""
    medium = [column for column, label in enumerate(task.labels) if 200 <= label.count <= 1500]
    columns = medium[:: max(1, len(medium) // 40)][:40]
    return among(task, [row for row in rows_of(task, draw) if set(task.gold["train"][row]) & set(columns)], columns)


def among(task: Task, rows: Sequence[int], columns: Sequence[int]) -> Sample:
    """Makes a sample of training documents and candidate labels, with validation documents as background."""
    indices = {column: index for index, column in enumerate(columns)}
    gold = [[indices[column] for column in task.gold["train"][row] if column in indices] for row in rows]
    validation = task.texts["validation"]
    background = random.Random(2).sample(validation, min(BACKGROUND, len(validation)))
    return [task.texts["train"][row] for row in rows], gold, [task.labels[column] for column in columns], background


def terms_of(
    encoder: Encoder,
    texts: list[str],
    gold: list[list[int]],
    labels: list[Label],
    background: list[str],
) -> Example:
    """Computes the cosines and the word terms of a sample."""
    h = encoder(texts)
    names = encoder([label.name for label in labels])
    e = functional.normalize(names + encoder([LABEL_FRAME.format(label.name) for label in labels]), dim=-1)
    common = encoder(background).sum(0) / (len(background) + SHRINKAGE)
    cosines = {"names": h @ names.T, "alone": h @ e.T, "centred": (h - common) @ e.T}
    features = LexicalFeatures.of(pad_features(list_features(texts)))
    words = {}
    for way, documents in zip(WAYS, ([], background), strict=True):
        idf = torch.from_numpy(document_idf(encoder.tokenizer, documents))
        postings = Postings.build(labels, idf, torch.ones(len(WORD_TERMS), len(labels)))
        words[way] = postings.terms(features)[:2].permute(1, 2, 0)
    return Example(cosines, words, gold)


def offset(examples: Sequence[Example], choice: Choice, scale: float) -> float:
    """Returns the offset that calibrates a sigmoid if half of the labels are gold; examples weigh the same."""
    split = []
    for example, way in product(examples, WAYS):
        scores = scale * example.scores(choice, way)
        is_gold = torch.zeros_like(scores, dtype=torch.bool)
        for row, columns in enumerate(example.gold):
            is_gold[row, columns] = True
        split.append((scores[is_gold], scores[~is_gold]))
    low, high = -100.0, 100.0
    for _ in range(20):  # bisection: the slope falls as the offset grows
        middle = (low + high) / 2
        slope = sum(
            float((-right - middle).sigmoid().mean() - (wrong + middle).sigmoid().mean()) for right, wrong in split
        )
        low, high = (middle, high) if slope > 0 else (low, middle)
    return low


def calibration_error(scores: Tensor, gold: list[list[int]]) -> float:
    """Returns the expected calibration error of the best label's softmax probability, in ten bins."""
    confidence, right = scores.softmax(1).amax(1), is_right(scores, gold)
    bins = (confidence * 10).long().clamp(max=9)
    return sum(float((right - confidence)[bins == number].sum().abs()) for number in range(10)) / len(gold)


def figures(scores: Tensor, gold: list[list[int]]) -> dict[str, float]:
    """Measures average precision and precision at 1."""
    metric = LabelMetrics(scores.shape[1], top_k=(1,))
    width = max(map(len, gold))
    metric.update(scores, torch.tensor([row + [-100] * (width - len(row)) for row in gold]))
    computed = metric.compute()
    return {name: computed[name] for name in FIGURES}


def card(results: dict[str, Any]) -> str:
    """Returns the model card, model_cards/gile-general/README.md."""
    tables, metadata = "", ""
    for encoder, result in results.items():
        name = encoder.partition("/")[2]
        tables += f"\n| {name} | cosine | alone | centred | P@1 cosine | alone | centred | ECE alone | centred |\n"
        tables += "|" + " --- |" * 9 + "\n"
        for key, ways in result["sets"].items():
            numbers = [ways[way][figure] for figure in FIGURES for way in ("cosine", *WAYS)]
            numbers += [ways[way]["calibration_error"] for way in WAYS]
            tables += f"| {key} | " + " | ".join(f"{100 * number:.1f}" for number in numbers) + " |\n"
            metadata += CARD_RESULT.format(name=name, set=key, value=ways["centred"]["average_precision"])
        ratios = [f"{result['mean_ratio'][way][figure]:.3f}" for figure in FIGURES for way in WAYS]
        tables += "| mean, relative to the cosine | 1 | {} | {} | 1 | {} | {} | | |\n".format(*ratios)
        tables += "\nChosen on all of them: a {cosine:g}, b {match:g}, c {coverage:g}, d {offset:g}.\n".format(
            **result["weights"]
        )
    return CARD_TEXT.replace("METADATA\n", metadata).replace("TABLES\n", tables)


FIGURES = ("average_precision", "precision_at_1")

CARD_RESULT = """  - task:
      type: text-classification
    dataset:
      name: {set}
      type: {set}
    metrics:
    - type: average_precision
      value: {value:.5f}
      name: Average precision ({name})
"""

CARD_TEXT = """---
base_model:
- sentence-transformers/all-MiniLM-L6-v2
- intfloat/multilingual-e5-small
language:
- en
- multilingual
library_name: transformers
pipeline_tag: zero-shot-classification
tags:
- gile
- label-scoring
model-index:
- name: The general scorer of hf_gile
  results:
METADATA
---

# The general scorer of hf_gile

This model scores any text against any labels, without training:

    score = a cos(h, e) - a m . e + b match + c coverage + d

h and e are the vectors of text and label under a pretrained encoder: all-MiniLM-L6-v2 for English,
multilingual-e5-small for other languages. Each label is read twice, as it is and in "A text about {label}."; e is the
mean. match and coverage measure the words that both share, weighted by their rarity, which is estimated from the
tokenizer's vocabulary. m is the mean vector of documents like those to score.
Without such documents it is zero ("alone"); with them the scorer is "centred". a, b, c and d were chosen once per
encoder. Nothing else was learned.

```python
import hf_gile
from transformers import pipeline

pipe = pipeline("label-scoring")  # alone
pipe("The parcel has not come yet.", candidate_labels=["delivery", "invoice", "password"])

from hf_gile import LabelScoringPipeline
from hf_gile.training import general_scorer

messages = ["Where is my parcel?", "I cannot log in.", "Please send the bill again."]  # and about fifty more
model, processor = general_scorer(documents=messages)
pipe = LabelScoringPipeline(model, processor=processor)  # centred
```

## Figures

All figures are in percent. Each set is scored with weights chosen on the other sets, never on a set with the same
labels. Columns 2 to 4 are average precision; ECE is the expected calibration error of the best label's probability.
"Centred" uses 50 documents of the validation part. Figures are means of two draws (a single draw for e5) of 200
documents, or of up to 1,000 short documents.
TABLES

Documents come from training parts. `benchmarks/general_scorer.py` chooses the weights, measures them and writes this
page; its first lines explain how. b and c are the mean of those that gain most over the cosine, where gains above a
tenth count as a tenth. a makes the probability that a softmax gives its best label match how often that label is right.

## Limits

- The softmax assumes that exactly one label is right. With `multi_label=True`, a probability of one half assumes as
  many right labels as wrong ones: tune a threshold if many labels compete.
- Probabilities are calibrated on the mean of these sets, so they are too high on some and too low on others; see the
  ECE columns.
- In texts of under 50 words, shared words say little; they count in proportion to the length of the text.
- The encoder reads the first 256 tokens of a long text; the word terms read all of it.
- Nothing else that was tried gains on all sets. Labels read only in a sentence gain on topics and lose on intents.
  A bilinear map learned on the other sets loses on intents. The mean of documents from other sets helps on none.
- If you have labelled documents, `hf-gile train` gives a better model.

## Sources

| what | used for | licence |
| --- | --- | --- |
| all-MiniLM-L6-v2 | encoder | Apache 2.0 |
| multilingual-e5-small | encoder | MIT |
| CLINC150 | weights | CC BY 3.0 |
| SIB-200 | weights | Apache 2.0, according to its repository |
| abstracts of MEDLINE, MeSH | weights | terms of the National Library of Medicine |
| records of TIBKAT with subjects of the GND | weights | CC BY 4.0 |
| WordNet 3.0, glosses of nouns | weights | WordNet 3.0 license |
| descriptions and tags of Debian's packages | weights | as the Debian archive distributes them |

The model contains nothing of these sets except four numbers per encoder. A saved model contains its encoder and 4.8
MB: a table of word rarity, and m. EuroVoc is not used, because only its names were available, without texts.
"""


if __name__ == "__main__":
    main()
