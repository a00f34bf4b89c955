"""Measures how well `hf-gile audit` finds errors: one heading in ten is removed, and as many wrong ones are inserted.

    python benchmarks/audit.py --data FOLDER --model pubmed_mesh=MODELS/pubmed_mesh-1/runs/auto/model --cache FOLDER

The model is the default of `hf-gile train` (see benchmarks/saved_models.py). It was trained on unchanged training
documents; the audit reads test documents, which the model never saw. A tenth of their headings is removed, and as many
headings are inserted into documents drawn by their number of headings. An inserted heading is drawn in one of two ways:

    frequent    by its training frequency plus one
    sibling     among the headings that share a parent with a heading of the document, as a cataloguer may confuse them

A ranking scores a hit when it names an inserted or a removed heading. The indexers of the collection also missed some
headings: naming these counts as an error of the ranking.

Four rankings are compared: the audit; the TF-IDF cosine of the document and the label (its name plus its best other
text); the training frequency of labels (a rare label is suspected to be wrong, a frequent label to be missing); and
chance. Figures are precision at k, averaged over the seeds.

`corrections` is the mean number of errors in the first k documents of the queue, compared with a queue that starts with
the documents with the most headings, and with all documents. `drift` compares two halves of the documents. The first is
unchanged. In the second, 30 labels are drawn among those with at least 10 documents there, and half of the uses of each
are replaced by another label. Both labels drift. The figure is the share of such labels among the first 30, ranked by
the audit and by the difference of shares alone. The halves are drawn at random, or (`topics`) by the first principal
component of the gold labels plus as much noise, so that topics differ between them.

Writes results/audit.json, keyed by data set. Entries of other data sets are preserved.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from obvious_sets import read_lines
from obvious_systems import batches, tfidf_cosine
from saved_models import SavedModel, measure_each, multi_hot, parse
from torch import Tensor

from hf_gile.audit import Audit, Auditor, drift

SHARE = 0.1
SEEDS = [1, 2, 3]
AT = (100, 300, 1000)
DOCUMENTS = (100, 300)
DRIFTING = 30
SPLITS = ("random", "topics")


def main() -> None:
    options = parse(__doc__)

    def figures(saved: SavedModel) -> dict[str, Any]:
        parents = mesh_parents(options.data) if saved.task.name == "pubmed_mesh" else {}
        return measure(saved, parents, options.documents)

    measure_each(options, "audit", SEEDS, figures)


def mesh_parents(data: Path) -> dict[str, set[str]]:
    """Maps each MeSH heading to the tree numbers of its parents."""
    rows = read_lines(data / "mesh" / "mesh_labels.jsonl.gz")
    return {row["ui"]: {number.rpartition(".")[0] for number in row["tree"]} - {""} for row in rows}


def measure(saved: SavedModel, parents: Mapping[str, set[str]], limit: int) -> dict[str, Any]:
    """Measures the audit of the first test documents of a data set."""
    task, num_labels = saved.task, len(saved.task.labels)
    texts, gold = task.texts["test"][:limit], multi_hot(task.gold["test"][:limit], num_labels)
    probabilities = saved.probabilities("test", limit)
    cosine = tfidf_cosine(task, described=any(task.other_texts))
    counts = torch.tensor([label.count for label in task.labels]).double()
    scorers: dict[str, Callable[[slice, torch.Generator], Tensor]] = {
        "audit": lambda rows, _: probabilities[rows],
        "tfidf_cosine": lambda rows, _: cosine(texts[rows]),
        # A label has the same frequency in every document, so random numbers break ties.
        "frequency": lambda rows, generator: (
            counts + 0.5 * torch.rand(len(texts[rows]), num_labels, generator=generator, dtype=torch.double)
        ),
        "chance": lambda rows, generator: torch.rand(len(texts[rows]), num_labels, generator=generator),
    }
    siblings = siblings_of([label.id for label in task.labels], parents)
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for kind in ("frequent", "sibling") if parents else ("frequent",):
        for seed in SEEDS:
            noisy = corrupted(gold, counts, siblings if kind == "sibling" else {}, seed)
            runs[kind].append(compared(gold, noisy, scorers, seed))
    return {
        "documents": len(texts),
        "labels": num_labels,
        "headings": int(gold.sum()),
        "corrupted": {kind: mean(by_seed) for kind, by_seed in runs.items()},
        "drift": {
            split: mean([drifted(probabilities, gold, counts, split, seed) for seed in SEEDS]) for split in SPLITS
        },
    }


def siblings_of(ids: list[str], parents: Mapping[str, set[str]]) -> dict[int, list[int]]:
    """Maps each column to the columns that share a parent with it."""
    children = defaultdict(list)
    for column, label_id in enumerate(ids):
        for parent in parents.get(label_id, ()):
            children[parent].append(column)
    return {
        column: sorted({child for parent in parents.get(label_id, ()) for child in children[parent]} - {column})
        for column, label_id in enumerate(ids)
    }


def corrupted(gold: Tensor, counts: Tensor, siblings: Mapping[int, list[int]], seed: int) -> Tensor:
    """Returns `(N, L)` headings, some of them removed and as many inserted."""
    generator = np.random.default_rng(seed)
    cells = gold.nonzero().numpy()
    size = round(SHARE * len(cells))
    noisy = gold.clone()
    removed = cells[generator.choice(len(cells), size, replace=False)]
    noisy[removed[:, 0], removed[:, 1]] = False
    shares = (counts + 1).numpy() / float((counts + 1).sum())
    remaining = size
    while remaining:
        row, column = cells[generator.integers(len(cells))]
        near = siblings.get(int(column), [])
        new = int(generator.choice(near)) if near else int(generator.choice(len(shares), p=shares))
        if not gold[row, new] and not noisy[row, new]:
            noisy[row, new] = True
            remaining -= 1
    return noisy


def audited(scores: Callable[[slice], Tensor], labels: Tensor, limit: int) -> Audit:
    """Audits documents by any scores that grow with the probability of a label."""
    auditor = Auditor(labels.shape[1], limit)
    for rows in batches(len(labels)):
        auditor.update(scores(rows), labels[rows])
    return auditor.compute()


def compared(
    gold: Tensor, noisy: Tensor, scorers: Mapping[str, Callable[[slice, torch.Generator], Tensor]], seed: int
) -> dict[str, Any]:
    """Measures precision at k of each ranking, and how many errors the queue of documents puts first."""
    inserted, removed = noisy & ~gold, gold & ~noisy
    num_inserted = int(inserted.sum())
    figures: dict[str, Any] = {"wrong": {}, "missing": {}}
    for name, score in scorers.items():
        generator = torch.Generator().manual_seed(seed)
        audit = audited(
            lambda rows, score=score, generator=generator: score(rows, generator), noisy, max(*AT, num_inserted)
        )
        for kind, cells in (("wrong", inserted), ("missing", removed)):
            hits = torch.tensor([bool(cells[entry.document, entry.column]) for entry in getattr(audit, kind)]).double()
            figures[kind][name] = {f"precision_at_{k}": float(hits[:k].mean()) for k in AT}
            figures[kind][name]["precision_at_number"] = float(hits[:num_inserted].mean())
        if name == "audit":
            errors = (inserted | removed).sum(1).double()
            queues = {"audit": audit.corrections, "most_headings": noisy.sum(1).double()}
            orders = {queue: numbers.argsort(descending=True, stable=True) for queue, numbers in queues.items()}
            figures["corrections"] = {
                queue: {f"first_{k}": float(errors[order[:k]].mean()) for k in DOCUMENTS}
                for queue, order in orders.items()
            } | {"all": {f"first_{k}": float(errors.mean()) for k in DOCUMENTS}}
    # The expected precision of a random draw.
    figures["share"] = {"wrong": num_inserted / int(noisy.sum()), "missing": num_inserted / int((~noisy).sum())}
    figures["number"] = num_inserted
    return figures


def drifted(probabilities: Tensor, gold: Tensor, counts: Tensor, split: str, seed: int) -> dict[str, Any]:
    """Measures the share of drifting labels among the first labels, by the audit and by the difference of shares."""
    generator = np.random.default_rng(seed)
    order = torch.from_numpy(generator.permutation(len(gold)))
    if split == "topics":
        axis = torch.pca_lowrank(gold.float(), q=2, niter=4)[0][:, 0]
        order = order[(axis[order] + axis.std() * torch.from_numpy(generator.normal(size=len(order)))).argsort()]
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    uses = gold[second].sum(0)
    drawn = generator.choice((uses >= 10).nonzero()[:, 0].numpy(), DRIFTING, replace=False)
    changed = gold[second].clone()
    shares = (counts + 1).numpy() / float((counts + 1).sum())
    drifting = set(drawn.tolist())
    for column in drawn:
        rows = changed[:, column].nonzero()[:, 0].numpy()
        rows = generator.choice(rows, len(rows) // 2, replace=False)
        changed[rows, int(column)] = False
        new = int(generator.choice(len(shares), p=shares))
        changed[rows, new] = True
        drifting.add(new)
    audits = [
        audited(lambda rows, half=half: probabilities[half[rows]], labels, 1)
        for half, labels in ((first, gold[first]), (second, changed))
    ]
    by_audit = [label.column for label in drift(*audits, most=DRIFTING)]
    flat = [
        Audit([], [], audit.corrections, audit.used, torch.full_like(audit.expected, float(len(audit.corrections))))
        for audit in audits
    ]
    by_share = [label.column for label in drift(*flat, most=DRIFTING)]
    return {
        name: len(drifting & set(columns)) / DRIFTING for name, columns in (("audit", by_audit), ("share", by_share))
    }


def mean(runs: list[Any]) -> Any:
    """Averages runs of the same structure, number by number."""
    if isinstance(runs[0], dict):
        return {name: mean([run[name] for run in runs]) for name in runs[0]}
    return sum(runs) / len(runs)


if __name__ == "__main__":
    main()
