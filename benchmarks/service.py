"""Measures a service under load: throughput compared with the pipeline, response times, memory and open files.

    python benchmarks/service.py MODEL --texts FILE [--minutes 10]

Starts `hf-gile serve MODEL` and sends requests from 1, 8 and 32 concurrent clients, each of which waits for its
response before it sends the next text. In alternation, the pipeline scores the same texts in this process, in batches
of 32, and the text encoder alone reads each of them, to compare with a lone request. `cpu_ms`, of a text, without the
clients, is fair beside other work; `load` is that work, the number of other processes that compute. Afterwards 8
clients continue for `--minutes`; memory and open files of the service are recorded before and after.
"""

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain, cycle, islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlencode

import torch
from machine import write_results
from transformers import pipeline

import hf_gile  # noqa: F401
from hf_gile.data import read_documents

CLIENTS, ROUNDS, LIMIT = (1, 8, 32), 5, 10


@contextmanager
def serving(model: str) -> Iterator[tuple[int, int]]:
    """Serves a model and yields the port and the process id."""
    command = [sys.executable, "-m", "hf_gile_cli", "serve", model, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            yield (
                int(next(match[1] for line in lines if (match := re.search(r"http://127\.0\.0\.1:(\d+)", line)))),
                process.pid,
            )
        finally:
            process.terminate()


def ask(port: int, texts: list[str], clients: int) -> tuple[float, list[float]]:
    """Requests the labels of texts; returns the seconds in total and of each request."""

    def client(texts: list[str]) -> list[float]:
        connection, durations = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
        for text in texts:
            start = time.perf_counter()
            form = urlencode({"text": text, "limit": LIMIT})
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", "/v1/projects/gile/suggest", form, headers)
            response = connection.getresponse()
            if response.status != 200 or len(json.load(response)["results"]) != LIMIT:
                raise RuntimeError(f"the service responded with status {response.status} or too few labels")
            durations.append(time.perf_counter() - start)
        connection.close()
        return durations

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        by_client = list(pool.map(client, [texts[first::clients] for first in range(clients)]))
    return time.perf_counter() - start, list(chain.from_iterable(by_client))


def resources(process: int) -> dict[str, float]:
    """Measures memory, in MiB, and open files of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]
    return {"resident_mib": resident, "open_files": len(list(Path(f"/proc/{process}/fd").iterdir()))}


def cpu_seconds(process: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@torch.inference_mode()
def read_each(pipe: Any, texts: list[str]) -> None:
    """Runs the text encoder alone on each text."""
    for text in texts:
        inputs = pipe.processor.pad_documents(pipe.processor(text)["input_ids"])
        pipe.model.gile.embed_texts(**inputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--texts", required=True, help="table of texts, or text file with a text per line")
    parser.add_argument("--text", nargs="+", default=["text"], help="text columns of the table")
    parser.add_argument("--documents", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    texts = [document.text for document in islice(read_documents(options.texts, options.text), options.documents)]
    pipe = pipeline("label-scoring", model=options.model)
    runs: dict[str, dict[str, list[float]]] = {}
    load = os.getloadavg()[0]

    def record(name: str, process: int, work: Callable[[], tuple[float, list[float]] | None]) -> None:
        start, used = time.perf_counter(), cpu_seconds(process)
        seconds, durations = work() or (time.perf_counter() - start, [])
        run = runs.setdefault(name, {"documents_per_second": [], "seconds": [], "cpu_ms": []})
        run["documents_per_second"].append(len(texts) / seconds)
        run["seconds"] += durations
        run["cpu_ms"].append(1000 * (cpu_seconds(process) - used) / len(texts))

    with serving(options.model) as (port, process):
        ask(port, texts[:32], 8)
        pipe(texts[:32], top_k=LIMIT, batch_size=32)
        for _ in range(ROUNDS):
            record("encoder alone, each text", os.getpid(), lambda: read_each(pipe, texts))
            record("pipeline, batches of 32", os.getpid(), lambda: pipe(texts, top_k=LIMIT, batch_size=32) and None)
            for clients in CLIENTS:
                record(f"service, {clients} clients", process, partial(ask, port, texts, clients))
        before, requests, end = resources(process), 0, time.monotonic() + 60 * options.minutes
        stream = cycle(texts)
        while time.monotonic() < end:
            ask(port, list(islice(stream, 64)), 8)
            requests += 64
        after = resources(process)

    base = median(runs["pipeline, batches of 32"]["documents_per_second"])
    rows = {}
    for name, run in runs.items():
        speed = median(run["documents_per_second"])
        rows[name] = {"documents_per_second": speed, "times_pipeline": speed / base, "cpu_ms": median(run["cpu_ms"])}
        if run["seconds"]:
            cuts = quantiles(run["seconds"], n=100)
            rows[name] |= {"p50_ms": 1000 * cuts[49], "p99_ms": 1000 * cuts[98]}
        print(f"{name:26}" + "".join(f"  {key} {value:8.2f}" for key, value in rows[name].items()))
    long = {"minutes": options.minutes, "requests": requests, "before": before, "after": after}
    print(long)
    cpu = {name: row["cpu_ms"] for name, row in rows.items()}
    result = {"documents": len(texts), "labels": len(pipe.model.label_set), "limit": LIMIT, "load": load}
    result["lone_request_to_encoder"] = cpu["service, 1 clients"] / cpu["encoder alone, each text"]
    result["pipeline_to_32_clients"] = cpu["pipeline, batches of 32"] / cpu["service, 32 clients"]
    write_results("service", {**result, "runs": rows, "long": long})


if __name__ == "__main__":
    main()
