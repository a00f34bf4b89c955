"""Measures the time and memory that a joint embedding adds to a training step, with as many labels as MeSH.

    python benchmarks/training_step.py

The same word-attention encoder is trained with a linear unit and with GILE: over all labels with logits; over all
labels in chunks (`ChunkedLoss`); over a sample of 0.3 % of the labels (section 4.1.1) plus the gold labels
of the batch; and by the formula as printed, which stores (documents, labels, joint size) and therefore runs on a few
documents at a time. A step consists of label sampling, forward, backward and AdamW. The systems alternate in one
process. Memory is the growth during steps in a separate process that has already loaded the model and its data.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import write_results
from measuring import add_machine_flags, high_water_mark, in_own_process, in_turns
from plots import bars

from hf_gile import GileConfig, GileForSequenceClassification
from hf_gile.models.losses_gile import binary_cross_entropy, multi_hot
from hf_gile.training import LabelSampler

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from papers.chunked_training import ChunkedLoss
from papers.literal import literal_scores

LABELS, WORDS, GOLD = 26_104, 250, 12
WARM_LABELS = 256
LITERAL_DOCUMENTS = 8
SYSTEMS = (
    "linear unit",
    "GILE, sampled 0.3 %",
    "GILE, all labels in chunks",
    "GILE, all labels, with logits",
    "GILE, formula as printed",
)
CHUNK = 4096


def make(system: str, documents: int, device: str, dtype: torch.dtype, labels: int = LABELS) -> Callable[[], float]:
    """Returns a function that runs a training step, always on the same batch."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    config = GileConfig(
        num_labels=labels,
        problem_type="multi_label_classification",
        label_prior=0.0005,
        output_layer="linear" if system == "linear unit" else "gile",
    )
    model = GileForSequenceClassification(config)
    if "sampled" in system or "chunks" in system:
        model.loss_function = ChunkedLoss(chunk_size=CHUNK if "chunks" in system else 0)
    if config.output_layer != "linear":  # names of one to five words
        words = rng.integers(1, config.text_config.vocab_size, (labels, 5))
        words[np.arange(5) >= rng.integers(1, 6, (labels, 1))] = config.text_config.pad_token_id
        model.stored_labels.input_ids = torch.from_numpy(words)
        config.label_length = 5
    model = model.to(device).train()
    # Word frequencies as in real text, because repeated words of a batch are encoded only once.
    text = torch.from_numpy(np.minimum(rng.zipf(1.2, (documents, WORDS)), config.text_config.vocab_size - 1)).to(device)
    gold = torch.from_numpy(np.stack([rng.choice(labels, GOLD, replace=False) for _ in range(documents)]))
    rows = gold.tolist()
    gold = gold.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    sampler = LabelSampler(labels, num_negatives=round(0.003 * LABELS))
    count = iter(range(1 << 30))

    def literal(rows: slice) -> torch.Tensor:
        gile = model.gile
        embeds = gile.embed_texts(text[rows])[0]
        logits = literal_scores(gile.output_layer, embeds, gile.embed_labels(model.label_input_ids))
        return binary_cross_entropy(logits, multi_hot(gold[rows], labels)) * len(embeds) / documents

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            if system == "GILE, formula as printed":
                value = 0.0
                for start in range(0, documents, LITERAL_DOCUMENTS):
                    loss = literal(slice(start, start + LITERAL_DOCUMENTS))
                    loss.backward()
                    value += loss.item()
            else:
                sample: dict[str, Any] = {}
                if "sampled" in system:
                    columns, weights = sampler(rows, next(count))
                    sample = {"sampled_columns": columns.to(device), "column_weights": weights.to(device)}
                loss = model(input_ids=text, labels=gold, **sample).loss
                loss.backward()
                value = loss.item()
        optimizer.step()
        return value

    return step


def memory(system: str, options: argparse.Namespace) -> float:
    """Returns the MiB that steps add to a separate process."""
    flags = ["--system", system, "--documents", str(options.documents), "--device", options.device]
    return float(in_own_process(__file__, *flags, "--dtype", options.dtype, "--threads", str(options.threads)))


def measure_memory(system: str, options: argparse.Namespace) -> None:
    dtype = getattr(torch, options.dtype)
    make(system, 1, options.device, dtype, WARM_LABELS)()  # warm-up: libraries allocate memory on first use
    step = make(system, options.documents, options.device, dtype)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before, mark = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated
    else:
        before, mark = high_water_mark() * 2**20, lambda: high_water_mark() * 2**20
    for _ in range(2):
        step()
    print((mark() - before) / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    add_machine_flags(parser)
    parser.add_argument("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.system:
        measure_memory(options.system, options)
        return
    steps = {
        system: make(system, options.documents, options.device, getattr(torch, options.dtype)) for system in SYSTEMS
    }
    first = {system: step() for system, step in steps.items()}
    runs = in_turns(steps, options.repeats)
    for system, figures in runs.items():
        figures["memory_mib"] = memory(system, options)
        figures["first_loss"] = first[system]
        figures["times_linear"] = figures["median_s"] / runs["linear unit"]["median_s"]
        print(
            f"{system:32}{1000 * figures['median_s']:9.0f} ms {figures['times_linear']:6.2f} x linear"
            f"{figures['memory_mib']:9.0f} MiB"
        )
    setting = {"documents": options.documents, "words": WORDS, "labels": LABELS, "joint_size": 500, "gold": GOLD}
    setting |= {"device": options.device, "dtype": options.dtype, "repeats": options.repeats}
    name = "training_step" if options.device == "cpu" else f"training_step_{options.device}"
    write_results(name, {"setting": setting, "runs": runs})
    title = f"A training step of {options.documents} documents, {LABELS:,} labels"
    columns = {
        "milliseconds": {system: 1000 * figures["median_s"] for system, figures in runs.items()},
        "MiB that a step adds": {system: figures["memory_mib"] for system, figures in runs.items()},
    }
    bars(name, title, columns)


if __name__ == "__main__":
    main()
