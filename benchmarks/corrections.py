"""Measures what a service learns from corrections of labels that have no training documents.

    python benchmarks/corrections.py --data FOLDER
    python benchmarks/corrections.py --table

`hf-gile train` with default settings learns 100 intents of clinc150, and knows the names of the other 50. Then
`hf_gile.serving.Learner` gets 1, 3 and 10 training utterances of each of the 50, in turns. Accuracy is among all 150
intents, on the test utterances. `MARGIN` and `LEVERAGE` were chosen on validation utterances of seed 1.

Writes results/corrections.json; the table is that of docs/service.md.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, provenance, stay_offline, write_json
from obvious import markdown, read
from obvious_sets import Task, clinc150
from obvious_systems import batches, write_files
from transformers import AutoModelForSequenceClassification, AutoProcessor
from unseen_price import run

from hf_gile import LabelScoringPipeline
from hf_gile.models.pipeline_gile import Options
from hf_gile.models.search_gile import calibrated
from hf_gile.serving import Correction, Learner

PATH = RESULTS / "corrections.json"
NUMBERS = (0, 1, 3, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="which intents are unseen")
    parser.add_argument("--models", type=Path, help="folder of trained models, by seed; by default a temporary folder")
    parser.add_argument("--table", action="store_true", help="print the table")
    options = parser.parse_args()
    results = read(PATH)
    if options.data:
        stay_offline()
        for seed in options.seeds:
            task = clinc150(options.data, seed, "unseen")
            corrections = draw(clinc150(options.data, seed), task, seed)
            with tempfile.TemporaryDirectory() as scratch:
                folder = (options.models or Path(scratch)) / str(seed)
                rows = measure(task, corrections, folder, Path(scratch) / "learned")
            results[str(seed)] = {"rows": rows, **provenance(seed)}
            write_json(PATH, results)
    elif not options.table:
        parser.error("pass --data, or --table")
    print(table(results))


def draw(everything: Task, task: Task, seed: int) -> list[Correction]:
    """Draws training utterances of each unseen intent: the first of each, the second of each, and so on."""
    by_label: dict[str, list[str]] = {label.id: [] for label in task.labels if not label.seen}
    for text, columns in zip(everything.texts["train"], everything.gold["train"], strict=True):
        by_label.get(everything.labels[columns[0]].id, []).append(text)
    for label, texts in by_label.items():
        by_label[label] = random.Random(f"{seed} {label}").sample(texts, max(NUMBERS))
    return [Correction(by_label[label][turn], (label,)) for turn in range(max(NUMBERS)) for label in by_label]


def measure(task: Task, corrections: list[Correction], folder: Path, journal: Path) -> list[dict[str, float]]:
    """Trains a model, corrects it, and measures accuracy after each number of corrections an intent."""
    saved = folder / "runs" / "auto" / "model"
    if not saved.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        run("train", *write_files(task, folder), "--output_dir", str(folder / "runs"), "--no_baselines")
    model = AutoModelForSequenceClassification.from_pretrained(saved, trust_remote_code=False).eval()
    processor = AutoProcessor.from_pretrained(saved, trust_remote_code=False)
    pipe = LabelScoringPipeline(model=model, processor=processor)
    learner = Learner(pipe, journal)
    texts = task.texts["test"]
    options = Options(language=learner.index.language)
    encoded = [pipe.embed(pipe.tokenize(texts[rows], options), options) for rows in batches(len(texts))]
    labels = learner.index.label_set
    seen = torch.tensor(labels.seen)
    gold = torch.tensor([labels.column(task.labels[columns[0]].id) for columns in task.gold["test"]])
    seconds: list[float] = []
    rows = []
    for number in NUMBERS:
        for correction in corrections[len(seconds) : number * len(corrections) // max(NUMBERS)]:
            start = time.perf_counter()
            learner.learn([correction])
            seconds.append(time.perf_counter() - start)
        logits = torch.cat([learner.index.scores(part.codes, lexical=part.lexical) for part in encoded])
        hits = (calibrated(logits, seen, model.config.calibration).argmax(1) == gold).float()
        groups = {"all": hits, "seen": hits[seen[gold]], "unseen": hits[~seen[gold]]}
        figures = {name: values.mean().item() for name, values in groups.items()}
        rows.append({"corrections": number, **figures, "slowest_s": max(seconds, default=0.0)})
        print(rows[-1], flush=True)
    learner.close()
    return rows


def table(results: dict[str, Any]) -> str:
    """Formats the table of docs/service.md: percent, means over seeds."""
    rows = []
    for same in zip(*(of_seed["rows"] for of_seed in results.values()), strict=True):
        means = [sum(row[name] for row in same) / len(same) for name in ("unseen", "seen", "all")]
        rows.append([str(same[0]["corrections"]), *(f"{100 * mean:.1f}" for mean in means)])
    return markdown(["corrections of each new intent", "50 new intents", "100 trained intents", "all"], rows)


if __name__ == "__main__":
    main()
