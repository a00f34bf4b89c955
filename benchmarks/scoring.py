"""Compares scoring with stored label codes to the bare matrix product and to the formula as printed.

    python benchmarks/scoring.py

Scores the text codes of a batch of documents against the codes of L labels, J = 500. Compared are `LabelIndex.scores`
and `top_k`; the product `text_codes @ label_codes.T`, alone (our target is at most a tenth slower) and followed by
`torch.topk`; and the formula as printed (Eq. 10-12). The last stores (documents, labels, joint size), so it scores a
document at a time, and only few documents. All alternate in one process.
"""

import argparse
from functools import partial
from typing import Any

import torch
from machine import write_results
from measuring import add_machine_flags, in_turns
from plots import lines

from hf_gile import GileConfig, GileModel, Label, LabelIndex, LabelSet

JOINT, K, LITERAL_DOCUMENTS = 500, 10, 2


def measure(labels: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measures seconds per batch and documents per second of each way."""
    torch.manual_seed(0)
    dtype = getattr(torch, options.dtype)
    gile = GileModel(GileConfig(vocab_size=3, joint_size=JOINT)).to(options.device)
    codes = torch.randn(labels, JOINT, device=options.device).relu().to(dtype)
    texts = torch.randn(options.documents, JOINT, device=options.device).to(dtype)
    label_set = LabelSet(Label(f"L{column}", f"label {column}") for column in range(labels))
    index = LabelIndex(label_set, codes, -7.0, None, "none")
    unit = gile.output_layer.classifier

    def as_printed() -> None:
        for document in texts[:LITERAL_DOCUMENTS].float():
            joint = document * codes.float()
            joint @ unit.weight[0] + unit.bias

    with torch.inference_mode():
        runs = {
            "bare product": lambda: texts @ codes.T,
            "LabelIndex.scores": partial(index.scores, texts),
            "bare product and topk": lambda: (texts @ codes.T).topk(K),
            "LabelIndex.top_k": partial(index.top_k, texts, K),
            "formula as printed": as_printed,
        }
        figures: dict[str, dict[str, Any]] = in_turns(runs, options.repeats)
    for name, figure in figures.items():
        documents = LITERAL_DOCUMENTS if name == "formula as printed" else options.documents
        figure["documents_per_s"] = documents / figure["median_s"]
        figure["gflops"] = 2 * labels * JOINT * figure["documents_per_s"] / 1e9
        figure["times_bare_product"] = figures["bare product"]["documents_per_s"] / figure["documents_per_s"]
        print(
            f"{labels:9,} labels  {name:24}{figure['documents_per_s']:12,.1f} documents/s "
            f"{figure['times_bare_product']:8.2f} x bare product {figure['gflops']:9.0f} GFLOP/s"
        )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[26_104, 131_072, 1_000_000])
    parser.add_argument("--documents", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=7)
    add_machine_flags(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    runs = {labels: measure(labels, options) for labels in options.labels}
    name = "scoring" if options.device == "cpu" else f"scoring_{options.device}"
    setting = {name: getattr(options, name) for name in ("documents", "repeats", "device", "dtype")}
    write_results(name, {"setting": {**setting, "joint_size": JOINT, "top_k": K}, "runs": runs})
    systems = next(iter(runs.values()))
    speed = {
        system: {labels: figures[system]["documents_per_s"] for labels, figures in runs.items()} for system in systems
    }
    lines(name, f"Scoring {options.documents} documents with stored label codes", "labels", {"documents / s": speed})


if __name__ == "__main__":
    main()
