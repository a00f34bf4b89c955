"""Measures whether the memory of an evaluation grows with the number of documents.

    python benchmarks/evaluation_memory.py

A small word-attention GILE with random weights is evaluated with all of `LabelMetrics`. It scores random documents of
20 words and 12 gold labels against 26,104 labels of random words, half of them seen. Three ways are compared:
`evaluate_index`; the stock Trainer with `batch_eval_metrics=True`; and the stock Trainer with its default settings,
which stores all logits and is therefore measured on fewer documents. Every run has a separate process. Memory is the
peak of that process; the peak before the evaluation (libraries, model and index) is recorded beside it. Documents per
second cover the whole evaluation, including the creation of the documents and, with the Trainer, the loss.

Writes results/evaluation_memory.json and docs/scale/evaluation_memory.png.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import plots
import torch
from machine import write_results
from measuring import high_water_mark, in_own_process, seconds
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainingArguments

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileProcessor,
    Label,
    LabelIndex,
    LabelSet,
    build_tokenizer,
)
from hf_gile.metrics import LabelMetrics
from hf_gile.training import GileDataCollator

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from index_evaluation import evaluate_index

WORDS, GOLD, BATCH = 20, 12, 64
WAYS = {"index": "evaluate_index", "batches": "Trainer, by batches", "whole": "Trainer, all logits kept"}


class Documents(Dataset):
    """Generates random documents on demand."""

    def __init__(self, size: int, num_words: int, num_labels: int) -> None:
        self.size, self.num_words, self.num_labels = size, num_words, num_labels

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.size:
            raise IndexError(index)
        generator = np.random.default_rng([1, index])
        gold = np.unique(generator.integers(0, self.num_labels, GOLD))
        return {"input_ids": generator.integers(2, self.num_words, WORDS).tolist(), "labels": gold.tolist()}


def make(num_labels: int) -> tuple[GileForSequenceClassification, GileProcessor]:
    torch.manual_seed(0)
    names = [f"w{first} w{second} w{(first * 7 + second) % 5000}" for first, second in word_pairs(num_labels)]
    labels = LabelSet(Label(str(column), name, seen=column % 2 == 0) for column, name in enumerate(names))
    tokenizer = build_tokenizer([f"w{word}" for word in range(5000)], min_count=1)
    config = GileConfig(vocab_size=len(tokenizer), num_labels=num_labels, problem_type="multi_label_classification")
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileForSequenceClassification(config).eval()
    model.set_labels(labels, processor)
    return model, processor


def word_pairs(count: int) -> list[tuple[int, int]]:
    """Returns distinct pairs of words."""
    return [(number % 5000, number // 5000 + number % 5000) for number in range(count)]


def measure(way: str, documents: int, num_labels: int) -> None:
    """Runs an evaluation in this process and prints its figures."""
    torch.set_num_threads(1)
    model, processor = make(num_labels)
    collator = GileDataCollator(processor)
    seen = [label.seen for label in model.label_set]
    metrics = LabelMetrics(num_labels, seen)
    dataset = Documents(documents, model.config.text_config.vocab_size, num_labels)
    index = LabelIndex.build(model)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_eval_batch_size=BATCH,
            batch_eval_metrics=way == "batches",
            remove_unused_columns=False,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments, data_collator=collator, compute_metrics=metrics)
        trainer.log = lambda *args: None
        result: dict[str, float] = {}

        def evaluate() -> None:
            if way == "index":
                result.update(evaluate_index(index, model, DataLoader(dataset, BATCH, collate_fn=collator), metrics))
            else:
                metrics_by_name = trainer.evaluate(dataset)
                result.update({name.removeprefix("eval_"): value for name, value in metrics_by_name.items()})

        before = high_water_mark()
        time = seconds(evaluate)
    figures = {"peak_mib": high_water_mark(), "before_mib": before, "documents_per_second": documents / time}
    checks = {name: result[name] for name in ("average_precision", "unseen_ranking_loss", "micro_f1")}
    print(json.dumps({**figures, "metrics": checks}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument(
        "--most-kept", type=int, default=10_000, help="maximum number of documents when all logits are stored"
    )
    parser.add_argument("--labels", type=int, default=26_104)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        measure(options.way, options.documents[0], options.labels)
        return
    runs: dict[str, dict[int, dict[str, Any]]] = {way: {} for way in WAYS}
    for documents in options.documents:
        for way, name in WAYS.items():
            if way == "whole" and documents > options.most_kept:
                continue
            flags = ["--way", way, "--documents", str(documents), "--labels", str(options.labels)]
            # A Trainer may print further lines before the last.
            run = runs[way][documents] = json.loads(in_own_process(__file__, *flags).splitlines()[-1])
            print(
                f"{name:26} {documents:8,} documents {run['peak_mib']:8.0f} MiB, {run['before_mib']:.0f} before, "
                f"{run['documents_per_second']:6.0f} documents/s",
                flush=True,
            )
    first, last = options.documents[0], options.documents[-1]
    ratios = {
        f"memory of {last} documents / {first}, {WAYS[way]}": runs[way][last]["peak_mib"] / runs[way][first]["peak_mib"]
        for way in ("index", "batches")
    }
    for documents, run in runs["whole"].items():
        ratios[f"memory, all logits kept / index, {documents} documents"] = (
            run["peak_mib"] / runs["index"][documents]["peak_mib"]
        )
    for documents, run in runs["batches"].items():
        ratios[f"documents/s, index / Trainer by batches, {documents} documents"] = (
            runs["index"][documents]["documents_per_second"] / run["documents_per_second"]
        )
    for name, ratio in ratios.items():
        print(f"  {name:66} {ratio:8.2f}")
    plots.lines(
        "evaluation_memory",
        f"Evaluation over {options.labels:,} labels",
        "documents",
        {
            label: {name: {n: run[figure] for n, run in runs[way].items()} for way, name in WAYS.items()}
            for figure, label in {"peak_mib": "memory of the process, MiB", "documents_per_second": "docs/s"}.items()
        },
    )
    setting = {"labels": options.labels, "words": WORDS, "gold_labels": GOLD, "batch_size": BATCH, "threads": 1}
    write_results("evaluation_memory", {"setting": setting, "runs": runs, "ratios": ratios})


if __name__ == "__main__":
    main()
