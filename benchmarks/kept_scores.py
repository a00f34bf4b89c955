"""Logits of a saved model for documents of a set of benchmarks/obvious_sets.py, kept in a file for the next benchmark.

    python benchmarks/obvious.py --data FOLDER --systems ours --sets pubmed_mesh --seeds 1 --keep KEPT --results FILE

trains the model of a set, `KEPT/pubmed_mesh-1/runs/auto/model`; `--no_baselines` and the like are those of obvious.py.
"""

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, provenance, write_json
from obvious_sets import SETS, Task
from torch import Tensor

from hf_gile import GileForSequenceClassification, GileProcessor
from hf_gile.label_index import fingerprint
from hf_gile.models.search_gile import calibrated

BATCH = 64


@dataclass(frozen=True)
class Kept:
    """A saved model, and the set that it was trained on; columns of the task are those of its label set.

    Args:
        task: Documents and labels.
        model: The model, in evaluation mode.
        processor: Its processor.
        cache: Folder of the logits.
    """

    task: Task
    model: Any
    processor: Any
    cache: Path

    @property
    def seen(self) -> Tensor:
        """`(L,)` whether each label of the task was trained on."""
        return torch.tensor(self.task.labels.seen)

    def logits(self, part: str, most: int) -> Tensor:
        """`(N, L)` logits of the first documents of a part."""
        path = self.cache / f"{fingerprint(self.model)[:16]}-{self.task.name}-{part}-{most}.pt"
        if path.is_file():
            return torch.load(path, weights_only=True)
        column_of = {label.id: column for column, label in enumerate(self.model.label_set)}
        columns = torch.tensor([column_of[label.id] for label in self.task.labels])
        texts, rows = self.task.texts[part][:most], []
        with torch.no_grad():
            for start in range(0, len(texts), BATCH):
                words = self.processor(texts[start : start + BATCH], return_tensors="pt")
                rows.append(self.model(**words).logits.float()[:, columns])
        found = torch.cat(rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(found, path)
        return found

    def probabilities(self, part: str, most: int) -> Tensor:
        """`(N, L)` probabilities, calibrated as the model is."""
        return calibrated(self.logits(part, most), self.seen, self.model.config.calibration).sigmoid()


def parse(description: str, arguments: argparse.ArgumentParser | None = None) -> argparse.Namespace:
    """Reads the arguments that all benchmarks of kept models have."""
    parser = arguments or argparse.ArgumentParser()
    parser.description, parser.formatter_class = description, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets")
    parser.add_argument("--model", nargs="+", required=True, metavar="SET=FOLDER", help=f"sets: {', '.join(SETS)}")
    parser.add_argument("--cache", type=Path, required=True, help="folder of logits and vectors")
    parser.add_argument("--documents", type=int, default=1 << 30, help="of a part at most")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    torch.set_num_threads(options.threads)
    return options


def load(options: argparse.Namespace) -> list[Kept]:
    """Loads the sets and models that the arguments name."""
    kept = []
    for name, _, folder in (one.partition("=") for one in options.model):
        model = GileForSequenceClassification.from_pretrained(folder).eval()
        processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
        kept.append(Kept(SETS[name](options.data, 1), model, processor, options.cache))
    return kept


def measure_each(options: argparse.Namespace, name: str, seed: Any, measure: Callable[[Kept], dict[str, Any]]) -> None:
    """Measures the models that the arguments name, and writes a results file keyed by set; other sets stay in it."""
    path = RESULTS / f"{name}.json"
    for kept in load(options):
        results = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        results[kept.task.name] = provenance(seed) | measure(kept)
        write_json(path, results)
        print(json.dumps(results[kept.task.name], indent=1))


def multi_hot(gold: Sequence[Sequence[int]], num_labels: int) -> Tensor:
    """`(N, L)` whether each document has each label."""
    cells = torch.zeros(len(gold), num_labels, dtype=torch.bool)
    for row, columns in zip(cells, gold, strict=True):
        row[list(columns)] = True
    return cells
