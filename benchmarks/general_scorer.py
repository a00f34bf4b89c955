"""What the terms of the general scorer count, and what they gain on sets that their weights were not fitted on.

    python benchmarks/general_scorer.py --data FOLDER --wordnet FOLDER

Each set is ranked with weights fitted on all the others, beside the cosine of the same encoder: "alone", and "centred",
by the mean of 50 validation documents. Documents are of training parts; where labels are many, candidates are those of
the documents and 500 others. Definitions of MeSH and of WordNet (Debian's wordnet-base) are fitted on as well.
Writes results/general_scorer.json, the weights of all into the package, hf_gile/training/general_scorer.json, and the
card.
"""

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import RESULTS, provenance, write_json
from obvious_sets import Task, clinc150, pubmed_mesh, read_lines, sib200, tibkat
from torch import Tensor
from torch.nn import functional

from hf_gile import GileForSequenceClassification, GileProcessor, Label, LabelSet
from hf_gile.metrics import LabelMetrics
from hf_gile.training.general import common, general_scorer

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
OTHERS_TOO = ("clinc150", "sib200_english", "sib200_german", "sib200_russian", "tibkat_english", "tibkat_german")
ENCODERS = {
    "sentence-transformers/all-MiniLM-L6-v2": (["An English text."], ENGLISH),
    "intfloat/multilingual-e5-small": (["Ein deutscher Text über Bücher und Bibliotheken."], OTHERS_TOO),
}
"""Texts in a language of the encoder, and sets to fit on."""

_KINDS = """
    act animal artifact attribute body cognition communication event feeling food group location motive natural_object
    person phenomenon plant possession process quantity relation shape state substance time
"""
KINDS = dict(enumerate((kind.replace("_", " ") for kind in _KINDS.split()), start=4))
"""The files of nouns, as lexnames(5WN) numbers them."""

PHRASES = "pubmed_mesh, 40 headings"
DOCUMENTS, OTHERS, BACKGROUND = 200, 500, 50
WAYS = ("alone", "centred")
WEIGHTS = Path(__file__).parents[1] / "hf_gile" / "training" / "general_scorer.json"

CARD = Path(__file__).parents[1] / "model_cards" / "gile-general" / "README.md"

Sample = tuple[list[str], list[list[int]], list[Label], list[str]]
"""Texts, their gold labels counted among candidates, these, and other documents of the set."""

Terms = dict[str, Tensor]
"""Of each way `(N, L, 3)`: cosine, match and coverage."""


def main() -> None:
    """Measures and fits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="The folder of the sets.")
    parser.add_argument("--wordnet", type=Path, required=True, help="The folder of data.noun.")
    parser.add_argument("--encoders", nargs="+", choices=[*ENCODERS], default=[*ENCODERS])
    parser.add_argument("--results", type=Path, default=RESULTS / "general_scorer.json")
    options = parser.parse_args()
    results, made_of = {}, provenance(seed=0)
    for encoder in options.encoders:
        texts, names = ENCODERS[encoder]
        print(encoder, flush=True)
        samples: dict[str, Sample] = {}
        for name in names:
            task = SETS[name](options.data)
            samples[name] = sampled(task)
            if name == "pubmed_mesh":  # few labels of long texts: the same documents
                samples[PHRASES] = few_labels(task)
        vocabularies = {"mesh, definitions": mesh_definitions(options.data), **wordnet(options.wordnet)}
        results[encoder] = measured(*general_scorer(texts), samples, vocabularies)
        write_json(options.results, {"encoders": results, **made_of})
    before = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    write_json(WEIGHTS, before | {encoder: found["weights"] for encoder, found in results.items()})
    CARD.parent.mkdir(exist_ok=True)
    CARD.write_text(card(results), encoding="utf-8")


def measured(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    samples: dict[str, Sample],
    vocabularies: dict[str, Sample],
) -> dict[str, Any]:
    """The figures of each set with weights of the others, and the weights of all."""
    examples: dict[str, tuple[Terms, list[list[int]]]] = {}
    for name, sample in (samples | vocabularies).items():
        examples[name] = terms_of(model, processor, *sample), sample[1]
        print(name, len(sample[0]), "texts,", len(sample[2]), "labels", flush=True)
    sets: dict[str, Any] = {}
    for name in samples:
        terms, gold = examples[name]
        sets[name] = {"cosine": figures(terms["alone"][..., 0], gold)}
        others = [example for other, example in examples.items() if set_of(other) != set_of(name)]
        for way in WAYS:
            some = [(its[way], columns) for its, columns in others]
            scores = terms[way] @ fitted(some)
            sets[name][way] = figures(scores, gold) | {"calibration_error": calibration_error(scores, gold)}
        print(
            name, {way: {key: round(100 * number, 1) for key, number in its.items()} for way, its in sets[name].items()}
        )
    ratios = {
        way: {
            figure: float(np.mean([its[way][figure] / its["cosine"][figure] for its in sets.values()]))
            for figure in ("average_precision", "precision_at_1")
        }
        for way in WAYS
    }
    weights = {}
    for way in WAYS:
        every = [(its[way], columns) for its, columns in examples.values()]
        found = fitted(every)
        numbers = [float(f"{number:.3g}") for number in (*found.tolist(), offset(every, found))]
        weights[way] = dict(zip(("cosine", "match", "coverage", "offset"), numbers, strict=True))
    print(ratios, weights, flush=True)
    return {"sets": sets, "mean_ratio": ratios, "weights": weights}


def mesh_definitions(data: Path) -> Sample:
    """Definitions of MeSH headings, and the headings; those that its makers took from WordNet are left out."""
    rows = [row for row in read_lines(data / "mesh" / "mesh_labels.jsonl.gz") if row["definition"]]
    rows = [row for row in rows if "wordnet" not in str(row.get("definition_source")).lower()]
    rows = random.Random(5).sample(rows, DOCUMENTS + OTHERS)
    labels = [Label(row["ui"], row["name"], synonyms=tuple(dict.fromkeys(row["synonyms"]))) for row in rows]
    return definitions([row["definition"] for row in rows], labels)


def definitions(texts: list[str], labels: list[Label]) -> Sample:
    """Texts of labels, the first of which are documents, and the last the other documents."""
    return texts[:DOCUMENTS], [[row] for row in range(DOCUMENTS)], labels, texts[-BACKGROUND:]


def wordnet(folder: Path) -> dict[str, Sample]:
    """Glosses of nouns: the words that they are of, and the files that its makers sorted them into."""
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
    some = [(text, kinds.index(kind)) for kind in kinds for text, its in by_kind if its == kind]
    of_each = {kind: [row for row in some if row[1] == kind][:16] for kind in range(len(kinds))}
    documents = [row for rows in of_each.values() for row in rows[:12]]
    background = [text for rows in of_each.values() for text, _ in rows[12:]]
    sample = [text for text, _ in documents], [[kind] for _, kind in documents], list(LabelSet.from_names(kinds))
    glosses = [gloss for _, gloss in drawn[: DOCUMENTS + OTHERS]]
    return {"wordnet, words": definitions(glosses, labels), "wordnet, kinds": (*sample, background)}


def set_of(name: str) -> str:
    """The set that a task is of, in whatever language."""
    return name.partition(",")[0].partition("_")[0].replace("pubmed", "mesh")


def sampled(task: Task) -> Sample:
    """Documents of the training part that have a label, and candidates, with gold columns among these."""
    rows = [row for row, gold in enumerate(task.gold["train"]) if gold]
    rows = random.Random(0).sample(rows, min(DOCUMENTS, len(rows)))
    used = sorted({column for row in rows for column in task.gold["train"][row]})
    rest = sorted(set(range(len(task.labels))) - set(used))
    columns = used + random.Random(1).sample(rest, min(OTHERS, len(rest)))
    return among(task, rows, columns)


def few_labels(task: Task) -> Sample:
    """Documents that have one of 40 labels which are neither rare nor frequent."""
    some = [column for column, label in enumerate(task.labels) if 200 <= label.count <= 1500]
    columns = some[:: max(1, len(some) // 40)][:40]
    rows = [row for row, gold in enumerate(task.gold["train"]) if set(gold) & set(columns)]
    return among(task, random.Random(0).sample(rows, DOCUMENTS), columns)


def among(task: Task, rows: Sequence[int], columns: Sequence[int]) -> Sample:
    """Some documents of the training part with some labels, and documents of the validation part."""
    place = {column: number for number, column in enumerate(columns)}
    gold = [[place[column] for column in task.gold["train"][row] if column in place] for row in rows]
    others = task.texts["validation"]
    background = random.Random(2).sample(others, min(BACKGROUND, len(others)))
    return [task.texts["train"][row] for row in rows], gold, [task.labels[column] for column in columns], background


@torch.no_grad()
def terms_of(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    texts: list[str],
    gold: list[list[int]],
    labels: list[Label],
    background: list[str],
) -> Terms:
    """What the texts of a sample have in common with its labels."""
    gile, postings = model.gile, model.gile.postings(LabelSet(labels))
    assert postings is not None
    names = [label.name for label in labels]
    words = [processor(label_text=names[start : start + 64], return_tensors="pt") for start in range(0, len(names), 64)]
    codes = functional.normalize(torch.cat([gile.embed_labels(its["label_input_ids"]) for its in words]), dim=-1)
    parts = []
    for start in range(0, len(texts), 16):
        batch = processor(texts[start : start + 16], return_tensors="pt")
        ids = batch.pop("lexical_ids")
        h = functional.normalize(gile.embed_texts(**batch)[0], dim=-1)
        parts.append(torch.stack([h @ codes.T, *postings.terms(ids)[:2]], -1))
    alone = torch.cat(parts)
    centred = alone.clone()
    centred[..., 0] -= codes @ (common(model, processor, background) / model.config.document_size**0.5)
    return {"alone": alone, "centred": centred}


def fitted(examples: Sequence[tuple[Tensor, list[list[int]]]]) -> Tensor:
    """`(3,)` weights that give gold labels the best softmax, each set counting alike."""
    weights = torch.tensor([10.0, 0.1, 1.0], requires_grad=True)  # cosine, match, coverage
    optimizer = torch.optim.LBFGS([weights], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = 1e-4 * weights.square().sum() + 100 * weights.clamp(max=0).square().sum()
        for terms, gold in examples:
            logs = torch.log_softmax(terms @ weights, 1)
            of_documents = [logs[row, columns].mean() for row, columns in enumerate(gold)]
            total = total - torch.stack(of_documents).mean() / np.log(logs.shape[1])
        total.backward()
        return total

    optimizer.step(loss)
    return weights.detach()


def offset(examples: Sequence[tuple[Tensor, list[list[int]]]], weights: Tensor) -> float:
    """What to add so that a sigmoid is right where half of the labels are gold, each set counting alike."""
    trials = torch.linspace(-60, 5, 651)
    total = torch.zeros(len(trials))
    for terms, gold in examples:
        scores, is_gold = terms @ weights, torch.zeros(terms.shape[:2], dtype=torch.bool)
        for row, columns in enumerate(gold):
            is_gold[row, columns] = True
        for place, number in enumerate(trials):
            logs = -functional.softplus(torch.where(is_gold, -1.0, 1.0) * (scores + number))
            total[place] -= logs[is_gold].mean() + logs[~is_gold].mean()
    return float(trials[total.argmin()])


def calibration_error(scores: Tensor, gold: list[list[int]]) -> float:
    """The expected calibration error of the best label's probability by a softmax, in ten bins."""
    probabilities, best = scores.softmax(1).max(1)
    right = torch.tensor([int(column) in row for column, row in zip(best, gold, strict=True)]).float()
    bins = (probabilities * 10).long().clamp(max=9)
    return sum(float((right - probabilities)[bins == place].sum().abs()) for place in range(10)) / len(gold)


def figures(scores: Tensor, gold: list[list[int]]) -> dict[str, float]:
    """Average precision and precision at 1."""
    metric = LabelMetrics(scores.shape[1], top_k=(1,))
    width = max(map(len, gold))
    metric.update(scores, torch.tensor([row + [-100] * (width - len(row)) for row in gold]))
    computed = metric.compute()
    return {name: computed[name] for name in ("average_precision", "precision_at_1")}


def card(results: dict[str, Any]) -> str:
    """The model card, model_cards/gile-general/README.md."""
    tables, metadata = "", ""
    for encoder, found in results.items():
        name = encoder.partition("/")[2]
        tables += f"\n| {name} | cosine | alone | centred | P@1 cosine | alone | centred | calibration error |\n"
        tables += "|" + " --- |" * 8 + "\n"
        for key, ways in found["sets"].items():
            numbers = [ways[way][figure] for figure in FIGURES for way in ("cosine", *WAYS)]
            numbers.append(ways["centred"]["calibration_error"])
            tables += f"| {key} | " + " | ".join(f"{100 * number:.1f}" for number in numbers) + " |\n"
            metadata += CARD_RESULT.format(name=name, set=key, value=ways["centred"]["average_precision"])
        ratios = [f"{found['mean_ratio'][way][figure]:.3f}" for figure in FIGURES for way in WAYS]
        tables += "| mean, relative to the cosine | 1 | {} | {} | 1 | {} | {} | |\n".format(*ratios)
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

Scores any labels of any texts, and nobody trains it:

    score = a cos(h, e) - a m . e + b match + c coverage + d

h and e are text and label as a pretrained encoder reads them: all-MiniLM-L6-v2 for English, multilingual-e5-small for
others. match and coverage are the words that they share, whose rarity the tokenizer's vocabulary tells. m is what
documents like those to score have in common, if the user has some: without them it is zero ("alone"), with them
the scorer is "centred". a, b, c and d were fitted once, for each encoder and both ways, and are all that was learned.

```python
import hf_gile
from transformers import pipeline

pipe = pipeline("label-scoring")  # alone
pipe("The parcel has not come yet.", candidate_labels=["delivery", "invoice", "password"])

from hf_gile import LabelScoringPipeline
from hf_gile.training import general_scorer

messages = ["Where is my parcel?", "I cannot log in.", "Please send the bill again."]  # and some fifty more
model, processor = general_scorer(documents=messages)
pipe = LabelScoringPipeline(model, processor=processor)  # centred
```

## What it reaches

Percent; each set is ranked with weights fitted on all the others, and MeSH never helps MeSH. Columns 2 to 4 are average
precision. The calibration error is that of the best label's probability, centred, over 200 documents. Centred: by 50
documents of the validation part.
TABLES

Documents are of training parts. `python benchmarks/general_scorer.py --data FOLDER --wordnet FOLDER` measures and
fits, and writes this page.

## Limits

- One of the labels is right, says the softmax. With `multi_label=True` a probability of a half is where right and
  wrong labels are as likely if there are as many of both: tune a threshold where many labels compete.
- Where texts have many labels, as of MeSH, the softmax shares its probability among them: the best label is right more
  often than it says.
- Words that short texts share with labels tell little, and count in proportion to the length of texts below 50 words.
- A long text is read up to 256 tokens by the encoder; its words all count.
- With labelled documents, `hf-gile train` makes a better model.

## Made of

| what | used for | licence |
| --- | --- | --- |
| all-MiniLM-L6-v2 | encoder | Apache 2.0 |
| multilingual-e5-small | encoder | MIT |
| CLINC150 | weights | CC BY 3.0 |
| SIB-200 | weights | Apache 2.0, as its repository has it |
| abstracts of MEDLINE, MeSH | weights | terms of the National Library of Medicine |
| records of TIBKAT with subjects of the GND | weights | CC BY 4.0 |
| WordNet 3.0, glosses of nouns | weights | WordNet 3.0 license |

Nothing of these sets is in the model but eight numbers of each encoder. A saved model holds its encoder and 4.8 MB: a
table of how rare words are, and m. EuroVoc was left out: of it there are names alone, and no texts that have them.
Weights of multilingual-e5-small are of an earlier fit, without centring and without WordNet, where no table shows it.
"""


if __name__ == "__main__":
    main()
