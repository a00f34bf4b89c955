"""Compares time and memory of the paper's formula as printed and of its factorised form, at the size of MeSH.

    python benchmarks/literal_and_fast.py

The literal form (Eq. 10-12) stores a (documents, labels, joint size) tensor; the fast form is one matrix product.
Forward and backward passes of both alternate in one process, so that other load on the machine affects both equally.
Memory is the growth of peak memory, measured in a separate process for each form.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import torch
from machine import write_results
from measuring import high_water_mark, in_own_process, in_turns
from torch import Tensor

from hf_gile import GileConfig
from hf_gile.models.scoring_gile import JointInputLabelEmbedding

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from papers.literal import literal_scores

LABELS, JOINT, SIZE = 26_104, 500, 100


def make(documents: int) -> tuple[JointInputLabelEmbedding, Tensor, Tensor]:
    torch.manual_seed(0)
    layer = JointInputLabelEmbedding(GileConfig(embedding_size=SIZE, hidden_size=SIZE, joint_size=JOINT))
    return layer, torch.randn(documents, SIZE), torch.randn(LABELS, SIZE)


def literal(layer: JointInputLabelEmbedding, texts: Tensor, labels: Tensor) -> Tensor:
    return literal_scores(layer, texts, labels)


def fast(layer: JointInputLabelEmbedding, texts: Tensor, labels: Tensor) -> Tensor:
    return layer.score(layer.project_texts(texts), layer.project_labels(labels))


def fast_cached(layer: JointInputLabelEmbedding, texts: Tensor, codes: Tensor) -> Tensor:
    return layer.score(layer.project_texts(texts), codes)


FORMS = {"literal": literal, "fast": fast}


def memory(form: str, documents: int, backward: bool) -> float:
    """Returns the MiB that a run adds to a separate process."""
    flags = ["--form", form, "--documents", str(documents)]
    return float(in_own_process(__file__, *flags, *["--backward"] * backward))


def measure_memory(form: str, documents: int, backward: bool) -> None:
    layer, texts, labels = make(documents)
    FORMS[form](layer, texts[:1], labels[:1]).sum().backward()  # warm-up: libraries allocate memory on first use
    before = high_water_mark()
    if backward:
        FORMS[form](layer, texts, labels).sum().backward()
    else:
        with torch.no_grad():
            FORMS[form](layer, texts, labels)
    print(high_water_mark() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)
    parser.add_argument("--backward", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.form:
        measure_memory(options.form, options.documents, options.backward)
        return
    layer, texts, labels = make(options.documents)
    with torch.no_grad():
        codes = layer.project_labels(labels)
        truth = literal(*(part.double() for part in (layer, texts, labels)))
        layer.float()
        errors = {name: (form(layer, texts, labels) - truth).abs().max().item() for name, form in FORMS.items()}
    without = torch.no_grad()
    runs = {f"{name} forward": without(partial(form, layer, texts, labels)) for name, form in FORMS.items()}
    runs |= {
        f"{name} forward + backward": partial(lambda form: form(layer, texts, labels).sum().backward(), form)
        for name, form in FORMS.items()
    }
    runs["fast forward, label codes kept"] = without(partial(fast_cached, layer, texts, codes))
    figures = in_turns(runs, options.repeats)
    for name in FORMS:
        for backward in (False, True):
            run = f"{name} forward + backward" if backward else f"{name} forward"
            figures[run]["memory_mib"] = memory(name, options.documents, backward)
    print(f"{options.documents} documents, {LABELS:,} labels, joint size {JOINT}, {torch.get_num_threads()} threads")
    for name, figure in figures.items():
        mib = f"{figure['memory_mib']:10.0f} MiB" if "memory_mib" in figure else ""
        print(f"  {name:32} {1000 * figure['median_s']:9.1f} ms{mib}")
    print(f"  largest error against float64: literal {errors['literal']:.1e}, fast {errors['fast']:.1e}")
    ratios = {
        f"literal / fast, {way}, {key}": figures[f"literal {way}"][key] / max(figures[f"fast {way}"][key], 1e-9)
        for way in ("forward", "forward + backward")
        for key in ("median_s", "memory_mib")
    }
    for name, ratio in ratios.items():
        print(f"  {name:48} {ratio:8.1f}")
    setting = {"documents": options.documents, "labels": LABELS, "joint_size": JOINT, "repeats": options.repeats}
    write_results("literal_and_fast", {"setting": setting, "runs": figures, "ratios": ratios, "errors": errors})


if __name__ == "__main__":
    main()
