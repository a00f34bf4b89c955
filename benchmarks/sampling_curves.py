"""Measures average precision against training time for each way to sample the labels of a training step.

    python benchmarks/sampling_curves.py --data FOLDER -- --num_train_epochs 12

How much cheaper is a step that scores a sample of the labels instead of all, and how much precision does it lose?

The folder contains train, validation and test.jsonl.gz with the keys of BioASQ, and unseen_labels.json with the label
ids that were removed from every training and validation document. Each way is a run of recipes/train_bioasq.py (GILE
with tanh, the same seed) without early stopping or model selection. The test part is evaluated after every epoch. Time
is the CPU time of the training steps, which equals their wall-clock time on an idle machine; use one thread
(OMP_NUM_THREADS=1).

Writes results/sampling_curves.json and docs/scale/sampling_curves.png. `--only` repeats the listed runs and preserves
the results of all other runs. Arguments after `--` go to the recipe.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import RESULTS, write_results
from matplotlib import pyplot
from plots import save
from pubmed_mesh import ROOT, figures

# 36 labels are 0.3 % of the 11,861 labels of the training documents.
WAYS = {
    "all labels, in chunks": ["--num_negatives", "0"],
    "uniform 0.3 %": ["--num_negatives", "36"],
    "uniform 1500": ["--num_negatives", "1500"],
    "by frequency 0.3 %": ["--negatives", "frequency", "--num_negatives", "36"],
    "by frequency 1500": ["--negatives", "frequency", "--num_negatives", "1500"],
    "in-batch": ["--negatives", "in_batch"],
    "uniform 0.3 % + hard": ["--num_negatives", "36", "--hard_negatives", "32"],
    "by frequency 1500 + hard": ["--negatives", "frequency", "--num_negatives", "1500", "--hard_negatives", "32"],
}
FIXED = ["--units", "gile", "--hidden_act", "tanh", "--test_curve"]
# Reports the last epoch and saves no checkpoints, which would take time.
FIXED += ["--patience", "1000", "--save_strategy", "no", "--load_best_model_at_end", "false"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    ways = ", ".join(WAYS).replace("%", "%%")
    parser.add_argument("--only", nargs="+", default=list(WAYS), choices=list(WAYS), metavar="WAY", help=ways)
    parser.add_argument("--name", default="sampling_curves", help="name of the file in results/ and of the plot")
    parser.add_argument("recipe", nargs="*", help="arguments for every run of recipes/train_bioasq.py, after --")
    options = parser.parse_args()
    runs: dict[str, Any] = {}
    before: dict[str, Any] = {}
    if options.only != list(WAYS):
        before = json.loads((RESULTS / f"{options.name}.json").read_text())
        if (before["recipe"], before["seed"]) != (options.recipe, options.seed):
            parser.error(
                f"earlier runs used seed {before['seed']} and arguments {' '.join(before['recipe'])}: pass the same"
            )
        runs = before["runs"]
    for way in options.only:
        runs[way] = train(options.data, options.seed, [*WAYS[way], *options.recipe])
        last = runs[way]["curve"][-1]
        print(f"{way:22} {last['train_seconds']:6.0f} s of training  {last['test']}", flush=True)
        runs = {name: runs[name] for name in WAYS if name in runs}
        results = {"recipe": options.recipe, "percent": True, "runs": with_ratios(runs)}
        write_results(options.name, results, seed=options.seed, kept=before)
        plot(runs, options.name)


def train(data: Path, seed: int, more: list[str]) -> dict[str, Any]:
    """Runs the recipe and returns its flags and its curve."""
    with tempfile.TemporaryDirectory() as folder:
        files = ["--unseen_file", str(data / "unseen_labels.json")]
        for part in ("train", "validation", "test"):
            files += [f"--{part}_files", str(data / f"{part}.jsonl.gz")]
        command = [sys.executable, str(ROOT / "recipes" / "train_bioasq.py"), *files, *FIXED, *more]
        command += ["--output_dir", folder, "--seed", str(seed), "--no_baselines", "--lexical", "false"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        history = json.loads((Path(folder) / "results.json").read_text())["gile"]["history"]
    return {"flags": more, "curve": curve(history)}


def curve(history: list[dict[str, float]]) -> list[dict[str, Any]]:
    """Returns an entry for each epoch: seconds of training so far, and test figures in percent."""
    return [
        {
            "epoch": entry["epoch"],
            "train_seconds": round(entry["training_cpu_seconds"], 1),
            "test": figures("gile", entry, "eval_test_"),
        }
        for entry in history
        if "eval_test_documents" in entry
    ]


def with_ratios(runs: dict[str, Any]) -> dict[str, Any]:
    """Adds the training time per epoch of each way, relative to training with all labels."""
    full = runs.get("all labels, in chunks")
    for run in runs.values():
        if full is not None:
            pace = [timed["curve"][-1]["train_seconds"] / timed["curve"][-1]["epoch"] for timed in (run, full)]
            run["time_beside_all_labels"] = round(pace[0] / pace[1], 3)
    return runs


def plot(runs: dict[str, Any], name: str) -> None:
    """Plots the test AvgPr of seen and unseen labels against minutes of training."""
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for axis, group in zip(axes, ("seen", "unseen"), strict=True):
        for color, (way, run) in enumerate(runs.items()):
            minutes = [epoch["train_seconds"] / 60 for epoch in run["curve"]]
            values = [epoch["test"][f"AvgPr {group}"] for epoch in run["curve"]]
            axis.plot(minutes, values, marker="o", markersize=3, color=f"C{color}", label=way)
        axis.set_xlabel("minutes of training, processor time of one thread")
        axis.set_ylabel(f"AvgPr, {group} labels (%)")
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize="small")
    save(figure, name)


if __name__ == "__main__":
    main()
