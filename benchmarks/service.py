"""A service under load: documents per second beside the pipeline's own, waiting times, and what it holds after a while.

    python benchmarks/service.py MODEL --texts FILE [--minutes 10]

Starts `hf-gile serve MODEL`, and asks it with 1, 8 and 32 clients at once, each of which sends the next text when it
has its answer. In turns with that, the pipeline scores the same texts in this process, in batches of 32. Then 8 clients
go on for `--minutes`; the memory and the open files of the service are noted before and after.
"""

import argparse
import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlencode

from machine import write_results
from transformers import pipeline

import hf_gile  # noqa: F401
from hf_gile.data import read_documents

CLIENTS, ROUNDS, LIMIT = (1, 8, 32), 3, 10


@contextmanager
def serving(model: str) -> Iterator[tuple[int, int]]:
    """Serves a model; gives the port and the number of the process."""
    command = [sys.executable, "-m", "hf_gile_cli", "serve", model, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            yield (
                int(next(found[1] for line in lines if (found := re.search(r"http://127\.0\.0\.1:(\d+)", line)))),
                process.pid,
            )
        finally:
            process.terminate()


def ask(port: int, texts: list[str], clients: int) -> tuple[float, list[float]]:
    """Asks for the labels of texts; gives seconds in all, and of each request."""

    def client(texts: list[str]) -> list[float]:
        connection, taken = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
        for text in texts:
            start = time.perf_counter()
            form = urlencode({"text": text, "limit": LIMIT})
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", "/v1/projects/gile/suggest", form, headers)
            answer = connection.getresponse()
            if answer.status != 200 or len(json.load(answer)["results"]) != LIMIT:
                raise RuntimeError(f"the service answered with {answer.status}")
            taken.append(time.perf_counter() - start)
        connection.close()
        return taken

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        taken = [one for some in pool.map(client, [texts[place::clients] for place in range(clients)]) for one in some]
    return time.perf_counter() - start, taken


def held(process: int) -> dict[str, float]:
    """Memory, in MiB, and open files of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]
    return {"resident_mib": resident, "open_files": len(list(Path(f"/proc/{process}/fd").iterdir()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--texts", required=True, help="a table or lines of texts")
    parser.add_argument("--text", nargs="+", default=["text"], help="columns")
    parser.add_argument("--documents", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    texts = [document.text for document in islice(read_documents(options.texts, options.text), options.documents)]
    pipe = pipeline("label-scoring", model=options.model)
    runs: dict[str, dict[str, list[float]]] = {}

    def note(name: str, seconds: float, taken: list[float]) -> None:
        run = runs.setdefault(name, {"documents_per_second": [], "seconds": []})
        run["documents_per_second"].append(len(texts) / seconds)
        run["seconds"] += taken

    with serving(options.model) as (port, process):
        ask(port, texts[:32], 8)
        pipe(texts[:32], top_k=LIMIT, batch_size=32)
        for _ in range(ROUNDS):
            start = time.perf_counter()
            pipe(texts, top_k=LIMIT, batch_size=32)
            note("pipeline, batches of 32", time.perf_counter() - start, [])
            for clients in CLIENTS:
                note(f"service, {clients} clients", *ask(port, texts, clients))
        before, asked, end = held(process), 0, time.monotonic() + 60 * options.minutes
        stream = cycle(texts)
        while time.monotonic() < end:
            ask(port, list(islice(stream, 64)), 8)
            asked += 64
        after = held(process)

    base = median(runs["pipeline, batches of 32"]["documents_per_second"])
    rows = {}
    for name, run in runs.items():
        speed = median(run["documents_per_second"])
        rows[name] = {"documents_per_second": speed, "times_pipeline": speed / base}
        if run["seconds"]:
            cuts = quantiles(run["seconds"], n=100)
            rows[name] |= {"p50_ms": 1000 * cuts[49], "p99_ms": 1000 * cuts[98]}
        print(f"{name:26}" + "".join(f"  {key} {value:8.2f}" for key, value in rows[name].items()))
    long = {"minutes": options.minutes, "requests": asked, "before": before, "after": after}
    print(long)
    labels = len(pipe.model.label_set)
    write_results("service", {"documents": len(texts), "labels": labels, "limit": LIMIT, "runs": rows, "long": long})


if __name__ == "__main__":
    main()
