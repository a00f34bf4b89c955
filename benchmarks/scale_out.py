"""Millions of texts by `hf-gile score --output`: kills at random moments, one and two processes, an encoder's batches.

    python benchmarks/scale_out.py [--rows 1000000] [--kills 20]

`kills`: made rows, some of them no text, are scored by a small model of words. The run is killed by SIGKILL at random
moments of its work - all its processes, the first one, or a worker - and started again. At the end, each row must be in
the parts or among the rejected ones, once, in order, with the scores that it has in a run that nobody kills.

`processes`: rows a second of runs with one and with two processes, in turns, from their first part to their last.

`encoder`: MEDLINE abstracts by the general scorer, in turns: the pipeline in batches of 32 as they come, `GileScorer`,
which sorts them by length, and `GileScorer` with 16 bits, if the processor has them.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
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
from hf_gile.scoring import GileScorer
from hf_gile.scoring.scorer import has_bf16
from hf_gile.training import general_scorer

WORDS, LABELS, TOP_K, BAD_EVERY = 5000, 1000, 5, 10_007
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


def start(model: Path, texts: Path, output: Path, workers: int, part_size: float = 1) -> subprocess.Popen[bytes]:
    """Starts the command, with processes of its own group."""
    flags = {"--output": output, "--workers": workers, "--part-size": part_size, "--top-k": TOP_K}
    words = [
        sys.executable,
        "-m",
        "hf_gile_cli",
        "score",
        model,
        texts,
        *(part for flag in flags.items() for part in flag),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        list(map(str, words)),
        env=environment,
        start_new_session=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )


def parts_of(output: Path) -> list[Path]:
    return sorted(output.glob("parts/0*.parquet"))


def ended(process: subprocess.Popen[bytes]) -> None:
    said = process.communicate()[1]
    if process.returncode:
        raise RuntimeError(f"the command ended with {process.returncode}: {said.decode()[-500:]}")


def kills(folder: Path, rows: int, number: int, seed: int) -> dict[str, Any]:
    """Kills a run again and again, and looks at what is there in the end."""
    draw, output = random.Random(seed), folder / "killed"
    texts = folder / "texts.jsonl"
    with texts.open("w") as file:
        file.writelines(made_rows(rows, seed))
    begun = time.perf_counter()
    for kill in range(number):
        before, workers = len(parts_of(output)), 1 + kill % 2
        process = start(folder / "model", texts, output, workers)
        wanted = before + draw.randint(0, 2)
        while len(parts_of(output)) < max(1, wanted) and process.poll() is None:
            time.sleep(0.02)
        time.sleep(2 * draw.random())
        if process.poll() is None:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            victim = (kill // 2) % 3 if children else 0
            if victim == 2:  # a worker; the others end by themselves
                os.kill(int(children[-1]), signal.SIGKILL)
            elif victim == 1:  # the first process; its workers finish what they have begun
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        print(f"kill {kill + 1}: {len(parts_of(output))} parts")
    left = len(parts_of(output))
    ended(start(folder / "model", texts, output, 2))
    seconds = time.perf_counter() - begun
    status = json.loads(command("--output", output, "--status"))
    command("--output", output, "--merge", folder / "all.parquet")
    merged = pq.read_table(folder / "all.parquet", columns=["id", "labels", "scores"])
    ids = list(map(int, merged["id"].to_pylist()))
    expected = [number for number in range(rows) if number % BAD_EVERY != BAD_EVERY - 1]
    rejected = sum(len(path.read_text().splitlines()) for path in (output / "rejected").glob("*.jsonl"))
    lost, twice = len(set(expected) - set(ids)), len(ids) - len(set(ids))
    return {
        "rows": rows,
        "kills": number,
        "parts": status["parts"],
        "parts_after_kills": left,
        "lost": lost + (rows - len(expected) - rejected),
        "twice": twice,
        "out_of_order": sum(one != other for one, other in zip(ids, expected, strict=False)),
        "rejected": rejected,
        "other_scores": other_scores(folder, texts, merged, seed),
        "seconds": seconds,
    }


def command(*words: object) -> str:
    line = [sys.executable, "-m", "hf_gile_cli", "score", *map(str, words)]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def other_scores(folder: Path, texts: Path, merged: Any, seed: int, sample: int = 5000) -> int:
    """The number of rows, of some drawn, that have other labels or scores than where they are scored alone."""
    scorer = GileScorer(folder / "model", top_k=TOP_K)
    written = {row["id"]: row["text"] for row in map(json.loads, texts.open()) if isinstance(row["text"], str)}
    places = sorted(random.Random(seed).sample(range(len(merged)), min(sample, len(merged))))
    some = merged.take(places).to_pylist()
    columns = scorer({"text": [written[int(row["id"])] for row in some]})
    return sum(
        row["labels"] != labels or not torch.allclose(torch.tensor(row["scores"]), torch.tensor(scores), rtol=1e-5)
        for row, labels, scores in zip(some, columns["labels"], columns["scores"], strict=True)
    )


def processes(folder: Path, rows: int, seed: int) -> dict[str, dict[str, float]]:
    """Rows a second with one and with two processes, in turns."""
    texts = folder / "fewer.jsonl"
    with texts.open("w") as file:
        file.writelines(made_rows(rows, seed + 1))
    speeds: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(ROUNDS):
        for workers, found in speeds.items():
            output = folder / f"turn-{turn}-{workers}"
            ended(start(folder / "model", texts, output, workers, part_size=0.25))
            parts = sorted(parts_of(output), key=lambda path: path.stat().st_mtime_ns)
            counted = sum(pq.read_metadata(path).num_rows for path in parts[workers:])
            taken = (parts[-1].stat().st_mtime_ns - parts[workers - 1].stat().st_mtime_ns) / 1e9
            found.append(counted / taken)
    base = median(speeds[1])
    return {
        str(workers): {"rows_per_second": median(found), "times_one": median(found) / base}
        for workers, found in speeds.items()
    }


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
    parser.add_argument("--documents", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    figures: dict[str, Any] = {"encoder": encoder(options.documents)}
    print(figures)
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder) / "model", options.seed)
        figures["processes"] = processes(Path(folder), max(50_000, options.rows // 8), options.seed)
        print(figures["processes"])
        figures["kills"] = kills(Path(folder), options.rows, options.kills, options.seed)
        print(figures["kills"])
    write_results("scale_out", figures, options.seed)


if __name__ == "__main__":
    main()
