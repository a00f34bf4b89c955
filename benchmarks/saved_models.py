"""Loads saved models for the benchmarks that need them, and caches their logits in files.

This command trains the model of a data set of benchmarks/obvious_sets.py, `MODELS/pubmed_mesh-1/runs/auto/model`:

    python benchmarks/obvious.py --data FOLDER --systems ours --sets pubmed_mesh --seeds 1 --keep MODELS --results FILE
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, provenance, stay_offline, write_json
from obvious_sets import SETS, Task
from torch import Tensor

from hf_gile import GileForSequenceClassification, GileProcessor
from hf_gile.label_index import fingerprint
from hf_gile.models.search_gile import calibrated

BATCH = 64


@dataclass(frozen=True)
class SavedModel:
    """Holds a saved model and the data set that it was trained on.

    Args:
        task: Documents and labels; columns of logits follow its label set.
        model: The model, in evaluation mode.
        processor: The processor of the model.
        cache: Folder of the cached logits.
    """

    task: Task
    model: Any
    processor: Any
    cache: Path

    @property
    def seen(self) -> Tensor:
        """Returns a `(L,)` mask of the labels that the model was trained on."""
        return torch.tensor(self.task.labels.seen)

    def logits(self, part: str, limit: int) -> Tensor:
        """Returns `(N, L)` logits of the first documents of a part."""
        path = self.cache / f"{fingerprint(self.model)[:16]}-{self.task.name}-{part}-{limit}.pt"
        if path.is_file():
            return torch.load(path, weights_only=True)
        column_of = {label.id: column for column, label in enumerate(self.model.label_set)}
        columns = torch.tensor([column_of[label.id] for label in self.task.labels])
        texts, rows = self.task.texts[part][:limit], []
        with torch.no_grad():
            for start in range(0, len(texts), BATCH):
                words = self.processor(texts[start : start + BATCH], return_tensors="pt")
                rows.append(self.model(**words).logits.float()[:, columns])
        logits = torch.cat(rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(logits, path)
        return logits

    def probabilities(self, part: str, limit: int) -> Tensor:
        """Returns `(N, L)` probabilities under the calibration stored with the model."""
        return calibrated(self.logits(part, limit), self.seen, self.model.config.calibration).sigmoid()


def parse(description: str, arguments: argparse.ArgumentParser | None = None) -> argparse.Namespace:
    """Parses the arguments common to all benchmarks of saved models."""
    parser = arguments or argparse.ArgumentParser()
    parser.description, parser.formatter_class = description, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--model", nargs="+", required=True, metavar="SET=FOLDER", help=f"data sets: {', '.join(SETS)}")
    parser.add_argument("--cache", type=Path, required=True, help="folder of cached logits and vectors")
    parser.add_argument("--documents", type=int, default=1 << 30, help="maximum number of documents per part")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    stay_offline(options.threads)
    return options


def load(options: argparse.Namespace) -> list[SavedModel]:
    """Loads the data sets and models named by the arguments."""
    models = []
    for name, _, folder in (argument.partition("=") for argument in options.model):
        model = GileForSequenceClassification.from_pretrained(folder).eval()
        processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
        models.append(SavedModel(SETS[name](options.data, 1), model, processor, options.cache))
    return models


def measure_each(
    options: argparse.Namespace, name: str, seed: Any, measure: Callable[[SavedModel], dict[str, Any]]
) -> None:
    """Measures the models named by the arguments and adds their figures to a results file keyed by data set."""
    path = RESULTS / f"{name}.json"
    for saved in load(options):
        results = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        results[saved.task.name] = provenance(seed) | measure(saved)
        write_json(path, results)
        print(json.dumps(results[saved.task.name], indent=1))


def multi_hot(gold: Sequence[Sequence[int]], num_labels: int) -> Tensor:
    """Returns a `(N, L)` mask of the labels of each document."""
    cells = torch.zeros(len(gold), num_labels, dtype=torch.bool)
    for row, columns in zip(cells, gold, strict=True):
        row[list(columns)] = True
    return cells
