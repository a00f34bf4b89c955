"""Measures speed and recall of exact and approximate search among a million labels.

    python benchmarks/search.py
    python benchmarks/search.py --model FOLDER --records test.jsonl.gz

Exact search is `LabelIndex.top_k` over codes in 32 and 16 bits. Approximate search is `recipes/approximate_search.py`,
built from the text codes of 2,000 documents. By default it reads 4 sqrt(lists) of its lists and compares the exact
scores of 2 candidates per requested label; further settings read 1/128 to 1/8 of the lists for 2 to 32 candidates. A
call scores 256 other documents on a single thread, and runs alternate. Recall is the share of the exact (32-bit) top k
labels that are returned, for k = 10 and 100. The time for a single document, the build time and memory are also
recorded. In the plot, a line connects the settings that no other setting beats in both recall and speed.

Codes come from a synthetic or a trained GILE. In the synthetic model, words have 100-dimensional vectors around 1,000
topic centres, with standard deviations that fall as d^-0.5. A label has one to four words, the first two from its
topic; a document has the words of 5 labels and 30 words of any topic. Label codes are relu(U e + b) and text codes
w * relu(V h + b) with random U = V and w > 0, because training aligns documents with their labels. The spectra of the
codes, which are part of the results, resemble those of a trained model. A trained model uses its stored labels,
combined into pairs (heading and subheading) if they are too few, and documents of a file.

Writes results/search.json and docs/scale/search.png, or search_model.json and search_model.png for a trained model.
"""

import argparse
import itertools
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import plots
import torch
from machine import write_results
from matplotlib import pyplot
from measuring import high_water_mark, in_turns, seconds
from torch import Tensor

from hf_gile import GileForSequenceClassification, GileProcessor, LabelSet

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from approximate_search import SEARCH_FILE, ApproximateSearch, FastIndex, share_found
from papers.records import read_records

KS, SAMPLE, JOINT = (10, 100), 2_000, 500
READ, CANDIDATES = (128, 32, 8), (2, 4, 8, 16, 32)


def made_codes(num_labels: int, num_documents: int) -> tuple[Tensor, Tensor]:
    """Returns label codes and text codes of the synthetic GILE that the module docstring describes."""
    generator = torch.Generator().manual_seed(0)
    size, words, topics = 100, 20_000, 1_000
    normal = partial(torch.randn, generator=generator)
    topic = torch.arange(words) * topics // words
    vectors = (normal(topics, size)[topic] + normal(words, size)) * torch.arange(1, size + 1) ** -0.5
    project, bias, unit = 2 * normal(JOINT, size) * (2 / size) ** 0.5, 0.3 * normal(JOINT), normal(JOINT).abs()

    def label_vectors(count: int) -> Tensor:
        per_topic = words // topics
        topical = torch.randint(topics, (count, 1), generator=generator) * per_topic
        topical = topical + torch.randint(per_topic, (count, 2), generator=generator)
        names = torch.cat([topical, torch.randint(words, (count, 2), generator=generator)], dim=1)
        mask = torch.rand(names.shape, generator=generator) < torch.tensor([1.0, 0.7, 0.5, 0.3])
        return (vectors[names] * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    label_codes, sampled = torch.empty(num_labels, JOINT), []
    for chunk in label_codes.split(20_000):
        embeds = label_vectors(len(chunk))
        sampled.append(embeds[:1000])
        torch.addmm(bias, embeds, project.T, out=chunk).relu_()
    embeds = torch.cat(sampled)
    gold = embeds[torch.randint(len(embeds), (num_documents, 5), generator=generator)].mean(1)
    other = vectors[torch.randint(words, (num_documents, 30), generator=generator)].mean(1)
    documents = (15 * gold + 30 * other) / 45
    return label_codes, unit * torch.relu(2 * documents @ project.T + bias)


@torch.no_grad()
def codes_of_model(folder: str, records: str, num_labels: int, num_documents: int) -> tuple[Tensor, Tensor]:
    """Returns label codes and text codes of a trained model."""
    model = GileForSequenceClassification.from_pretrained(folder).eval()
    processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
    selected = itertools.islice(read_records(records), num_documents)
    texts = [f"{record['title']} {record['abstractText']}" for record in selected]
    text_codes = [
        model.gile.project_texts(**processor(texts[start : start + 64], return_tensors="pt"))
        for start in range(0, len(texts), 64)
    ]
    words = model.label_input_ids
    unknown = processor.tokenizer.unk_token_id
    words = words[((words != unknown) & (words != model.config.text_config.pad_token_id)).any(1)]
    codes = model.gile.project_labels(words)[:num_labels]
    pairs = torch.randint(len(words), (num_labels - len(codes), 2), generator=torch.Generator().manual_seed(0))
    label_codes = codes.new_empty(num_labels, codes.shape[1])
    label_codes[: len(codes)] = codes
    for rows, chunk in zip(label_codes[len(codes) :].split(20_000), pairs.split(20_000), strict=True):
        rows.copy_(model.gile.project_labels(words[chunk].flatten(1)))
    return label_codes, torch.cat(text_codes)


def dimensions(codes: Tensor) -> dict[str, int]:
    """Returns the number of principal directions that explain 90 and 99 % of the variance."""
    explained = torch.linalg.svdvals(codes - codes.mean(0)).square().cumsum(0)
    return {f"{share} %": int((explained < share / 100 * explained[-1]).sum()) + 1 for share in (90, 99)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--documents", type=int, default=256)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64], help="dimensions of projected codes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", help="folder of a trained model")
    parser.add_argument("--records", help="documents for --model, as papers.records.read_records reads them")
    parser.add_argument("--name", help="name of the output files")
    options = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    if options.model:
        label_codes, text_codes = codes_of_model(
            options.model, options.records, options.labels, SAMPLE + options.documents
        )
    else:
        label_codes, text_codes = made_codes(options.labels, SAMPLE + options.documents)
    sample, documents = text_codes[: -options.documents], text_codes[-options.documents :]
    labels = LabelSet.from_names(f"label {column}" for column in range(options.labels))
    wide = FastIndex(labels, label_codes, 0.0, None, "")
    half = FastIndex(labels, label_codes.half(), 0.0, None, "")
    setting = {
        "labels": options.labels,
        "joint_size": label_codes.shape[1],
        "documents": options.documents,
        "sample": len(sample),
        "threads": 1,
        "codes": options.model or "made",
        "dimensions_of_label_codes": dimensions(label_codes[:: max(1, options.labels // 20_000)]),
        "dimensions_of_text_codes": dimensions(sample),
        "codes_mib": {"32 bits": label_codes.numel() * 4 / 2**20, "16 bits": label_codes.numel() * 2 / 2**20},
    }
    print(setting, flush=True)

    builds: dict[int, dict[str, Any]] = {}
    searches: dict[int, ApproximateSearch] = {}
    for size in options.sizes:

        def build(size: int = size) -> None:
            searches[size] = ApproximateSearch.build(wide, sample, size=size)

        builds[size] = {"build_s": seconds(build)}
        builds[size] |= {"lists": searches[size].num_lists, "probes": searches[size].probes}
        with tempfile.TemporaryDirectory() as folder:
            searches[size].save(folder, wide)
            builds[size]["mib"] = (Path(folder) / SEARCH_FILE).stat().st_size / 2**20
        print(f"size {size}: built in {builds[size]['build_s']:.1f} s, {builds[size]['mib']:.0f} MiB", flush=True)

    def approximate(size: int, probes: int, oversampling: int, queries: Tensor, k: int) -> Any:
        wide.search = searches[size]
        wide.search.probes, wide.search.oversampling = probes, oversampling
        return wide.top_k(queries, k, approximate=True)

    ways: dict[str, dict[str, Any]] = {"exact, 32 bits": {"run": wide.top_k}, "exact, 16 bits": {"run": half.top_k}}
    for size in options.sizes:
        lists, default = builds[size]["lists"], builds[size]["probes"]
        settings = [(default, 2), *((max(1, lists // read), factor) for read in READ for factor in CANDIDATES)]
        for probes, oversampling in settings:
            ways[f"size {size}, {probes} of {lists} lists, {oversampling} k candidates"] = {
                "run": partial(approximate, size, probes, oversampling),
                "size": size,
                "probes": probes,
                "oversampling": oversampling,
            }
    results: list[dict[str, Any]] = []
    for k in KS:
        exact = wide.top_k(documents, k)
        times = in_turns({name: partial(way["run"], documents, k) for name, way in ways.items()}, options.repeats)
        for name, way in ways.items():
            top = way["run"](documents, k)
            if way["run"] == half.top_k:  # score the same columns in 32 bits
                scores = torch.stack(
                    [wide.scores(row[None], columns)[0] for row, columns in zip(documents, top.columns, strict=True)]
                )
                top = top._replace(scores=scores)
            result = {"way": name, "k": k, **{key: value for key, value in way.items() if key != "run"}}
            result["recall"] = share_found(top, exact)
            result["documents_per_second"] = len(documents) / times[name]["median_s"]
            result["times"] = times[name]
            results.append(result)
            result["faster_than_exact"] = times["exact, 32 bits"]["median_s"] / times[name]["median_s"]
            print(
                f"k {k:3}  {name:52} recall {result['recall']:.4f} {result['documents_per_second']:8.0f} documents/s, "
                f"{result['faster_than_exact']:6.1f} x",
                flush=True,
            )

    single = {"exact, 32 bits": wide.top_k, "exact, 16 bits": half.top_k}
    single |= {f"size {size}": partial(approximate, size, builds[size]["probes"], 2) for size in options.sizes}
    single_ms = {}
    for name, run in single.items():
        times = in_turns({name: lambda run=run: [run(row[None], 10) for row in documents[:10]]}, options.repeats)
        single_ms[name] = 100 * times[name]["median_s"]
        print(f"one document at a time, k 10, {name:20} {single_ms[name]:8.2f} ms", flush=True)
    name = options.name or ("search_model" if options.model else "search")
    plot(name, options.labels, results, builds)
    write_results(
        name,
        {
            "setting": setting | {"faiss": faiss.__version__},
            "builds": builds,
            "process_mib": high_water_mark(),
            "one_document_ms": single_ms,
            "results": results,
        },
    )


def plot(name: str, num_labels: int, results: list[dict[str, Any]], builds: dict[int, dict[str, Any]]) -> None:
    figure, axes = pyplot.subplots(1, len(KS), figsize=(10, 3.8), sharey=True, layout="constrained")
    for axis, k in zip(axes, KS, strict=True):
        for number, size in enumerate(builds):
            points = [
                (result["recall"], result["documents_per_second"])
                for result in results
                if result["k"] == k and result.get("size") == size
            ]
            best = [
                (recall, speed)
                for recall, speed in sorted(points)
                if not any(other >= recall and faster > speed for other, faster in points)
            ]
            axis.plot(*zip(*points, strict=True), "o", color=f"C{number}", alpha=0.4)
            axis.plot(*zip(*best, strict=True), color=f"C{number}", label=f"approximate, size {size}")
        for marker, way in {"*": "exact, 32 bits", "x": "exact, 16 bits"}.items():
            result = next(result for result in results if result["k"] == k and result["way"] == way)
            axis.plot(result["recall"], result["documents_per_second"], marker, color="k", label=way)
        axis.set_yscale("log")
        axis.set_xlabel(f"recall@{k}")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("documents per second, one thread")
    axes[0].legend()
    figure.suptitle(f"The best of {num_labels:,} labels")
    plots.save(figure, name)


if __name__ == "__main__":
    main()
