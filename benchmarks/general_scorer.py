"""What the terms of the general scorer count, and what they gain on sets that their weights were not fitted on.

    python benchmarks/general_scorer.py --data FOLDER

Each set is ranked with weights fitted on all the others, beside the cosine of the same encoder. Documents are of
training and validation parts; where labels are many, candidates are those of the documents and 2,000 others.
Writes results/general_scorer.json.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import RESULTS, provenance, write_json
from obvious_sets import Task, clinc150, pubmed_mesh, sib200, tibkat
from torch import Tensor

from hf_gile import GileForSequenceClassification, GileProcessor, Label, LabelSet
from hf_gile.metrics import LabelMetrics
from hf_gile.training.general import general_scorer

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

PHRASES = "pubmed_mesh, 40 headings"
DOCUMENTS, OTHERS = 300, 2000


def main() -> None:
    """Measures and fits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="The folder of the sets.")
    parser.add_argument("--results", type=Path, default=RESULTS / "general_scorer.json")
    options = parser.parse_args()
    results = {}
    for encoder, (texts, names) in ENCODERS.items():
        print(encoder, flush=True)
        results[encoder] = measured(*general_scorer(texts), {name: SETS[name](options.data) for name in names})
    write_json(options.results, {"encoders": results, **provenance(seed=0)})


def measured(model: GileForSequenceClassification, processor: GileProcessor, tasks: dict[str, Task]) -> dict[str, Any]:
    """The figures of each set with weights of the others, and the weights of all."""
    examples = {}
    for name, task in tasks.items():
        examples[name] = terms_of(model, processor, *sampled(task))
        if name == "pubmed_mesh":  # few labels of long texts: the same documents
            examples[PHRASES] = terms_of(model, processor, *few_labels(task))
    sets = {}
    for name, (terms, gold) in examples.items():
        weights = fitted([example for other, example in examples.items() if set_of(other) != set_of(name)])
        sets[name] = {"cosine": figures(terms[..., 0], gold), "general": figures(terms @ weights, gold)}
        print(
            name, {way: {key: round(100 * value, 1) for key, value in own.items()} for way, own in sets[name].items()}
        )
    ratios = {
        figure: float(np.mean([own["general"][figure] / own["cosine"][figure] for own in sets.values()]))
        for figure in ("average_precision", "precision_at_1")
    }
    every = list(examples.values())
    weights = fitted(every)
    numbers = [float(f"{number:.3g}") for number in (*weights.tolist(), offset(every, weights))]
    chosen = dict(zip(("cosine", "match", "coverage", "offset"), numbers, strict=True))
    print(ratios, chosen, flush=True)
    return {"sets": sets, "mean_ratio": ratios, "weights": chosen}


def set_of(name: str) -> str:
    """The set that a task is of, in whatever language."""
    return name.partition(",")[0].partition("_")[0]


def sampled(task: Task) -> tuple[list[str], list[list[int]], list[Label]]:
    """Documents of the training part that have a label, and candidates, with gold columns among these."""
    rows = [row for row, gold in enumerate(task.gold["train"]) if gold]
    rows = random.Random(0).sample(rows, min(DOCUMENTS, len(rows)))
    used = sorted({column for row in rows for column in task.gold["train"][row]})
    rest = sorted(set(range(len(task.labels))) - set(used))
    columns = used + random.Random(1).sample(rest, min(OTHERS, len(rest)))
    return among(task, rows, columns)


def few_labels(task: Task) -> tuple[list[str], list[list[int]], list[Label]]:
    """Documents that have one of 40 labels which are neither rare nor frequent."""
    some = [column for column, label in enumerate(task.labels) if 200 <= label.count <= 1500]
    columns = some[:: max(1, len(some) // 40)][:40]
    rows = [row for row, gold in enumerate(task.gold["train"]) if set(gold) & set(columns)]
    return among(task, random.Random(0).sample(rows, DOCUMENTS), columns)


def among(task: Task, rows: Sequence[int], columns: Sequence[int]) -> tuple[list[str], list[list[int]], list[Label]]:
    """Texts, their gold labels counted among candidates, and these."""
    place = {column: number for number, column in enumerate(columns)}
    gold = [[place[column] for column in task.gold["train"][row] if column in place] for row in rows]
    return [task.texts["train"][row] for row in rows], gold, [task.labels[column] for column in columns]


@torch.no_grad()
def terms_of(
    model: GileForSequenceClassification, processor: GileProcessor, texts: list[str], gold: list[list[int]], labels: Any
) -> tuple[Tensor, list[list[int]]]:
    """`(N, L, 3)` cosine, match and coverage, and the gold columns."""
    gile = model.gile
    codes = torch.cat(
        [
            gile.embed_labels(
                processor(label_text=[one.name for one in labels[start : start + 64]], return_tensors="pt")[
                    "label_input_ids"
                ]
            )
            for start in range(0, len(labels), 64)
        ]
    )
    postings = gile.postings(LabelSet(labels))
    parts = []
    for start in range(0, len(texts), 16):
        batch = processor(texts[start : start + 16], return_tensors="pt")
        words = batch.pop("lexical_ids")
        h = torch.nn.functional.normalize(gile.embed_texts(**batch)[0], dim=-1)
        cosine = h @ torch.nn.functional.normalize(codes, dim=-1).T
        parts.append(torch.stack([cosine, *postings.terms(words)], -1))
    return torch.cat(parts), gold


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
            logs = -torch.nn.functional.softplus(torch.where(is_gold, -1.0, 1.0) * (scores + number))
            total[place] -= logs[is_gold].mean() + logs[~is_gold].mean()
    return float(trials[total.argmin()])


def figures(scores: Tensor, gold: list[list[int]]) -> dict[str, float]:
    """Average precision and precision at 1."""
    metric = LabelMetrics(scores.shape[1], top_k=(1,))
    width = max(map(len, gold))
    metric.update(scores, torch.tensor([row + [-100] * (width - len(row)) for row in gold]))
    computed = metric.compute()
    return {name: computed[name] for name in ("average_precision", "precision_at_1")}


if __name__ == "__main__":
    main()
