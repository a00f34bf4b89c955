"""How far probabilities can be trusted, and what thresholds are worth, before and after `hf_gile.training.calibrate`.

    python benchmarks/calibration.py --data FOLDER --model pubmed_mesh=runs/pubmed/gile_rows/model
    python benchmarks/calibration.py --data FOLDER --model pubmed_mesh=FOLDER tibkat_en=FOLDER
    python benchmarks/calibration.py --table

Sets, documents and gold labels are those of benchmarks/obvious.py. The models were trained with labels held out of the
training documents (recipes/train_bioasq.py and recipes/train_table.py with `--held_out_labels`), and have these and the
unseen labels of the test stored as unseen. Calibration and thresholds are fitted on the validation documents, among the
seen labels and the held-out ones, and measured on the test documents, among the seen labels and the unseen ones.

A calibration does not change the order of the labels of a group, so thresholds fitted to each group decide the same
whatever it is; only one for all labels, such as 0.5, does not. Rows of thresholds: "before" and "after" calibration by
"spline"; "groups", one for the seen labels and one for the unseen; "raw", the own best one of each seen label;
"shrunk", what `calibrate` makes of these, best for micro-F1 or for macro-F1. The unseen labels of the test have no
validation documents, so they have the threshold of their group.

Writes results/calibration.json, keyed by set; the sets that are not run stay.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, provenance, write_json
from obvious_sets import SETS, Task
from torch import Tensor

from hf_gile import GileForSequenceClassification, GileProcessor
from hf_gile.metrics import CalibrationMetrics, F1Metrics
from hf_gile.models.configuration_gile import METHODS
from hf_gile.models.search_gile import calibrated
from hf_gile.training import ThresholdTuner
from hf_gile.training.calibration import Calibration, fit
from hf_gile.training.calibration.score_counts import ScoreCounts

BATCH = 64

CALIBRATION = {
    "ECE": "expected_calibration_error",
    "ECE of the 5 best": "top_5_expected_calibration_error",
    "Brier": "brier",
}
"""Figures of probabilities, in percent, by their headings."""

F1 = {"micro-F1": "micro_f1", "macro-F1": "macro_f1"}
"""Figures of thresholds, in percent, by their headings."""

GROUPS = ("seen", "unseen")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of pubmed_mesh, mesh and tibkat")
    parser.add_argument("--model", nargs="+", default=[], metavar="SET=FOLDER", help=f"sets: {', '.join(SETS)}")
    parser.add_argument("--bf16", action="store_true", help="score under bfloat16 autocast")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS / "calibration.json", help="the file to write")
    parser.add_argument("--table", action="store_true", help="print the tables of what has been run")
    options = parser.parse_args()
    wanted = [one.partition("=") for one in options.model]
    for name, sign, _ in wanted:
        if name not in SETS or not sign:
            parser.error(f"--model takes SET=FOLDER, with a set of {', '.join(SETS)}; got {name}{sign}")
    if wanted and not options.data:
        parser.error("--model needs --data")
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    torch.set_num_threads(options.threads)
    results = json.loads(options.results.read_text(encoding="utf-8")) if options.results.is_file() else {}
    for name, _, folder in wanted:
        figures = measure(SETS[name](options.data, 1), folder, options.bf16)
        results[name] = {**provenance(0), **figures}
        write_json(options.results, results)
    if options.table or not wanted:
        print("\n\n".join(f"{title}\n\n{table}" for title, table in tables(results).items()))


def measure(task: Task, folder: str | Path, bf16: bool = False) -> dict[str, Any]:
    """Fits calibrations and thresholds on the validation documents of a set, and measures the test documents."""
    model = GileForSequenceClassification.from_pretrained(folder).eval()
    processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
    known = {label.id for label in task.labels[: task.num_seen]}
    is_known = torch.tensor([label.id in known for label in model.label_set])
    seen = model.stored_labels.seen()
    if not bool((is_known & ~seen).any()):
        raise ValueError(f"{folder}: no label was held out of training; train with --held_out_labels")
    candidates = {"validation": is_known, "test": seen | ~is_known}

    # 1. The validation documents are counted, those of the test are kept: they are measured many times.
    counts = ScoreCounts(seen[is_known])
    tuner = ThresholdTuner(int(is_known.sum()))
    start = time.perf_counter()
    for logits, gold in scored(model, processor, task, "validation", candidates["validation"], bf16):
        counts.update(logits, gold)
        tuner.update(logits, gold)
    seconds = {"validation": time.perf_counter() - start}
    test = list(scored(model, processor, task, "test", candidates["test"], bf16))

    # 2. Probabilities.
    found, fits = {"none": Calibration({}, {}, torch.empty(0))}, {}
    for method in METHODS:
        start = time.perf_counter()
        found[method] = fit(counts, method, label_thresholds=False)
        seconds[method] = time.perf_counter() - start
        fits[method] = found[method].calibration
    in_test = seen[candidates["test"]]
    probabilities = {name: of_probabilities(test, in_test, one.calibration) for name, one in found.items()}

    # 3. Thresholds, of the logits before and after calibration.
    start = time.perf_counter()
    own = {f"raw, {objective}": fit(counts, objective=objective, shrinkages=(0.0,)) for objective in F1.values()} | {
        f"shrunk, {objective}": fit(counts, objective=objective) for objective in F1.values()
    }
    seconds["label thresholds"] = (time.perf_counter() - start) / len(own)
    spline = found["spline"]
    place = {int(column): place for place, column in enumerate(is_known.nonzero())}
    columns = candidates["test"].nonzero().flatten().tolist()

    def of_labels(one: Calibration) -> Tensor:
        """`(C,)` thresholds of the candidates of the test: their own, or that of their group."""
        alone = [float(one.label_thresholds[place[column]]) if column in place else math.nan for column in columns]
        group = [
            one.thresholds.get("seen" if is_seen else "unseen", one.thresholds["seen"]) for is_seen in in_test.tolist()
        ]
        return torch.tensor([common if math.isnan(t) else t for t, common in zip(alone, group, strict=True)])

    thresholds = {
        "0.5, before": of_thresholds(test, in_test, {}, 0.5),
        "one, before": of_thresholds(test, in_test, {}, tuner.compute()["threshold"]),
        "0.5, after": of_thresholds(test, in_test, spline.calibration, 0.5),
        "groups": of_thresholds(test, in_test, spline.calibration, of_labels(spline)),
    } | {name: of_thresholds(test, in_test, one.calibration, of_labels(one)) for name, one in own.items()}
    return {
        "model": Path(folder).resolve().parent.name,  # of the recipes: the unit
        "documents": {"validation": counts.documents, "test": sum(len(logits) for logits, _ in test)},
        "labels": {
            "seen": int(seen.sum()),
            "held out": int((is_known & ~seen).sum()),
            "unseen": int((~is_known).sum()),
        },
        "seconds": seconds,
        "fitted": fits | {name: one.figures for name, one in own.items()},
        "probabilities": probabilities,
        "thresholds": thresholds,
    }


@torch.no_grad()
def scored(
    model: Any, processor: Any, task: Task, part: str, candidates: Tensor, bf16: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Of each batch of a part `(B, C)` logits of the candidates, and `(B, P)` gold places among them."""
    columns = {label.id: column for column, label in enumerate(model.label_set)}
    ids = [label.id for label in task.labels]
    places = torch.full((len(columns),), -1)
    places[candidates] = torch.arange(int(candidates.sum()))
    chosen = candidates.nonzero().flatten()
    texts, gold = task.texts[part], task.gold[part]
    for start in range(0, len(texts), BATCH):
        rows = gold[start : start + BATCH]
        own = [[places[columns[ids[one]]].item() for one in row if ids[one] in columns] for row in rows]
        own = [[one for one in row if one >= 0] for row in own]
        width = max(1, *map(len, own))
        padded = torch.tensor([[*row, *[-100] * (width - len(row))] for row in own])
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(**processor(texts[start : start + BATCH], return_tensors="pt")).logits
        yield logits[:, chosen].float(), padded


def of_probabilities(
    test: Sequence[tuple[Tensor, Tensor]], seen: Tensor, calibration: dict[str, Any]
) -> dict[str, float]:
    """How far probabilities can be trusted."""
    metrics = CalibrationMetrics(len(seen), seen=seen)
    for logits, gold in test:
        metrics.update(calibrated(logits, seen, calibration), gold)
    return metrics.compute()


def of_thresholds(
    test: Sequence[tuple[Tensor, Tensor]], seen: Tensor, calibration: dict[str, Any], threshold: float | Tensor
) -> dict[str, float]:
    """The F1 of thresholds."""
    metrics = F1Metrics(len(seen), threshold, seen)
    for logits, gold in test:
        metrics.update(calibrated(logits, seen, calibration), gold)
    return metrics.compute()


def tables(results: dict[str, Any]) -> dict[str, str]:
    """The tables of docs and issues, in markdown, by their titles."""
    found = {}
    for name, result in results.items():
        for title, part, figures in (
            ("probabilities", "probabilities", CALIBRATION),
            ("thresholds", "thresholds", F1),
        ):
            headings = [f"{group} {heading}" for group in GROUPS for heading in figures]
            lines = [f"| {title} | {' | '.join(headings)} |", "| --- |" + " --- |" * len(headings)]
            for row, own in result[part].items():
                cells = [f"{100 * own[f'{group}_{figure}']:.2f}" for group in GROUPS for figure in figures.values()]
                lines.append(f"| {row} | {' | '.join(cells)} |")
            documents = result["documents"]
            sizes = ", ".join(f"{count:,} {kind}" for kind, count in result["labels"].items())
            found[
                f"{name}, {title}, percent: fitted on {documents['validation']:,} documents, measured on "
                f"{documents['test']:,}; labels: {sizes}"
            ] = "\n".join(lines)
    return found


if __name__ == "__main__":
    main()
