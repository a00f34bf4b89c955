"""Millions of texts by `hf-gile score --output`: kills at random moments, one and two processes, an encoder's batches.

    python benchmarks/scale_out.py [--rows 1000000] [--kills 20]

`kills`: made rows, some of them no text, are scored by a small model of words. The process is ended by SIGKILL at
random moments of its work, and another goes on. At the end, each row must be in the parts or among the rejected ones,
once, in order, and with the scores that it has elsewhere (5,000 rows are looked at).

`processes`: rows of one process and of two that share the parts, in turns: a second of the clock, which counts on a
quiet machine only, and a CPU second, which is fair beside other work: where two processes have as many as one, two free
cores do twice the work.

All processes are forks of this one, so that no figure holds the seconds that a new process spends on imports.

`encoder`: MEDLINE abstracts by the general scorer, in turns: the pipeline in batches of 32 as they come, `GileScorer`,
which sorts them by length, and `GileScorer` with 16 bits, if the processor has them.
"""

import argparse
import json
import os
import random
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import torch
from machine import write_results

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileProcessor,
    LabelScoringPipeline,
    LabelSet,
    build_tokenizer,
)
from hf_gile.data import demo_file, read_medline
from hf_gile.scoring import GileScorer, Reading, ScoringRun, score_parts, start_run
from hf_gile.scoring.scorer import has_bf16
from hf_gile.training import general_scorer

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--documents", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)  # a fork has none of the threads that torch would wait for
    figures: dict[str, Any] = {}
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
