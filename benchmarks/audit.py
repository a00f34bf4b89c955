"""Does `hf-gile audit` find the errors of a collection? One heading in ten is taken out, and as many are put in.

    python benchmarks/audit.py --data FOLDER --model pubmed_mesh=KEPT/pubmed_mesh-1/runs/auto/model --cache FOLDER

The model is the default of `hf-gile train` (see benchmarks/kept_scores.py). It was trained on the training documents as
they are; the documents audited are those of the test, which it never saw. A tenth of their headings is taken out, and
as many are put into documents drawn alike:

    frequent    a heading drawn by its frequency in training, plus one
    sibling     a heading that has a parent in common with one of the document, as cataloguers confuse them

A ranking is right where it names a heading that was put in, or that was taken out. The headings of the collection are
those of its indexers, who leave some out as well: what they left out counts as an error of the ranking.

Rankings: the audit; the cosine of TF-IDF, name plus best text of a label; the frequency of labels in training (rare
ones are wrong, frequent ones missing); and chance. Precision at k, means over the seeds.

`documents`: corrections needed in the first k documents of the queue, each; beside documents with the most headings
first, and all. `drift`: one collection is half of the documents as they are; in the other half, of 30 labels drawn of
those with 10 documents or more there, half of the uses are another label. Both labels drift; the share of such labels
among the first 30, by the audit and by the difference of shares alone.

Writes results/audit.json, keyed by set; sets that are not run stay.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kept_scores import Kept, measure_each, multi_hot, parse
from obvious_sets import read_lines
from obvious_systems import batches, tfidf_cosine
from torch import Tensor

from hf_gile.audit import Audit, Auditor, drift

SHARE = 0.1
SEEDS = [1, 2, 3]
AT = (100, 300, 1000)
DOCUMENTS = (100, 300)
DRIFTING = 30


def main() -> None:
    options = parse(__doc__)

    def figures(kept: Kept) -> dict[str, Any]:
        parents = mesh_parents(options.data) if kept.task.name == "pubmed_mesh" else {}
        return measure(kept, parents, options.documents)

    measure_each(options, "audit", SEEDS, figures)


def mesh_parents(data: Path) -> dict[str, set[str]]:
    """The tree numbers above each heading of MeSH."""
    rows = read_lines(data / "mesh" / "mesh_labels.jsonl.gz")
    return {row["ui"]: {number.rpartition(".")[0] for number in row["tree"]} - {""} for row in rows}


def measure(kept: Kept, parents: Mapping[str, set[str]], most: int) -> dict[str, Any]:
    """The figures of a set."""
    task, number = kept.task, len(kept.task.labels)
    texts, gold = task.texts["test"][:most], multi_hot(task.gold["test"][:most], number)
    probabilities = kept.probabilities("test", most)
    cosine = tfidf_cosine(task, described=any(task.other_texts))
    counts = torch.tensor([label.count for label in task.labels]).double()
    scorers: dict[str, Callable[[slice, torch.Generator], Tensor]] = {
        "audit": lambda rows, _: probabilities[rows],
        "tfidf_cosine": lambda rows, _: cosine(texts[rows]),
        # Chance decides between documents, which it all the same to a frequency.
        "frequency": lambda rows, chance: (
            counts + 0.5 * torch.rand(len(texts[rows]), number, generator=chance, dtype=torch.double)
        ),
        "chance": lambda rows, chance: torch.rand(len(texts[rows]), number, generator=chance),
    }
    siblings = siblings_of([label.id for label in task.labels], parents)
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for kind in ("frequent", "sibling") if parents else ("frequent",):
        for seed in SEEDS:
            noisy = corrupted(gold, counts, siblings if kind == "sibling" else {}, seed)
            runs[kind].append(compared(gold, noisy, scorers, seed))
    return {
        "documents": len(texts),
        "labels": number,
        "headings": int(gold.sum()),
        "corrupted": {kind: mean(own) for kind, own in runs.items()},
        "drift": mean([drifted(probabilities, gold, counts, seed) for seed in SEEDS]),
    }


def siblings_of(ids: list[str], parents: Mapping[str, set[str]]) -> dict[int, list[int]]:
    """Of each column those with a parent in common."""
    of_parent = defaultdict(list)
    for column, label_id in enumerate(ids):
        for parent in parents.get(label_id, ()):
            of_parent[parent].append(column)
    return {
        column: sorted({one for parent in parents.get(label_id, ()) for one in of_parent[parent]} - {column})
        for column, label_id in enumerate(ids)
    }


def corrupted(gold: Tensor, counts: Tensor, siblings: Mapping[int, list[int]], seed: int) -> Tensor:
    """`(N, L)` headings of which some were taken out, and as many put in."""
    generator = np.random.default_rng(seed)
    cells = gold.nonzero().numpy()
    size = round(SHARE * len(cells))
    noisy = gold.clone()
    out = cells[generator.choice(len(cells), size, replace=False)]
    noisy[out[:, 0], out[:, 1]] = False
    shares = (counts + 1).numpy() / float((counts + 1).sum())
    left = size
    while left:
        row, column = cells[generator.integers(len(cells))]
        near = siblings.get(int(column), [])
        new = int(generator.choice(near)) if near else int(generator.choice(len(shares), p=shares))
        if not gold[row, new] and not noisy[row, new]:
            noisy[row, new] = True
            left -= 1
    return noisy


def audited(scores: Callable[[slice], Tensor], labels: Tensor, most: int) -> Audit:
    """The audit of documents by any scores, more for what is more probable."""
    auditor = Auditor(labels.shape[1], most)
    for rows in batches(len(labels)):
        auditor.update(scores(rows), labels[rows])
    return auditor.compute()


def compared(
    gold: Tensor, noisy: Tensor, scorers: Mapping[str, Callable[[slice, torch.Generator], Tensor]], seed: int
) -> dict[str, Any]:
    """Precision at k of each ranking, and what the queue of documents is worth."""
    put_in, taken_out = noisy & ~gold, gold & ~noisy
    wanted = int(put_in.sum())
    found: dict[str, Any] = {"wrong": {}, "missing": {}}
    for name, scores in scorers.items():
        chance = torch.Generator().manual_seed(seed)
        audit = audited(lambda rows, own=scores, drawn=chance: own(rows, drawn), noisy, max(*AT, wanted))
        for kind, cells in (("wrong", put_in), ("missing", taken_out)):
            hits = torch.tensor([bool(cells[one.document, one.column]) for one in getattr(audit, kind)]).double()
            found[kind][name] = {f"precision_at_{k}": float(hits[:k].mean()) for k in AT}
            found[kind][name]["precision_at_number"] = float(hits[:wanted].mean())
        if name == "audit":
            errors = (put_in | taken_out).sum(1).double()
            queues = {"audit": audit.corrections, "most_headings": noisy.sum(1).double()}
            orders = {queue: numbers.argsort(descending=True, stable=True) for queue, numbers in queues.items()}
            found["corrections"] = {
                queue: {f"first_{k}": float(errors[order[:k]].mean()) for k in DOCUMENTS}
                for queue, order in orders.items()
            } | {"all": {f"first_{k}": float(errors.mean()) for k in DOCUMENTS}}
    # Of what is drawn by chance, this share is right.
    found["share"] = {"wrong": wanted / int(noisy.sum()), "missing": wanted / int((~noisy).sum())}
    found["number"] = wanted
    return found


def drifted(probabilities: Tensor, gold: Tensor, counts: Tensor, seed: int) -> dict[str, Any]:
    """How many of the labels that drift are named, by the audit and by the difference of shares."""
    generator = np.random.default_rng(seed)
    order = torch.from_numpy(generator.permutation(len(gold)))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    used = gold[second].sum(0)
    drawn = generator.choice((used >= 10).nonzero()[:, 0].numpy(), DRIFTING, replace=False)
    changed = gold[second].clone()
    shares = (counts + 1).numpy() / float((counts + 1).sum())
    wanted = set(drawn.tolist())
    for column in drawn:
        rows = changed[:, column].nonzero()[:, 0].numpy()
        rows = generator.choice(rows, len(rows) // 2, replace=False)
        changed[rows, int(column)] = False
        new = int(generator.choice(len(shares), p=shares))
        changed[rows, new] = True
        wanted.add(new)
    audits = [
        audited(lambda rows, own=own: probabilities[own[rows]], labels, 1)
        for own, labels in ((first, gold[first]), (second, changed))
    ]
    by_audit = [one.column for one in drift(*audits, most=DRIFTING)]
    flat = [
        Audit([], [], one.corrections, one.used, torch.full_like(one.expected, float(len(one.corrections))))
        for one in audits
    ]
    by_share = [one.column for one in drift(*flat, most=DRIFTING)]
    return {name: len(wanted & set(own)) / DRIFTING for name, own in (("audit", by_audit), ("share", by_share))}


def mean(runs: list[Any]) -> Any:
    """The means of runs of the same shape, number by number."""
    if isinstance(runs[0], dict):
        return {name: mean([run[name] for run in runs]) for name in runs[0]}
    return sum(runs) / len(runs)


if __name__ == "__main__":
    main()
