"""Measures what labels added to a trained model cost the labels it was trained on, and how high they rank.

    python benchmarks/unseen_price.py --data FOLDER
    python benchmarks/unseen_price.py --table

`hf-gile train` with default settings knows only the labels of its documents. Then `hf-gile labels import` adds labels:
of clinc150, a third of the intents are trained on and up to 100 are added; of TIBKAT, 3,000 titles are trained on, and
up to 18,000 subjects of the GND are added. Numbers below the maximum are samples, gold labels of test documents first.

The price is the relative loss in average precision of the seen gold labels, from the ranking of seen labels alone to
that of all labels but unseen gold ones. Unseen gold labels are ranked among all labels but seen gold ones, by ours and
by the cosine of TF-IDF vectors of texts and names.

Writes results/unseen_price.json; the table is that of docs/calibration.md.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, provenance, stay_offline, write_json
from obvious import markdown, read
from obvious_sets import Task, clinc150, gnd_labels, make_task, read_lines
from obvious_systems import batches, padded, tfidf_cosine, write_files
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoProcessor

from hf_gile.metrics import ranking_metrics
from hf_gile.models.losses_gile import multi_hot
from hf_gile.models.search_gile import calibrated

PATH = RESULTS / "unseen_price.json"
TITLES, TESTED = 3000, 1500
NUMBERS = {"clinc150": (5, 20, 100), "tibkat_titles": (10, 100, 1000, 18_000)}
ADDED = "added.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the sets")
    parser.add_argument("--sets", nargs="+", default=list(NUMBERS), choices=NUMBERS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="clinc150 is split by the seed")
    parser.add_argument("--table", action="store_true", help="print the table")
    options = parser.parse_args()
    results = read(PATH)
    if options.data:
        stay_offline()
        for name in options.sets:
            for seed in options.seeds if name == "clinc150" else options.seeds[:1]:
                task = make(name, options.data, seed)
                results.setdefault(name, {})[str(seed)] = {"rows": measure(task, NUMBERS[name]), **provenance(seed)}
                write_json(PATH, results)
    elif not options.table:
        parser.error("pass --data, or --table")
    print(table(results))


def make(name: str, data: Path, seed: int) -> Task:
    """Reads a set, in which the unseen labels are those to be added."""
    if name == "tibkat_titles":
        documents = {
            part: [(row["title"], row["subjects"]) for row in islice(read_lines(data / "tibkat" / file), number)]
            for part, file, number in (
                ("train", "train.en.jsonl.gz", TITLES),
                ("test", "dev.en.jsonl.gz", TESTED),
            )
        }
        labels = gnd_labels(read_lines(data / "tibkat" / "gnd_labels.jsonl.gz"), "en")
        return make_task(name, {**documents, "validation": []}, labels)
    task = clinc150(data, seed, "unseen")
    trained = {label.id for label in task.labels[: task.num_seen // 2]}
    documents = {
        part: [
            (text, [task.labels[column].id for column in columns])
            for text, columns in zip(task.texts[part], task.gold[part], strict=True)
            if part == "test" or task.labels[columns[0]].id in trained
        ]
        for part in ("train", "test")
    }
    return make_task(name, {**documents, "validation": []}, task.labels)


def measure(task: Task, numbers: Sequence[int]) -> list[dict[str, float]]:
    """Trains on the seen labels, adds the others, and measures prices and ranks."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        flags = write_files(task, folder)
        lines = (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / "labels.jsonl").write_text("".join(lines[: task.num_seen]), encoding="utf-8")
        (folder / ADDED).write_text("".join(lines[task.num_seen :]), encoding="utf-8")
        run("train", *flags, "--output_dir", str(folder / "runs"), "--no_baselines")
        saved = str(folder / "runs" / "auto" / "model")
        run("labels", "import", saved, str(folder / ADDED))
        model = AutoModelForSequenceClassification.from_pretrained(saved, trust_remote_code=False).eval()
        processor = AutoProcessor.from_pretrained(saved, trust_remote_code=False)
    texts = task.texts["test"]
    column_of = {label.id: column for column, label in enumerate(model.label_set)}
    columns = [column_of[label.id] for label in task.labels]
    with torch.no_grad():
        logits = [model(**processor(texts[rows], return_tensors="pt")).logits.float() for rows in batches(len(texts))]
    scores = torch.cat(logits)[:, columns]
    cosine = tfidf_cosine(task)
    cosines = torch.cat([cosine(texts[rows]) for rows in batches(len(texts))])
    order = by_use(task)
    alone = precision(scores, task, torch.arange(task.num_seen), model.config.calibration)["seen"]
    rows = []
    for number in numbers:
        chosen = torch.cat([torch.arange(task.num_seen), order[:number]])
        ours = precision(scores, task, chosen, model.config.calibration)
        other = precision(cosines, task, chosen, {})
        figures = {
            "seen": task.num_seen,
            "added": min(number, len(order)),
            "seen_alone": alone,
            "seen_among_all": ours["seen"],
            "price": 1 - ours["seen"] / alone,
        }
        ranks = {f"unseen_among_all_{name}": value for name, value in ours.items() if name != "seen"}
        beside = {f"tfidf_{name}": value for name, value in other.items() if name != "seen"}
        rows.append({**figures, **ranks, **beside})
        print(rows[-1], flush=True)
    return rows


def run(*command: str) -> None:
    """Runs hf-gile; its output goes to the terminal."""
    subprocess.run([sys.executable, "-m", "hf_gile_cli", *command], check=True, stdout=sys.stderr)


def by_use(task: Task) -> Tensor:
    """Returns the unseen labels in a random order, gold labels of test documents first."""
    unseen = task.num_seen + torch.randperm(
        len(task.labels) - task.num_seen, generator=torch.Generator().manual_seed(1)
    )
    used = {column for columns in task.gold["test"] for column in columns}
    is_used = torch.tensor([int(column) in used for column in unseen])
    return torch.cat([unseen[is_used], unseen[~is_used]])


def precision(scores: Tensor, task: Task, chosen: Tensor, calibration: dict[str, Any]) -> dict[str, float]:
    """Returns metrics of the gold labels among the candidates `chosen`, of a group without gold labels of the other.

    `seen` is the average precision of seen labels; `average_precision` and `precision_at_1` are of unseen labels.
    """
    seen = chosen < task.num_seen
    sums: dict[str, list[Tensor]] = {"seen": [], "average_precision": [], "precision_at_1": []}
    for rows in batches(len(scores)):
        gold = multi_hot(padded(task.gold["test"][rows]), len(task.labels)).bool()[:, chosen]
        values = calibrated(scores[rows][:, chosen], seen, calibration)
        of_seen = ranking_metrics(values.masked_fill(gold & ~seen, -torch.inf), gold & seen)
        of_unseen = ranking_metrics(values.masked_fill(gold & seen, -torch.inf), gold & ~seen)
        sums["seen"].append(of_seen["average_precision"])
        sums["average_precision"].append(of_unseen["average_precision"])
        sums["precision_at_1"].append(1 - of_unseen["one_error"])
    return {name: torch.cat(values).nanmean().item() for name, values in sums.items()}


def table(results: dict[str, Any]) -> str:
    """Formats the table of docs/calibration.md: percent, means over seeds."""
    rows = []
    for name, of_seeds in results.items():
        for same in zip(*(of_seed["rows"] for of_seed in of_seeds.values()), strict=True):
            mean = {figure: sum(row[figure] for row in same) / len(same) for figure in same[0]}
            shown = [f"{100 * mean[figure]:.1f}" for figure in SHOWN.values()]
            rows.append([name, f"{mean['seen']:,.0f}", f"{mean['added']:,.0f}", *shown, str(len(same))])
    return markdown(["set", "seen labels", "added", *SHOWN, "runs"], rows)


SHOWN = {
    "seen AvgPr, alone": "seen_alone",
    "among all": "seen_among_all",
    "price": "price",
    "unseen among all AvgPr": "unseen_among_all_average_precision",
    "TF-IDF cosine": "tfidf_average_precision",
    "unseen among all P@1": "unseen_among_all_precision_at_1",
    "TF-IDF cosine ": "tfidf_precision_at_1",
}


if __name__ == "__main__":
    main()
