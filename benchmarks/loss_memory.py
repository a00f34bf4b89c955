"""Measures peak memory and time of the loss over all labels and its gradients, with and without storing the scores.

    python benchmarks/loss_memory.py

A step runs forward and backward from text codes (B, J) and the words of L labels, through the label encoder and U, to
the gradients of text codes, word vectors, U, b_u and b; B = 1024 documents, J = 500. There are three forms, and each
run has a separate process:

- chunked: `chunked_loss`, a few thousand labels at a time;
- with logits: the factorised score and `binary_cross_entropy`, which stores several (B, L) tensors;
- as printed: Eq. 10-12, which stores (B, L, J). It is not run: the size of its tensor is computed.

Memory is the growth after codes and words are loaded. If a form needs more memory than is available, the size of its
(B, L) tensors alone is reported.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from machine import write_results
from measuring import add_machine_flags, high_water_mark, in_own_process
from plots import lines

from hf_gile import GileConfig, GileModel
from hf_gile.models.losses_gile import binary_cross_entropy, multi_hot

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from papers.chunked_losses import LabelChunks, chunked_loss

WORDS, GOLD, FORMS = 4, 12, ("chunked", "with logits")


def measure(form: str, labels: int, options: argparse.Namespace) -> None:
    """Measures time and memory of a step in this process."""
    torch.manual_seed(0)
    device, dtype = options.device, getattr(torch, options.dtype)
    gile = GileModel(GileConfig(joint_size=options.joint_size)).to(device)
    words = torch.randint(1, 30_000, (labels, WORDS), device=device)
    texts = torch.randn(options.documents, options.joint_size, device=device, requires_grad=True)
    gold = torch.randint(labels // GOLD, (options.documents, GOLD), device=device)
    gold += torch.arange(GOLD, device=device) * (labels // GOLD)
    bias = gile.output_layer.classifier.bias

    def step(words: torch.Tensor, gold: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            if form == "chunked":
                chunks = LabelChunks(gile.project_labels, [words], gile.label_parameters())
                loss = chunked_loss("binary_cross_entropy", texts, gold, chunks, bias, options.chunk_size)
                loss = loss / options.documents
            else:
                logits = gile.output_layer.score(texts, gile.project_labels(words))
                loss = binary_cross_entropy(logits, multi_hot(gold, len(words)))
        loss.backward()
        return loss.detach()

    step(
        words[:64], torch.arange(GOLD, device=device).expand_as(gold)
    )  # warm-up: libraries allocate memory on first use
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, mark = torch.cuda.memory_allocated() / 2**20, lambda: torch.cuda.max_memory_allocated() / 2**20
    else:
        before, mark = high_water_mark(), high_water_mark
    start = time.perf_counter()
    loss = step(words, gold).item()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "memory_mib": mark() - before, "loss": loss}))


def free_mib(device: str) -> float:
    """Returns the available memory."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0] / 2**20
    meminfo = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in meminfo if line.startswith("MemAvailable")).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[26_104, 131_072, 1_000_000])
    parser.add_argument("--documents", type=int, default=1024)
    parser.add_argument("--joint_size", type=int, default=500)
    parser.add_argument("--chunk_size", type=int, default=4096)
    add_machine_flags(parser)
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.form:
        measure(options.form, options.labels[0], options)
        return
    settings = {
        name: getattr(options, name) for name in ("documents", "joint_size", "chunk_size", "threads", "device", "dtype")
    }
    flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    runs: dict[str, dict[str, Any]] = {form: {} for form in (*FORMS, "as printed")}
    for labels in options.labels:
        scores = options.documents * labels * 4 / 2**20
        for form in FORMS:
            # Scores, targets and gradient: four (B, L) tensors at the peak, as observed where they fit.
            if form == "with logits" and 4 * scores > 0.8 * free_mib(options.device):
                runs[form][labels] = {"needs_at_least_mib": 4 * scores}
                print(f"{form:12} {labels:9,} labels: not run, four (B, L) tensors are {4 * scores / 1024:.0f} GiB")
                continue
            output = in_own_process(__file__, *flags, "--form", form, "--labels", str(labels))
            figures = runs[form][labels] = json.loads(output.splitlines()[-1])
            # The products for U e and z, and two products for the gradients of each.
            operations = labels * options.joint_size * 2 * (3 * options.documents + 3 * 100)
            figures["gflops"] = operations / figures["seconds"] / 1e9
            print(
                f"{form:12} {labels:9,} labels: {figures['seconds']:7.1f} s {figures['memory_mib']:8.0f} MiB "
                f"{figures['gflops']:7.0f} GFLOP/s, loss {figures['loss']:.6g}"
            )
        runs["as printed"][labels] = {"needs_at_least_mib": scores * options.joint_size}
    name = "loss_memory" if options.device == "cpu" else f"loss_memory_{options.device}"
    write_results(name, {"setting": settings, "runs": runs})
    plot(name, options.documents, runs)


def plot(name: str, documents: int, runs: dict[str, dict[Any, dict[str, Any]]]) -> None:
    quantities = {
        "MiB added (as printed: computed)": {
            form: {
                int(count): figures.get("memory_mib", figures.get("needs_at_least_mib"))
                for count, figures in by_labels.items()
            }
            for form, by_labels in runs.items()
        },
        "seconds": {
            form: {int(count): figures["seconds"] for count, figures in by_labels.items() if "seconds" in figures}
            for form, by_labels in runs.items()
            if form in FORMS
        },
    }
    lines(name, f"Loss over all labels, forward and backward, {documents} documents", "labels", quantities)


if __name__ == "__main__":
    main()
