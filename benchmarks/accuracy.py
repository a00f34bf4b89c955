"""Accuracy on labels seen in training and on others: ours and other systems, on the same texts, splits and labels.

    python benchmarks/accuracy.py --data FOLDER --sets pubmed_mesh --systems tfidf_cosine omikuji_parabel --seeds 1 2 3
    python benchmarks/accuracy.py --data FOLDER --systems minilm_cosine minilm_described --held_out 0.1
    python benchmarks/accuracy.py --table

The folder holds pubmed_mesh, mesh and tibkat. Documents, splits and label sets are those of recipes/train_bioasq.py
with `--unseen_file` and of recipes/train_table.py, whose functions read them: seen labels first. A system fits the
training documents, each in a process of its own on `--threads` threads; its threshold is the one with the best micro-F1
of the seen labels on the validation documents, and it scores the test documents once. Unseen labels have no F1, as
validation documents of MEDLINE have none. What the systems are and what is chosen in each:
benchmarks/accuracy_systems.py.

A system that knows only the labels of the training documents has no figures for unseen labels; among all labels it has
the unseen ones in the last place, which all share, and below the threshold. As in the paper, seen labels are ranked
among the seen and unseen ones among the unseen. Training seconds are of all that `fit` does: reading the files is left
out, choosing an epoch and running a frozen transformer over the training documents are in it. Documents per second are
from text to the scores of all labels; trees give the ten best labels by a narrow beam if not asked for more, and the
speed of that stands beside it.

Writes results/accuracy.json, keyed by set, system and seed, after each run; what is there is not run again without
`--again`. Systems in which nothing is drawn run with the first seed only.

`--held_out SHARE` is for choosing settings: training loses that share of the seen labels, by a hash of their ids, the
unseen labels of the test are left out, and the validation documents are the test. It writes
results/accuracy_held_out.json.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accuracy_systems import LOWEST, SYSTEMS, Options, Score, blocks, padded
from accuracy_task import SETS, Task, hold_out
from machine import RESULTS, provenance, write_json
from measuring import in_own_process
from torch import Tensor
from torch.nn import functional

from hf_gile.metrics import LabelMetrics, decile_figures, propensities
from hf_gile.training import ThresholdTuner

TOP_K = (1, 3, 5)
BATCH = 64  # documents scored at a time

GROUPS = {"seen": "seen_", "unseen": "unseen_", "all": ""}
"""Prefix of the figures of each group of labels."""

COLUMNS = {
    "AvgPr": "average_precision",
    "RL": "ranking_loss",
    "OneErr": "one_error",
    "P@1": "precision_at_1",
    "P@3": "precision_at_3",
    "P@5": "precision_at_5",
    "nDCG@5": "ndcg_at_5",
    "PSP@5": "psp_at_5",
    "F1": "micro_f1",
}
"""Figures in percent, by their headings."""

DECILES = {"macro F1": "macro_f1", "macro recall at 5": "macro_recall_at_5"}
"""Figures by frequency, in percent, by their names."""


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of pubmed_mesh, mesh and tibkat")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["pubmed_mesh"])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="of sequence_classification")
    parser.add_argument("--held_out", type=float, default=0.0, help="share of seen labels, to choose settings")
    parser.add_argument("--again", action="store_true", help="run what has been run already")
    parser.add_argument("--cache", type=Path, default=cache / "hf_gile" / "accuracy", help="of MiniLM's vectors")
    parser.add_argument("--runs", type=Path, help="keep what the recipes train here, and take from here what is there")
    parser.add_argument("--results", type=Path, help="instead of the file in results/")
    parser.add_argument("--table", action="store_true", help="print the tables of what has been run")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS, metavar=("SET", "SYSTEM", "SEED"))
    options = parser.parse_args()
    path = options.results or RESULTS / ("accuracy_held_out.json" if options.held_out else "accuracy.json")
    if options.one:
        name, system, seed = options.one
        print(json.dumps(measure(options, name, system, int(seed))))
        return
    results = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if options.systems:
        if not options.data:
            parser.error("--systems needs --data")
        run_all(options, results, path)
    if options.table or not options.systems:
        print("\n\n".join(f"{title}\n\n{table}" for title, table in tables(results).items()))


def run_all(options: argparse.Namespace, results: dict[str, Any], path: Path) -> None:
    """Runs what is wanted and not there, each in a process of its own, and writes it into the file as it comes."""
    flags = ["--data", str(options.data), "--threads", str(options.threads), "--cache", str(options.cache)]
    flags += ["--held_out", str(options.held_out)]
    if options.runs:
        flags += ["--runs", str(options.runs)]
    if options.epochs:
        flags += ["--epochs", str(options.epochs)]
    os.environ |= {"OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    failed = []
    for name in options.sets:
        for system in options.systems:
            for seed in options.seeds if SYSTEMS[system].drawn else options.seeds[:1]:
                if str(seed) in results.get(name, {}).get(system, {}) and not options.again:
                    continue
                print(f"{name}, {system}, seed {seed}", flush=True)
                try:
                    output = in_own_process(__file__, "--one", name, system, str(seed), *flags)
                except RuntimeError as error:
                    failed.append(f"{name}, {system}, seed {seed}: {error}")
                    print(failed[-1], flush=True)
                    continue
                figures = json.loads(output.splitlines()[-1])  # libraries print, too
                print("  " + short(figures), flush=True)
                # Another command may have written in the meantime.
                results.clear()
                results.update(json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {})
                results.setdefault(name, {}).setdefault(system, {})[str(seed)] = figures
                write_json(path, results)
    if failed:
        raise SystemExit("\n".join(failed))


def short(figures: dict[str, Any]) -> str:
    """One line of a run."""
    cells = [
        f"AvgPr {group} {100 * figures['test'][prefix + 'average_precision']:.2f}"
        for group, prefix in GROUPS.items()
        if prefix + "average_precision" in figures["test"]
    ]
    seconds = f"{figures['training_cpu_seconds']:.0f} s of training ({figures['training_seconds']:.0f} by the clock)"
    return f"{', '.join(cells)}; {seconds}, {figures['documents_per_second']:.1f} documents/s"


def measure(options: argparse.Namespace, name: str, system: str, seed: int) -> dict[str, Any]:
    """Fits one system to one set, and scores its test documents."""
    torch.set_num_threads(options.threads)
    task = SETS[name](options.data)
    if options.held_out:
        task = hold_out(task, options.held_out)
    start = time.perf_counter(), cpu_seconds()
    fitted = SYSTEMS[system].fit(task, seed, Options(options.threads, options.cache, options.epochs, options.runs))
    wall, cpu = time.perf_counter() - start[0], cpu_seconds() - start[1]
    figures = evaluate(task, fitted.score, SYSTEMS[system].unseen)
    return {
        "training_seconds": wall + fitted.more_seconds[0],
        "training_cpu_seconds": cpu + fitted.more_seconds[1],
        **figures,
        **(fitted.details or {}),
        **provenance(seed),
    }


def cpu_seconds() -> float:
    """Processor time of this process so far, and of the processes that it waited for."""
    return time.process_time() + sum(os.times()[2:4])


def evaluate(task: Task, score: Score, unseen: bool) -> dict[str, Any]:
    """The figures of the test part at the threshold of the seen labels of the validation part.

    Args:
        task: Documents and labels.
        score: From texts to `(B, L)` scores, or `(B, num_seen)`.
        unseen: Whether the system scores unseen labels; if not, what is about them is left out.

    Returns:
        `threshold`; `documents_per_second` and `documents_per_cpu_second` of the test part; and `test`, what
        `LabelMetrics` computes.
    """
    tuner = ThresholdTuner(len(task.labels), seen=task.labels.seen)
    for scores, gold, _ in scored(task, "validation", score):
        tuner.update(scores, gold)
    threshold = tuner.compute()["threshold"]
    metrics = label_metrics(task, threshold)
    wall = cpu = 0.0
    for scores, gold, taken in scored(task, "test", score):
        metrics.update(scores, gold)
        wall, cpu = wall + taken[0], cpu + taken[1]
    test = metrics.compute()
    if not unseen:
        test = {figure: value for figure, value in test.items() if not figure.startswith("unseen_")}
    documents = len(task.texts["test"])
    return {
        "threshold": threshold,
        "documents_per_second": documents / wall,
        "documents_per_cpu_second": documents / cpu,
        "test": test,
    }


def scored(task: Task, part: str, score: Score) -> Iterator[tuple[Tensor, Tensor, tuple[float, float]]]:
    """Of so many documents at a time: `(B, L)` scores, `(B, P)` gold columns, wall-clock and processor seconds."""
    texts, gold = task.texts[part], task.gold[part]
    for rows in blocks(len(texts), BATCH):
        start = time.perf_counter(), cpu_seconds()
        scores = score([texts[row] for row in rows])
        taken = time.perf_counter() - start[0], cpu_seconds() - start[1]
        unknown = len(task.labels) - scores.shape[1]
        yield functional.pad(scores, (0, unknown), value=LOWEST), padded([gold[row] for row in rows]), taken


def label_metrics(task: Task, threshold: float) -> LabelMetrics:
    """All figures, for seen and unseen labels, and those by frequency."""
    counts = np.array([label.count for label in task.labels])
    of_each = propensities(counts, len(task.texts["train"]))
    return LabelMetrics(len(task.labels), task.labels.seen, threshold, top_k=TOP_K, propensities=of_each, counts=counts)


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Markdown tables of a results file, by their titles: of each set the groups of labels, and what it costs."""
    made = {}
    for name, systems in results.items():
        rows = {system.name: list(systems[key].values()) for key, system in SYSTEMS.items() if systems.get(key)}
        for group, prefix in GROUPS.items():
            # The threshold is that of the seen labels.
            columns = {heading: figure for heading, figure in COLUMNS.items() if group == "seen" or heading != "F1"}
            cells = {
                system: [cell(runs, f"{prefix}{figure}") for figure in columns.values()]
                for system, runs in rows.items()
                if f"{prefix}average_precision" in runs[0]["test"]
            }
            made[f"{name}, {group} labels"] = markdown([*columns, "runs"], cells, rows)
        for heading, figure in DECILES.items():
            cells = {
                system: [cell([{"test": by_decile(run, figure)} for run in runs], str(n)) for n in range(1, 11)]
                for system, runs in rows.items()
            }
            made[f"{name}, {heading} of the seen labels by frequency, from the rarest tenth to the most frequent"] = (
                markdown([*map(str, range(1, 11)), "runs"], cells, rows)
            )
        cells = {
            system: [
                cost(runs, "training_cpu_seconds", ",.0f"),
                cost(runs, "training_seconds", ",.0f"),
                cost(runs, "documents_per_cpu_second", ",.3g"),
                cost(runs, "documents_per_second", ",.3g"),
                cost(runs, "ten_best_documents_per_cpu_second", ",.3g"),
            ]
            for system, runs in rows.items()
        }
        made[f"{name}, cost"] = markdown(
            ["training, CPU s", "training, s", "documents/CPU s", "documents/s", "ten best, documents/CPU s", "runs"],
            cells,
            rows,
        )
    return made


def by_decile(run: dict[str, Any], figure: str) -> dict[str, float]:
    """A figure of each tenth of the seen labels, by its number."""
    return {str(place): value for place, value in enumerate(decile_figures(run["test"])[figure], 1)}


def cell(runs: Sequence[dict[str, Any]], figure: str) -> str:
    """The mean of a figure in percent, with the standard deviation of several runs."""
    values = [100 * run["test"][figure] for run in runs if figure in run["test"]]
    if not values:
        return "-"
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def cost(runs: Sequence[dict[str, Any]], figure: str, form: str) -> str:
    """The mean of a figure of the runs that have it."""
    values = [run[figure] for run in runs if figure in run]
    return format(statistics.mean(values), form) if values else "-"


def markdown(headings: Sequence[str], cells: dict[str, list[str]], runs: dict[str, list[Any]]) -> str:
    """A table with a row for each system."""
    lines = ["| " + " | ".join(["", *headings]) + " |", "| " + " | ".join(["---"] * (len(headings) + 1)) + " |"]
    lines += [f"| {' | '.join([system, *row, str(len(runs[system]))])} |" for system, row in cells.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
