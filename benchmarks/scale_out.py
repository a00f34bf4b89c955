"""Millions of texts by `hf-gile score --output`: kills at random moments, one and two processes, an encoder's batches.

    python benchmarks/scale_out.py [--rows 1000000] [--kills 20] [--data FOLDER [--static MODEL] [--only real]]

`kills`: made rows, some of them no text, are scored by a small model of words. The process is ended by SIGKILL at
random moments of its work, and another goes on. At the end, each row must be in the parts or among the rejected ones,
once, in order, and with the scores that it has elsewhere (5,000 rows are looked at).

`processes`: rows of one process and of two that share the parts, in turns: a second of the clock, which counts on a
quiet machine only, and a CPU second, which is fair beside other work: where two processes have as many as one, two free
cores do twice the work.

All processes are forks of this one, so that no figure holds the seconds that a new process spends on imports.

`encoder`: MEDLINE abstracts by the general scorer, in turns: the pipeline in batches of 32 as they come, `GileScorer`,
which sorts them by length, and `GileScorer` with 16 bits, if the processor has them.

`real`: a million real texts by `hf-gile score --output` and a model with a static encoder, in a single process.
`--data` is the folder of the sets, and `--static` a model; by default `hf-gile train --text_encoder static` trains it
on 6,000 titles of pubmed_mesh with their 150 most frequent headings. The texts are distinct sentences of abstracts
(pubmed_mesh, TIBKAT in English and German), utterances (clinc150) and captions (multi30k); then whole abstracts; then
pairs of neighbouring sentences, as many as the million needs. A tenth of them is scored before, to compare the memory.
"""

import argparse
import gzip
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import torch
from machine import RESULTS, write_results

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileProcessor,
    LabelScoringPipeline,
    LabelSet,
    build_tokenizer,
)
from hf_gile.scoring import GileScorer, Reading, ScoringRun, score_parts, start_run
from hf_gile.scoring.scorer import has_bf16
from hf_gile.training import general_scorer

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))
from papers.medline import demo_file, read_medline

WORDS, LABELS, TOP_K, BAD_EVERY, PARTS = 5000, 50, 5, 10_007, 64
ROUNDS = 3


def make_model(folder: Path, seed: int) -> None:
    """Saves a small model of words that nobody trained."""
    torch.manual_seed(seed)
    words = [f"w{number}" for number in range(WORDS)]
    tokenizer = build_tokenizer([" ".join(words)], min_count=1)
    sizes = {"embedding_size": 32, "hidden_size": 32, "attention_size": 16, "joint_size": 32}
    problem = "multi_label_classification"
    config = GileConfig(vocab_size=len(tokenizer), num_labels=LABELS, problem_type=problem, **sizes)
    processor, model = GileProcessor.for_config(tokenizer, config), GileForSequenceClassification(config).eval()
    model.set_labels(
        LabelSet.from_names([f"{one} {other}" for one, other in zip(words[:LABELS], words[-LABELS:], strict=True)]),
        processor,
    )
    for part in (model, processor):
        part.save_pretrained(folder)


def made_rows(rows: int, seed: int) -> Iterator[str]:
    """Lines of JSON: an id and some words, frequent ones more often; here and there a number in the place of a text."""
    draw = random.Random(seed)
    for number in range(rows):
        words = " ".join(f"w{int(WORDS * draw.random() ** 3)}" for _ in range(draw.randint(3, 14)))
        text = number if number % BAD_EVERY == BAD_EVERY - 1 else words
        yield json.dumps({"id": number, "text": text}) + "\n"


def forked(run: ScoringRun, scorer: GileScorer, shard: int = 0, shards: int = 1) -> int:
    """Scores parts in a fork of this process; returns its number."""
    child = os.fork()
    if child == 0:
        for _ in score_parts(run, run.left(shard, shards), scorer, 1):
            pass
        os._exit(0)
    return child


def wait_for(child: int) -> None:
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("a process failed")


def start(texts: Path, output: Path, scorer: GileScorer) -> ScoringRun:
    return start_run(output, [texts], scorer, Reading(part_bytes=texts.stat().st_size // PARTS))


def kills(folder: Path, scorer: GileScorer, rows: int, number: int, seed: int) -> dict[str, Any]:
    """Kills a run again and again, and looks at what is there in the end."""
    draw, output, texts = random.Random(seed), folder / "killed", folder / "texts.jsonl"
    with texts.open("w") as file:
        file.writelines(made_rows(rows, seed))
    before, after_kills = cpu_of_children(), []
    while True:
        run = start(texts, output, scorer)
        child = forked(run, scorer)
        if len(after_kills) == number:
            break
        wanted = max(0, len(run.left()) - draw.randint(0, 2 * PARTS // (number + 1) - 1))
        while len(run.left()) > wanted:
            time.sleep(0.02)
        time.sleep(draw.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        after_kills.append(len(run.left()))
        print(f"kill {len(after_kills)}: {after_kills[-1]} parts left", flush=True)
    wait_for(child)
    cpu_seconds = cpu_of_children() - before
    run.merge(folder / "all.parquet")
    merged = pq.read_table(folder / "all.parquet", columns=["id", "labels", "scores"])
    ids = list(map(int, merged["id"].to_pylist()))
    expected = [number for number in range(rows) if number % BAD_EVERY != BAD_EVERY - 1]
    rejected = sum(len(path.read_text().splitlines()) for path in (output / "rejected").glob("*.jsonl"))
    return {
        "rows": rows,
        "parts": len(run.parts),
        "parts_left_after_each_kill": after_kills,
        "lost": len(set(expected) - set(ids)) + rows - len(expected) - rejected,
        "twice": len(ids) - len(set(ids)),
        "out_of_order": sum(one != other for one, other in zip(ids, expected, strict=False)),
        "rejected": rejected,
        "other_scores": other_scores(scorer, texts, merged, seed),
        "rows_per_cpu_second": rows / cpu_seconds,
    }


def other_scores(scorer: GileScorer, texts: Path, merged: Any, seed: int, sample: int = 5000) -> int:
    """The number of rows, of some drawn, that have other labels or scores than where they are scored alone."""
    written = {row["id"]: row["text"] for row in map(json.loads, texts.open()) if isinstance(row["text"], str)}
    places = sorted(random.Random(seed).sample(range(len(merged)), min(sample, len(merged))))
    some = merged.take(places).to_pylist()
    columns = scorer({"text": [written[int(row["id"])] for row in some]})
    return sum(
        row["labels"] != labels or not torch.allclose(torch.tensor(row["scores"]), torch.tensor(scores), rtol=1e-5)
        for row, labels, scores in zip(some, columns["labels"], columns["scores"], strict=True)
    )


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processes(folder: Path, scorer: GileScorer, rows: int, seed: int) -> dict[str, dict[str, float]]:
    """Rows a second, by the clock and by the processor, of one process and of two, in turns."""
    texts = folder / "fewer.jsonl"
    with texts.open("w") as file:
        file.writelines(made_rows(rows, seed + 1))
    speeds: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for turn in range(ROUNDS):
        for shards, found in speeds.items():
            run = start(texts, folder / f"turn-{turn}-{shards}", scorer)
            begun, used = time.perf_counter(), cpu_of_children()
            for child in [forked(run, scorer, shard, shards) for shard in range(shards)]:
                wait_for(child)
            found.append((rows / (time.perf_counter() - begun), rows / (cpu_of_children() - used)))
    figures: dict[str, dict[str, float]] = {}
    for shards, found in speeds.items():
        for name, values in zip(("second", "cpu_second"), zip(*found, strict=True), strict=True):
            figures.setdefault(str(shards), {})[f"rows_per_{name}"] = median(values)
            figures[str(shards)][f"times_one_per_{name}"] = median(values) / figures["1"][f"rows_per_{name}"]
    return figures


def encoder(documents: int) -> dict[str, dict[str, float]]:
    """Documents a second of the general scorer's encoder, in turns."""
    records = islice(read_medline(demo_file()), documents)
    texts = [f"{record['title']}\n{record['abstractText']}" for record in records]
    model, processor = general_scorer(texts[:10])
    labels = LabelSet.from_names(["Infant", "Heart Failure", "Blood", "Neoplasms", "Genes", "Rats"])
    pipe = LabelScoringPipeline(model=model, processor=processor)
    ways: dict[str, Any] = {
        "pipeline, batches of 32": lambda: pipe(texts, labels, top_k=3, batch_size=32),
        "GileScorer": GileScorer(model, labels, processor=processor, top_k=3),
    }
    if has_bf16(model.device):
        ways["GileScorer, bf16"] = GileScorer(model, labels, processor=processor, top_k=3, bf16=True)
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            begun = time.process_time()
            way({"text": texts}) if isinstance(way, GileScorer) else way()
            speeds[name].append(len(texts) / (time.process_time() - begun))
    base = median(speeds["pipeline, batches of 32"])
    return {
        name: {"documents_per_cpu_second": median(found), "times_pipeline": median(found) / base}
        for name, found in speeds.items()
    }


TITLES, HEADINGS = 6000, 150
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ0-9(])")


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def train_static(data: Path, folder: Path) -> str:
    """Trains a model with a static encoder on titles with frequent headings; returns its folder."""
    rows = list(map(json.loads, read_lines(data / "pubmed_mesh" / "train.jsonl.gz")))
    counts = Counter(chain.from_iterable(row["meshMajor"] for row in rows))
    frequent = {name for name, _ in counts.most_common(HEADINGS)}
    pairs = ((row["title"], [name for name in row["meshMajor"] if name in frequent]) for row in rows)
    titles = ({"text": title, "labels": names} for title, names in pairs if names)
    with (folder / "titles.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in islice(titles, TITLES))
    command = [sys.executable, "-m", "hf_gile_cli", "train", "--train_files", str(folder / "titles.jsonl")]
    command += ["--labels", "labels", "--text_encoder", "static", "--output_dir", str(folder / "run")]
    subprocess.run([*command, "--no_baselines"], check=True)
    return str(folder / "run" / "auto" / "model")


def real_texts(data: Path) -> Iterator[tuple[str, str]]:
    """Yields real texts, some of them several times, and what they are."""
    abstracts: list[str] = []
    for name in ("train", "validation", "test"):
        abstracts += (json.loads(line)["abstractText"] for line in read_lines(data / f"pubmed_mesh/{name}.jsonl.gz"))
    for name in ("train.en", "train.de", "dev.en", "dev.de"):
        abstracts += (json.loads(line)["abstract"] for line in read_lines(data / f"tibkat/{name}.jsonl.gz"))
    sentences = [SENTENCE_END.split(text) for text in abstracts]
    yield from (("sentences", sentence) for sentence in chain.from_iterable(sentences))
    clinc = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    yield from (("utterances", text) for rows in clinc.values() for text, _ in rows)
    for path in sorted((data / "multi30k").glob("*.gz")):
        yield from (("captions", line) for line in read_lines(path))
    yield from (("abstracts", text) for text in abstracts)
    yield from (("pairs of sentences", f"{one} {other}") for parts in sentences for one, other in pairwise(parts))


def distinct(texts: Iterator[tuple[str, str]], rows: int, seed: int) -> list[tuple[str, str]]:
    """Returns the first distinct texts, shuffled."""
    first: dict[str, str] = {}
    for kind, text in texts:
        if len(text) > 15:
            first.setdefault(text, kind)
        if len(first) == rows:
            break
    shuffled = [(kind, text) for text, kind in first.items()]
    random.Random(seed).shuffle(shuffled)
    return shuffled


def peak_of(process: int) -> int:
    """The largest memory that a process has had, in KiB; 0 if it has ended."""
    match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(match[1]) if match else 0


def real(folder: Path, data: Path, model: str | None, rows: int, seed: int) -> dict[str, Any]:
    """Scores real texts by the command, a tenth and all; time, memory and output."""
    model = model or train_static(data, folder)
    texts = distinct(real_texts(data), rows, seed)
    runs = {}
    for number in (len(texts) // 10, len(texts)):
        file = folder / f"{number}.jsonl"
        with file.open("w", encoding="utf-8") as opened:
            opened.writelines(json.dumps({"id": row, "text": texts[row][1]}) + "\n" for row in range(number))
        output = folder / f"scored-{number}"
        command = [sys.executable, "-m", "hf_gile_cli", "score", model, str(file)]
        begun, used = time.perf_counter(), cpu_of_children()
        child = subprocess.Popen([*command, "--output", str(output), "--top-k", str(TOP_K)])
        peak = 0
        while child.poll() is None:
            peak = max(peak, peak_of(child.pid))
            time.sleep(0.5)
        if child.returncode:
            raise RuntimeError("the command failed")
        seconds, cpu_seconds = time.perf_counter() - begun, cpu_of_children() - used
        runs[str(number)] = {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "texts_per_second": number / seconds,
            "texts_per_cpu_second": number / cpu_seconds,
            "peak_mib": peak / 1024,
            "input_mib": file.stat().st_size / 2**20,
            "output_mib": sum(path.stat().st_size for path in output.glob("parts/*")) / 2**20,
            "rows": sum(pq.read_metadata(path).num_rows for path in output.glob("parts/*.parquet")),
        }
        print(runs[str(number)], flush=True)
    labels = len(LabelSet.load(Path(model) / "labels.jsonl"))
    return {"texts": dict(Counter(kind for kind, _ in texts)), "labels": labels, "runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--documents", type=int, default=48)
    parser.add_argument("--data", type=Path, help="folder of pubmed_mesh, tibkat, clinc150 and multi30k, for `real`")
    parser.add_argument("--static", help="model with a static encoder")
    parser.add_argument("--only", choices=["real"], help="measure this, and keep the other figures")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.only and options.data is None:
        parser.error("pass --data")
    torch.set_num_threads(1)  # a fork has none of the threads that torch would wait for
    figures: dict[str, Any] = {}
    if options.data is not None:
        with tempfile.TemporaryDirectory() as folder:
            figures["real"] = real(Path(folder), options.data, options.static, options.rows, options.seed)
    if options.only:
        before = json.loads((RESULTS / "scale_out.json").read_text(encoding="utf-8"))
        others = {name: before[name] for name in ("kills", "processes", "encoder")}
        write_results("scale_out", others | figures, options.seed, kept=before)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder) / "model", options.seed)
        scorer = GileScorer(Path(folder) / "model", top_k=TOP_K)
        figures["kills"] = kills(Path(folder), scorer, options.rows, options.kills, options.seed)
        print(figures["kills"])
        figures["processes"] = processes(Path(folder), scorer, options.rows // 30, options.seed)
        print(figures["processes"])
    figures["encoder"] = encoder(options.documents)
    print(figures["encoder"])
    write_results("scale_out", figures, options.seed)


if __name__ == "__main__":
    main()
