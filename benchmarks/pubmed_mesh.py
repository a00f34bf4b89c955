"""Compares a linear unit and GILE on the same word-attention encoder, trained until validation stops improving.

    python benchmarks/pubmed_mesh.py --data FOLDER -- --num_train_epochs 20 --patience 4

The folder contains train, validation and test.jsonl.gz with the keys of BioASQ, and unseen_labels.json with the label
ids that were removed from every training and validation document. Each run of recipes/train_bioasq.py trains both; the
epoch is chosen on validation documents, which have no unseen labels. Writes results/pubmed_mesh.json, and
docs/pubmed_mesh.png with the curves of the first seed against epochs and time. Arguments after `--` go to the recipe.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from machine import write_results

ROOT = Path(__file__).parents[1]
METRICS = {"average_precision": "AvgPr", "ranking_loss": "RL", "one_error": "OneErr"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--name", default="pubmed_mesh", help="name of the file in results/")
    parser.add_argument("recipe", nargs="*", help="arguments for recipes/train_bioasq.py, after --")
    options = parser.parse_args()
    runs = {seed: train(options.data, seed, options.recipe) for seed in options.seeds}
    first = runs[options.seeds[0]]
    curves = {unit: curve(unit, result["history"]) for unit, result in first.items()}
    test = {
        unit: {str(seed): figures(unit, results[unit]["test"], "test_") for seed, results in runs.items()}
        for unit in first
    }
    means = {
        unit: {name: spread(by_seed.values(), name) for name in by_seed[str(options.seeds[0])]}
        for unit, by_seed in test.items()
    }
    for unit, mean in means.items():
        print(f"{unit:8}", {name: f"{value['mean']} +- {value['std']}" for name, value in mean.items()})
    plot(curves, ROOT / "docs" / "pubmed_mesh.png")
    write_results(
        options.name,
        {
            "recipe": options.recipe,
            "percent": True,
            "minutes": {unit: round(result["seconds"] / 60, 1) for unit, result in first.items()},
            "test_mean": means,
            "test": test,
            "curves_of_first_seed": curves,
        },
        seed=options.seeds,
    )


def train(data: Path, seed: int, more: list[str]) -> dict[str, Any]:
    """Runs the recipe and returns the contents of its results.json."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--output_dir", folder, "--seed", str(seed), "--test_curve", "--no_baselines"]
        arguments += ["--lexical", "false", "--unseen_file", str(data / "unseen_labels.json")]
        for part in ("train", "validation", "test"):
            arguments += [f"--{part}_files", str(data / f"{part}.jsonl.gz")]
        command = [sys.executable, str(ROOT / "recipes" / "train_bioasq.py"), *arguments, *more]
        subprocess.run(command, check=True)
        return json.loads((Path(folder) / "results.json").read_text())


def spread(by_seed: Iterable[dict[str, float]], name: str) -> dict[str, float]:
    """Returns mean and standard deviation over the seeds."""
    values = [figure[name] for figure in by_seed]
    return {
        "mean": round(statistics.mean(values), 2),
        "std": round(statistics.stdev(values), 2) if len(values) > 1 else 0.0,
    }


def figures(unit: str, metrics: dict[str, float], prefix: str) -> dict[str, float]:
    """Returns the paper's three metrics of an evaluation in percent, for seen and unseen labels."""
    groups = {"seen": "seen_", "unseen": "unseen_"} if unit == "gile" else {"seen": ""}
    return {
        f"{short} {group}": round(100 * metrics[f"{prefix}{infix}{name}"], 2)
        for group, infix in groups.items()
        for name, short in METRICS.items()
        if metrics[f"{prefix}{infix}documents"]
    }


def curve(unit: str, history: list[dict[str, float]]) -> list[dict[str, Any]]:
    """Returns an entry for each epoch: validation and test figures, and seconds of training and evaluation so far."""
    epochs: dict[float, dict[str, Any]] = {}
    for entry in history:
        epoch = epochs.setdefault(entry["epoch"], {"epoch": entry["epoch"], "seconds": round(entry["seconds"], 1)})
        for part in ("validation", "test"):
            if f"eval_{part}_documents" in entry:
                epoch[part] = figures(unit, entry, f"eval_{part}_")
    return list(epochs.values())


def plot(curves: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Plots the test AvgPr of seen and unseen labels against epochs and minutes."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharey="row", layout="constrained")
    for row, group in enumerate(("seen", "unseen")):
        for column, (name, scale) in enumerate({"epoch": 1, "seconds": 60}.items()):
            axis = axes[row][column]
            for color, (unit, epochs) in enumerate(curves.items()):
                key = f"AvgPr {group}"
                points = [(epoch[name] / scale, epoch["test"][key]) for epoch in epochs if key in epoch["test"]]
                if points:
                    axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=unit, color=f"C{color}")
            axis.grid(alpha=0.3)
            axis.set_xlabel("epochs" if name == "epoch" else "minutes, evaluation included")
            if axis.lines:
                axis.legend()
        axes[row][0].set_ylabel(f"AvgPr, {group} labels (%)")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
