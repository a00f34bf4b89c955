"""Measures which settings GILE needs to outperform a linear unit, by changing a single setting at a time.

    python benchmarks/what_matters.py --records train.jsonl.gz --jobs 2 -- --num_train_epochs 14

Runs recipes/train_bioasq.py on a file of records, which the recipe splits: a tenth of the labels with 5 to 500
documents (chosen by a hash of their ids) is held out of training, and a tenth of the documents is the test part. The
test documents and unseen labels of benchmarks/pubmed_mesh.py are not used.

Writes results/what_matters.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from machine import RESULTS, write_results
from pubmed_mesh import ROOT, figures

SETTINGS = {
    "linear": ("linear", ["--embedding_std", "0.1"]),
    "linear, word vectors as large as for gile": ("linear", []),
    "linear, no word dropout": ("linear", ["--embedding_std", "0.1", "--word_dropout", "0"]),
    "gile": ("gile", []),
    "gile, no word dropout": ("gile", ["--word_dropout", "0"]),
    "gile, learning rate 1e-3": ("gile", ["--learning_rate", "1e-3"]),
    "gile, bias starts at 0": ("gile", ["--label_prior", "0.5"]),
    "gile, word vectors start at 0.02": ("gile", ["--embedding_std", "0.02"]),
    "gile, rare words of labels unknown": ("gile", ["--forget_label_words"]),
    "gile, joint size 100": ("gile", ["--joint_size", "100"]),
    "gile, tanh": ("gile", ["--hidden_act", "tanh"]),
    "gile, sample as the paper: 0.3 %, per document, unweighted": (
        "gile",
        ["--num_negatives", "36", "--per_document", "--unweighted"],
    ),
}


SEED = 42


def run(name: str, records: Path, more: list[str]) -> dict[str, Any]:
    """Trains with a setting and returns its figures."""
    unit, changed = SETTINGS[name]
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--train_files", str(records), "--units", unit, "--output_dir", folder, "--seed", str(SEED)]
        arguments += ["--no_baselines", "--lexical", "false", *more, *changed]
        command = [sys.executable, str(ROOT / "recipes" / "train_bioasq.py"), *arguments]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(f"{name}: {result.stderr[-2000:]}")
        outcome = json.loads((Path(folder) / "results.json").read_text())[unit]
    prefix = "seen_" if unit == "gile" else ""
    best = max(outcome["history"], key=lambda entry: entry[f"eval_validation_{prefix}average_precision"])
    return {
        "changed": changed,
        "best_epoch": best["epoch"],
        "minutes": round(outcome["seconds"] / 60, 1),
        **figures(unit, outcome["test"], "test_"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel runs, each on one thread")
    parser.add_argument("--only", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("recipe", nargs="*", help="arguments for every run of recipes/train_bioasq.py, after --")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    before: dict[str, Any] = {}
    if options.only != list(SETTINGS):  # further results are preserved
        before = json.loads((RESULTS / "what_matters.json").read_text())
        results = before["settings"]
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = {name: pool.submit(run, name, options.records, options.recipe) for name in options.only}
        for name, future in runs.items():
            results[name] = future.result()
            print(f"{name:60} {results[name]}", flush=True)
            content = {"recipe": options.recipe, "percent": True, "settings": results}
            write_results("what_matters", content, seed=SEED, kept=before)


if __name__ == "__main__":
    main()
