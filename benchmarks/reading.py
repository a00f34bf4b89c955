"""Compares the speed and memory of readers with bare parsers of the same files, on made up data.

    python benchmarks/reading.py

A reader and its bare parser alternate in this process; ratios compare the CPU seconds of the fastest runs. Datasets are
written to a fresh cache each time. Peak memory is that of the process while it reads these rows, and four times as
many: where rows are read one by one, it hardly grows.
"""

import argparse
import csv
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from lxml import etree
from machine import write_results
from measuring import high_water_mark

from hf_gile.data import load_skos, load_table

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))
from papers.medline import read_medline

LABELS = [f"topic {number}" for number in range(300)]
WORDS = [f"word{number}" for number in range(3000)]
BARE = {
    "csv": "csv.reader",
    "tsv": "csv.reader",
    "jsonl": "json.loads of each line",
    "json": "json.load",
    "parquet": "pyarrow.parquet.read_table",
    "xml": "lxml.etree.iterparse",
    "ttl": "rdflib.Graph.parse",
}


def rows(number: int) -> Iterator[dict[str, Any]]:
    """Draws documents of 30 words with three labels."""
    draw = random.Random(3)
    for row in range(number):
        text = " ".join(draw.choices(WORDS, k=30)) + (" über" if row % 5 == 0 else "")
        yield {"id": f"d{row}", "text": text, "labels": draw.sample(LABELS, 3)}


def write(path: Path, number: int) -> None:
    """Writes a file in the format of its suffix."""
    kind = path.suffix[1:]
    if kind == "parquet":
        with pq.ParquetWriter(path, pa.Table.from_pylist(list(rows(1))).schema) as writer:
            documents = list(rows(number))
            for start in range(0, number, 5000):
                writer.write_table(pa.Table.from_pylist(documents[start : start + 5000]))
        return
    with path.open("w", encoding="utf-8", newline="") as stream:
        if kind in ("csv", "tsv"):
            table = csv.writer(stream, delimiter="," if kind == "csv" else "\t")
            table.writerow(["id", "text", "labels"])
            table.writerows([row["id"], row["text"], "; ".join(row["labels"])] for row in rows(number))
        elif kind == "ttl":
            stream.write("@prefix : <http://example.org/> .\n@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n")
            for count, row in enumerate(rows(number)):
                names = " , ".join(f'"{word} {count}"@en' for word in row["text"].split()[:4])
                stream.write(
                    f':c{count} a skos:Concept ; skos:prefLabel "topic {count}"@en ; skos:altLabel {names} .\n'
                )
        elif kind == "xml":
            stream.write("<PubmedArticleSet>\n")
            for count, row in enumerate(rows(number), 1):
                names = "".join(
                    f'<MeshHeading><DescriptorName UI="D{name[6:]}">{name}</DescriptorName></MeshHeading>'
                    for name in row["labels"]
                )
                stream.write(
                    f'<PubmedArticle><MedlineCitation><PMID Version="1">{count}</PMID><Article><Journal>'
                    f"<JournalIssue><PubDate><Year>1976</Year></PubDate></JournalIssue></Journal><ArticleTitle>On "
                    f"{row['labels'][0]}.</ArticleTitle><Abstract><AbstractText>{row['text']}</AbstractText></Abstract>"
                    f"</Article><MeshHeadingList>{names}</MeshHeadingList></MedlineCitation></PubmedArticle>\n"
                )
            stream.write("</PubmedArticleSet>\n")
        else:
            lines = (json.dumps(row, ensure_ascii=False) for row in rows(number))
            stream.write("[" + ",\n".join(lines) + "]" if kind == "json" else "".join(f"{line}\n" for line in lines))


def read(path: Path) -> int:
    """Reads a file, and returns the number of rows."""
    kind = path.suffix[1:]
    if kind == "xml":
        return sum(1 for _ in read_medline(path))
    if kind == "ttl":
        return len(load_skos(path))
    separator = ";" if kind in ("csv", "tsv") else None
    with tempfile.TemporaryDirectory() as cache:
        return len(load_table(path, id="id", separator=separator, cache_dir=cache)[0])


def parse(path: Path) -> int:
    """Parses a file with a library alone, and returns the number of rows."""
    kind = path.suffix[1:]
    if kind == "parquet":
        return len(pq.read_table(path))
    if kind == "ttl":
        from rdflib import Graph
        from rdflib.namespace import RDF

        return sum(1 for _ in Graph().parse(path).subjects(RDF.type))
    if kind == "xml":
        count = 0
        for _, element in etree.iterparse(path, tag="PubmedArticle"):
            element.clear()
            count += 1
        return count
    with path.open(encoding="utf-8", newline="") as stream:
        if kind == "json":
            return len(json.load(stream))
        if kind == "jsonl":
            return sum(1 for line in stream if json.loads(line))
        return sum(1 for _ in csv.reader(stream, delimiter="," if kind == "csv" else "\t")) - 1


def cpu_seconds(run: Callable[[Path], int], path: Path, expected: int) -> float:
    """Returns the CPU seconds of a run, which must yield the expected number of rows."""
    start = time.process_time()
    count = run(path)
    seconds = time.process_time() - start
    if count != expected:
        raise RuntimeError(f"{run.__name__} gives {count} rows of {path.name}, not {expected}")
    return seconds


def measure(path: Path, number: int, repeats: int) -> dict[str, float]:
    """Measures a reader against its bare parser, and its memory."""
    write(path, number)
    seconds = {read: float("inf"), parse: float("inf")}
    for _ in range(repeats):
        for run, fastest in seconds.items():
            seconds[run] = min(fastest, cpu_seconds(run, path, number))
    peaks = {}
    for times in (1, 4):
        write(path, times * number)
        Path("/proc/self/clear_refs").write_text("5")  # the mark starts anew
        read(path)
        peaks[times] = high_water_mark()
    return {
        "rows_per_cpu_s": number / seconds[read],
        "bare_rows_per_cpu_s": number / seconds[parse],
        "cpu_of_bare": seconds[read] / seconds[parse],
        "peak_mib": peaks[1],
        "peak_of_four_times_mib": peaks[4],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    datasets.disable_progress_bars()
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, bare in BARE.items():
            number = options.rows // 10 if kind == "ttl" else options.rows
            runs[kind] = {"rows": number, "bare": bare, **measure(Path(folder) / f"a.{kind}", number, options.repeats)}
            sys.stdout.write(f"{kind}: {json.dumps(runs[kind])}\n")
            sys.stdout.flush()
    write_results("reading", {"setting": {"repeats": options.repeats}, "runs": runs}, seed=3)


if __name__ == "__main__":
    main()
