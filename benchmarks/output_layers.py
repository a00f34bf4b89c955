"""Measures time and memory of a training step of output layers, exact and sampled.

    python benchmarks/output_layers.py

A step runs the output layer alone, forward and backward, from hidden states (N, 512) and random labels to the gradients
of the layer and of E (V, 512). Times are CPU seconds.

Exact: a softmax over all words, computed with logits ("naive"), by our chunked loss, which stores neither logits nor
g_out(E), and by torch's `linear_cross_entropy`. Each exact run has a separate process.

Sampled: section 3.2 of "Beyond Weight Tying", with 50, 25 and 5 % of 128K words. Its Table 4 compares whole translation
models: its ratios to the tied layer include the encoder and the decoder, while ours do not.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from machine import write_results
from measuring import add_machine_flags, high_water_mark, in_own_process
from torch import nn
from torch.nn import functional

from hf_gile.language_models import JointOutputEmbedding

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from papers.chunked_losses import LabelChunks, chunked_loss

SIZE = 512
LAYERS = {"tied": 0, "joint 512": 512, "joint 4096": 4096}
EXACT, SHARES = ("naive", "ours", "torch"), (0.5, 0.25, 0.05)
PAPER = {"NMT": (4.3, 5.7, 7.1), "tied": (5.2, 6.0, 7.8), "joint 512": (4.9, 5.9, 7.2), "joint 4096": (1.7, 2.9, 6.0)}


def exact_by_chunks(layer: JointOutputEmbedding, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Computes our chunked softmax; b is an additional column of the codes."""

    def encode(rows: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.cat([layer.g_out(rows), bias[:, None]], 1)

    chunks = LabelChunks(encode, [layer.weight, layer.bias], [*layer.g_out.parameters()])
    codes = layer.g_inp(hidden)
    inputs = torch.cat([codes, codes.new_ones(len(codes), 1)], 1)
    return chunked_loss("cross_entropy", inputs, labels[:, None], chunks, chunk_size=4096) / len(labels)


def measure(name: str, words: int, way: str, options: argparse.Namespace) -> dict[str, float]:
    """Measures time and memory of steps in this process."""
    torch.manual_seed(0)
    form = "joint" if LAYERS[name] else "tied"
    layer = JointOutputEmbedding(nn.Parameter(torch.randn(words, SIZE)), SIZE, LAYERS[name] or SIZE, form)
    layer.to(options.device)
    hidden = torch.randn(options.tokens, SIZE, device=options.device, requires_grad=True)
    labels = torch.randint(words, (options.tokens,), device=options.device)

    def step() -> float:
        if way == "naive":
            loss = functional.cross_entropy(layer(hidden), labels)
        elif way == "ours":
            loss = exact_by_chunks(layer, hidden, labels)
        elif way == "torch":
            chunks = nn.LinearCrossEntropyOptions()
            codes, inputs = layer.codes(), layer.g_inp(hidden)
            loss = functional.linear_cross_entropy(inputs, codes, labels, linear_bias=layer.bias, options=chunks)
        else:
            loss = layer.loss(hidden, labels, sample=float(way))
        loss.backward()
        if options.device == "cuda":
            torch.cuda.synchronize()
        return loss.item()

    clock = time.process_time if options.device == "cpu" else time.perf_counter
    before, seconds = high_water_mark(), []
    for _ in range(options.repeats):
        layer.zero_grad()
        start = clock()
        loss = step()
        seconds.append(clock() - start)
    memory = high_water_mark() - before if options.device == "cpu" else torch.cuda.max_memory_allocated() / 2**20
    fastest = min(seconds)
    return {"seconds": fastest, "tokens_per_second": options.tokens / fastest, "memory_mib": memory, "loss": loss}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[32_000, 128_000])
    parser.add_argument("--tokens", type=int, default=256, help="tokens per step")
    parser.add_argument("--repeats", type=int, default=1, help="number of steps; the fastest is reported")
    add_machine_flags(parser)
    parser.add_argument("--layer", choices=LAYERS, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.layer:
        print(json.dumps(measure(options.layer, options.words[0], options.way, options)))
        return
    settings = {name: getattr(options, name) for name in ("tokens", "repeats", "threads", "device")}
    flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]

    def exact(layer: str, words: int, way: str) -> dict[str, float]:
        output = in_own_process(__file__, *flags, "--layer", layer, "--words", str(words), "--way", way)
        figures: dict[str, float] = json.loads(output.splitlines()[-1])
        print(f"{layer:10} {words:7,} words, {way:5}: {json.dumps(figures)}", flush=True)
        return figures

    def sampled(layer: str, share: float) -> dict[str, float]:
        figures = measure(layer, max(options.words), str(share), options)
        del figures["memory_mib"]  # it includes earlier runs in this process
        print(f"{layer:10} {share:.0%}: {json.dumps(figures)}", flush=True)
        return figures

    by_way = {
        f"{layer}, {words}": {way: exact(layer, words, way) for way in EXACT}
        for words in options.words
        for layer in ("tied", "joint 512")
    }
    by_layer = {layer: {str(share): sampled(layer, share) for share in SHARES} for layer in LAYERS}
    for by_share in by_layer.values():
        for share, figures in by_share.items():
            figures["times_tied"] = figures["tokens_per_second"] / by_layer["tied"][share]["tokens_per_second"]
    paper = {
        layer: {str(share): of / tied for share, of, tied in zip(SHARES, speeds, PAPER["tied"], strict=True)}
        for layer, speeds in PAPER.items()
    }
    write_results(
        "output_layers", {"setting": settings, "exact": by_way, "sampled": by_layer, "ratios_of_paper": paper}
    )


if __name__ == "__main__":
    main()
