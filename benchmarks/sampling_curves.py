"""Average precision of seen and unseen labels against training time, for each way to choose the labels of a step.

    python benchmarks/sampling_curves.py --data FOLDER -- --num_train_epochs 12

Question: what does a step cost that scores a sample of the labels instead of all, and what does the model lose by it?

The folder holds train, validation and test.jsonl.gz in BioASQ's keys and unseen_labels.json, the ids that were taken
out of every training and validation document. Each way is one run of recipes/train_bioasq.py, GILE with tanh, all from
one seed; nothing stops early and nothing is chosen. The test part is evaluated after every epoch. The time is the
processor time of the training steps, which is their wall-clock time on a machine that has nothing else to do; run it
with one thread (OMP_NUM_THREADS=1).

Writes results/sampling_curves.json and docs/scale/sampling_curves.png. `--only` runs some anew and keeps the others.
Arguments after `--` go to the recipe.
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

# 0.3 % of the 11,861 labels of the training documents are 36.
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
# The last epoch counts, and no checkpoint costs time.
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
                f"the others were run with seed {before['seed']} and {' '.join(before['recipe'])}: so must these"
            )
        runs = before["runs"]
    for way in options.only:
        runs[way] = train(options.data, options.seed, [*WAYS[way], *options.recipe])
        last = runs[way]["curve"][-1]
        print(f"{way:22} {last['train_seconds']:6.0f} s of training  {last['test']}", flush=True)
        runs = {name: runs[name] for name in WAYS if name in runs}
        found = {"recipe": options.recipe, "percent": True, "runs": with_ratios(runs)}
        write_results(options.name, found, seed=options.seed, kept=before)
        plot(runs, options.name)


def train(data: Path, seed: int, more: list[str]) -> dict[str, Any]:
    """One run of the recipe: its flags, and one entry an epoch."""
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
    """Epoch, seconds of training so far, and test figures in percent."""
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
    """Adds the training time of each way as a share of that with all labels, epoch for epoch."""
    full = runs.get("all labels, in chunks")
    for run in runs.values():
        if full is not None:
            pace = [one["curve"][-1]["train_seconds"] / one["curve"][-1]["epoch"] for one in (run, full)]
            run["time_beside_all_labels"] = round(pace[0] / pace[1], 3)
    return runs


def plot(runs: dict[str, Any], name: str) -> None:
    """AvgPr of the test part against minutes of training, seen and unseen labels."""
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
