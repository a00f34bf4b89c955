"""Measures the calibration error of probabilities and the F1 of thresholds, before and after `calibrate`.

    python benchmarks/calibration.py --data FOLDER --model pubmed_mesh=runs/pubmed/gile_rows/model
    python benchmarks/calibration.py --data FOLDER --model pubmed_mesh=FOLDER tibkat_en=FOLDER
    python benchmarks/calibration.py --table

Data sets, documents and gold labels are those of benchmarks/obvious.py. The models were trained with labels held out of
the training documents (recipes/train_bioasq.py and recipes/train_table.py with `--held_out_labels`). They store the
held-out labels and the unseen labels of the test as unseen. Calibration and thresholds are fitted on the validation
documents, among seen and held-out labels, and measured on the test documents, among seen and unseen labels.

Calibration does not reorder the labels of a group, so thresholds fitted to each group give the same result under every
calibration. Only a common threshold for all labels, such as 0.5, depends on it. Rows of thresholds: "before" and
"after" calibration by "spline"; "groups", a threshold for the seen and another for the unseen labels; "raw", the best
threshold of each seen label; "shrunk", the threshold of each label that `calibrate` computes, for the best micro-F1 or
macro-F1. The unseen labels of the test have no validation documents, so they have the threshold of their group.

Writes results/calibration.json, keyed by data set. Entries of other data sets are preserved.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, provenance, stay_offline, write_json
from obvious_sets import SETS, Task
from papers.threshold_tuner import ThresholdTuner
from torch import Tensor

from hf_gile import GileForSequenceClassification, GileProcessor
from hf_gile.metrics import CalibrationMetrics, F1Metrics
from hf_gile.models.checks_gile import METHODS
from hf_gile.models.search_gile import calibrated
from hf_gile.training.calibration import Calibration, fit
from hf_gile.training.calibration.score_counts import ScoreCounts

BATCH = 64

CALIBRATION = {
    "ECE": "expected_calibration_error",
    "ECE of the 5 best": "top_5_expected_calibration_error",
    "Brier": "brier",
}
"""Maps table headings to metrics of probabilities, which are shown in percent."""

F1 = {"micro-F1": "micro_f1", "macro-F1": "macro_f1"}
"""Maps table headings to metrics of thresholds, which are shown in percent."""

GROUPS = ("seen", "unseen")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of pubmed_mesh, mesh and tibkat")
    parser.add_argument("--model", nargs="+", default=[], metavar="SET=FOLDER", help=f"data sets: {', '.join(SETS)}")
    parser.add_argument("--bf16", action="store_true", help="score under bfloat16 autocast")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS / "calibration.json", help="the file to write")
    parser.add_argument("--table", action="store_true", help="print the tables of the stored results")
    options = parser.parse_args()
    models = [argument.partition("=") for argument in options.model]
    for name, sign, _ in models:
        if name not in SETS or not sign:
            parser.error(f"--model takes SET=FOLDER, where SET is one of {', '.join(SETS)}; got {name}{sign}")
    if models and not options.data:
        parser.error("--model needs --data")
    stay_offline(options.threads)
    results = json.loads(options.results.read_text(encoding="utf-8")) if options.results.is_file() else {}
    for name, _, folder in models:
        figures = measure(SETS[name](options.data, 1), folder, options.bf16)
        results[name] = {**provenance(0), **figures}
        write_json(options.results, results)
    if options.table or not models:
        print("\n\n".join(f"{title}\n\n{table}" for title, table in tables(results).items()))


def measure(task: Task, folder: str | Path, bf16: bool = False) -> dict[str, Any]:
    """Fits calibrations and thresholds on the validation documents of a data set and measures them on the test."""
    model = GileForSequenceClassification.from_pretrained(folder).eval()
    processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
    known = {label.id for label in task.labels[: task.num_seen]}
    is_known = torch.tensor([label.id in known for label in model.label_set])
    seen = model.stored_labels.seen()
    if not bool((is_known & ~seen).any()):
        raise ValueError(f"{folder}: no label was held out of training; train with --held_out_labels")
    candidates = {"validation": is_known, "test": seen | ~is_known}

    # 1. Validation scores are reduced to counts. Test scores are stored because they are measured many times.
    counts = ScoreCounts(seen[is_known])
    tuner = ThresholdTuner(int(is_known.sum()))
    start = time.perf_counter()
    for logits, gold in scored(model, processor, task, "validation", candidates["validation"], bf16):
        counts.update(logits, gold)
        tuner.update(logits, gold)
    seconds = {"validation": time.perf_counter() - start}
    test = list(scored(model, processor, task, "test", candidates["test"], bf16))

    # 2. Probabilities.
    calibrations, parameters = {"none": Calibration({}, {}, torch.empty(0))}, {}
    for method in METHODS:
        start = time.perf_counter()
        calibrations[method] = fit(counts, method, label_thresholds=False)
        seconds[method] = time.perf_counter() - start
        parameters[method] = calibrations[method].calibration
    test_seen = seen[candidates["test"]]
    probabilities = {
        name: probability_metrics(test, test_seen, fitted.calibration) for name, fitted in calibrations.items()
    }

    # 3. Thresholds of logits before and after calibration.
    start = time.perf_counter()
    per_label = {
        f"raw, {objective}": fit(counts, objective=objective, shrinkages=(0.0,)) for objective in F1.values()
    } | {f"shrunk, {objective}": fit(counts, objective=objective) for objective in F1.values()}
    seconds["label thresholds"] = (time.perf_counter() - start) / len(per_label)
    spline = calibrations["spline"]
    rows = {int(column): row for row, column in enumerate(is_known.nonzero())}
    columns = candidates["test"].nonzero().flatten().tolist()

    def thresholds_of(fitted: Calibration) -> Tensor:
        """Returns `(C,)` thresholds of the test candidates: per label where available, else those of their group."""
        own = [float(fitted.label_thresholds[rows[column]]) if column in rows else math.nan for column in columns]
        group = [
            fitted.thresholds.get("seen" if is_seen else "unseen", fitted.thresholds["seen"])
            for is_seen in test_seen.tolist()
        ]
        return torch.tensor([common if math.isnan(t) else t for t, common in zip(own, group, strict=True)])

    thresholds = {
        "0.5, before": threshold_metrics(test, test_seen, {}, 0.5),
        "one, before": threshold_metrics(test, test_seen, {}, tuner.compute()["threshold"]),
        "0.5, after": threshold_metrics(test, test_seen, spline.calibration, 0.5),
        "groups": threshold_metrics(test, test_seen, spline.calibration, thresholds_of(spline)),
    } | {
        name: threshold_metrics(test, test_seen, fitted.calibration, thresholds_of(fitted))
        for name, fitted in per_label.items()
    }
    return {
        "model": Path(folder).resolve().parent.name,  # the recipes name this folder after the unit
        "documents": {"validation": counts.documents, "test": sum(len(logits) for logits, _ in test)},
        "labels": {
            "seen": int(seen.sum()),
            "held out": int((is_known & ~seen).sum()),
            "unseen": int((~is_known).sum()),
        },
        "seconds": seconds,
        "fitted": parameters | {name: fitted.figures for name, fitted in per_label.items()},
        "probabilities": probabilities,
        "thresholds": thresholds,
    }


@torch.no_grad()
def scored(
    model: Any, processor: Any, task: Task, part: str, candidates: Tensor, bf16: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields for each batch `(B, C)` logits of the candidates and the `(B, P)` candidate indices of its gold labels."""
    columns = {label.id: column for column, label in enumerate(model.label_set)}
    ids = [label.id for label in task.labels]
    indices = torch.full((len(columns),), -1)
    indices[candidates] = torch.arange(int(candidates.sum()))
    chosen = candidates.nonzero().flatten()
    texts, gold = task.texts[part], task.gold[part]
    for start in range(0, len(texts), BATCH):
        rows = gold[start : start + BATCH]
        known = [[indices[columns[ids[label]]].item() for label in row if ids[label] in columns] for row in rows]
        known = [[index for index in row if index >= 0] for row in known]
        width = max(1, *map(len, known))
        padded = torch.tensor([[*row, *[-100] * (width - len(row))] for row in known])
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(**processor(texts[start : start + BATCH], return_tensors="pt")).logits
        yield logits[:, chosen].float(), padded


def probability_metrics(
    test: Sequence[tuple[Tensor, Tensor]], seen: Tensor, calibration: dict[str, Any]
) -> dict[str, float]:
    """Measures the calibration error of probabilities."""
    metrics = CalibrationMetrics(len(seen), seen=seen)
    for logits, gold in test:
        metrics.update(calibrated(logits, seen, calibration), gold)
    return metrics.compute()


def threshold_metrics(
    test: Sequence[tuple[Tensor, Tensor]], seen: Tensor, calibration: dict[str, Any], threshold: float | Tensor
) -> dict[str, float]:
    """Measures the F1 of thresholds."""
    metrics = F1Metrics(len(seen), threshold, seen)
    for logits, gold in test:
        metrics.update(calibrated(logits, seen, calibration), gold)
    return metrics.compute()


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Returns the Markdown tables of docs/calibration.md by title."""
    by_title = {}
    for name, result in results.items():
        for title, part, figures in (
            ("probabilities", "probabilities", CALIBRATION),
            ("thresholds", "thresholds", F1),
        ):
            headings = [f"{group} {heading}" for group in GROUPS for heading in figures]
            lines = [f"| {title} | {' | '.join(headings)} |", "| --- |" + " --- |" * len(headings)]
            for row, values in result[part].items():
                cells = [f"{100 * values[f'{group}_{figure}']:.2f}" for group in GROUPS for figure in figures.values()]
                lines.append(f"| {row} | {' | '.join(cells)} |")
            documents = result["documents"]
            sizes = ", ".join(f"{count:,} {kind}" for kind, count in result["labels"].items())
            by_title[
                f"{name}, {title}, percent: fitted on {documents['validation']:,} documents, measured on "
                f"{documents['test']:,}; labels: {sizes}"
            ] = "\n".join(lines)
    return by_title


if __name__ == "__main__":
    main()
