"""Measures speed and memory of reading a large file in the BioASQ layout, as a stream and into a cached dataset.

    python benchmarks/stream_bioasq.py --gigabytes 5

Writes a file of random words first: `{"articles":[`, then an article per line. Every reader runs in a separate process.
Memory is the peak of that process and of each of its child processes; shared memory is counted in each. The memory
after importing torch, transformers and datasets is recorded separately. The simplest reader calls `json.loads` on every
line without checking or storing anything.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import write_results

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

MOST_PMIDS = 38_000_003  # a prime, about as many as PubMed has


def write_articles(path: Path, gigabytes: float) -> int:
    """Writes the file; returns the number of articles."""
    generator = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgkéüβµ"
    words = ["".join(generator.choices(letters, k=generator.randint(2, 11))) for _ in range(30_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    texts = [" ".join(generator.choices(words, weights, k=generator.randint(120, 320))) for _ in range(5_000)]
    headings = [" ".join(generator.sample(words, 2)).capitalize() for _ in range(28_000)]
    count = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{"articles":[\n')
        while file.tell() < gigabytes * 1e9:
            for _ in range(1000):
                text = generator.choice(texts)
                cut = generator.randrange(len(text))
                article = {
                    "abstractText": text[cut:] + " " + text[:cut],
                    "journal": "Journal of mice",
                    "meshMajor": generator.sample(headings, generator.randint(6, 18)),
                    "pmid": str(count * 7_654_321 % MOST_PMIDS + 1),  # unique and unordered
                    "title": text[: generator.randint(40, 120)],
                    "year": str(generator.randint(1950, 2022)),
                }
                file.write((",\n" if count else "") + json.dumps(article, ensure_ascii=count % 2 == 0))
                count += 1
        file.write("\n]}\n")
    return count


def bare(path: Path, cache: Path) -> int:
    count = 0
    with path.open("rb") as file:
        next(file)
        for line in file:
            if line.startswith(b"{"):
                json.loads(line.rstrip().rstrip(b","))
                count += 1
    return count


def ijson(path: Path, cache: Path) -> int:
    import ijson

    with path.open("rb") as file:
        return sum(1 for _ in ijson.items(file, "articles.item"))


def stream(path: Path, cache: Path) -> int:
    from papers.records import load_records

    return sum(1 for _ in load_records(path, cache_dir=cache, streaming=True)[0])


def load(path: Path, cache: Path, num_proc: int | None = None) -> int:
    from papers.records import load_records

    return len(load_records(path, cache_dir=cache, num_proc=num_proc)[0])


def load_by_two(path: Path, cache: Path) -> int:
    return load(path, cache, num_proc=2)


READINGS: dict[str, Callable[[Path, Path], int]] = {
    "json.loads of each line": bare,
    "ijson": ijson,
    "stream": stream,
    "dataset, 1 process": load,
    "dataset, 2 processes": load_by_two,
    "dataset, from the cache": load_by_two,
}


def high_water_marks() -> dict[int, int]:
    """Returns the peak memory of this process and its children in MB, by process id."""
    marks = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid, parent = int(fields["Pid"]), int(fields["PPid"])
        if "VmHWM" in fields and os.getpid() in (pid, parent):
            marks[pid] = int(fields["VmHWM"].split()[0]) // 1024
    return marks


def measure(name: str, path: Path, cache: Path) -> dict[str, Any]:
    """Runs a reader in this process."""
    marks: dict[int, int] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            marks.update(high_water_marks())

    import datasets  # noqa: F401 - imported before the measurement because it takes seconds

    import hf_gile.data  # noqa: F401

    before = high_water_marks()[os.getpid()]
    watcher = threading.Thread(target=watch)
    watcher.start()
    start, cpu_start = time.perf_counter(), sum(os.times()[:4])
    count = READINGS[name](path, cache)
    seconds, cpu_seconds = time.perf_counter() - start, sum(os.times()[:4]) - cpu_start
    done.set()
    watcher.join()
    marks.update(high_water_marks())
    return {
        "records": count,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "records_per_s": count / seconds,
        "mb_per_s": path.stat().st_size / 1e6 / seconds,
        "rss_after_imports_mb": before,
        "peak_rss_mb": sorted(marks.values(), reverse=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.2)
    parser.add_argument("--reading", choices=READINGS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reading:
        figures = measure(options.reading, options.folder / "articles.json", options.folder / "cache")
        print(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = write_articles(folder / "articles.json", options.gigabytes)
        size = (folder / "articles.json").stat().st_size
        print(f"{count:,} articles, {size / 1e9:.2f} GB")
        runs = {}
        for reading in READINGS:
            if reading == "ijson" and not _has_ijson():
                continue
            if reading != "dataset, from the cache":
                shutil.rmtree(folder / "cache", ignore_errors=True)
            command = [sys.executable, __file__, "--reading", reading, "--folder", name]
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            run = runs[reading] = json.loads(output.splitlines()[-1])
            if run["records"] != count:
                raise ValueError(f"{reading}: read {run['records']:,} of {count:,} records")
            memory = ", ".join(map(str, run["peak_rss_mb"]))
            print(
                f"  {reading:26} {run['seconds']:8.1f} s, {run['cpu_seconds']:8.1f} s of CPU "
                f"{run['records_per_s']:10,.0f} records/s {run['mb_per_s']:8.1f} MB/s   "
                f"{memory} MB, {run['rss_after_imports_mb']} of imports"
            )
    setting = {"gigabytes": options.gigabytes, "articles": count, "bytes": size}
    write_results("stream_bioasq", {"setting": setting, "runs": runs})


def _has_ijson() -> bool:
    import importlib.util

    return importlib.util.find_spec("ijson") is not None


if __name__ == "__main__":
    main()
