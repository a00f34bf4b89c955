"""Marks runs of the papers' tables as up to date, after a change of the code that leaves their figures as they are.

    python benchmarks/paper_stamps.py --data FOLDER

A layer with stale runs is trained twice on this machine, on the first `DOCUMENTS` documents: by the code that measured
it, checked out of the history, and by the present code. If all figures but times are equal, its runs are marked with
the present commit. Otherwise `paper_tables.py --resume` measures them again.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from paper_rows import KINDS, Run, tables
from paper_runs import ROOT, prepare
from paper_tables import COMMIT, check_data, is_current, kind_of, read, write

DOCUMENTS = 300
TIMED = ("CPU s an epoch",)
LAYER = re.compile(r"--(?:units|layers) (\S+)")

CHECK = """
import importlib, json, sys, tempfile, traceback
from pathlib import Path
sys.path[:0] = ["benchmarks", "recipes"]
import paper_runs
from paper_rows import KINDS, Run
jobs, data, output = (Path(path) for path in sys.argv[1:])
with output.open("w", buffering=1) as lines:
    for kind, flags, seed in json.loads(jobs.read_text()):
        importlib.import_module(KINDS[kind].module)
        result = {"code": paper_runs.fingerprint(kind)}
        try:
            with tempfile.TemporaryDirectory() as work:
                job = paper_runs.Job(Run(kind, flags, 0.0), seed)
                result["figures"] = paper_runs.MEASURES[kind](job, data, Path(work))
        except (Exception, SystemExit):
            result["error"] = traceback.format_exc()
        lines.write(json.dumps(result) + "\\n")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of dw_format, pubmed_mesh and multi30k")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="by default all")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "paper_tables", help="folder of the runs")
    options = parser.parse_args()
    every = tables()
    results: dict[str, Any] = {}
    for record in read(options.runs):
        results.setdefault(record["run"], {})[str(record["seed"])] = record
    runs = {run.name: run for table in every for run in table.runs}
    groups = group(results, {name: run for name, run in runs.items() if run.kind in options.kinds})
    check_data(options.kinds, options.data)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        commit = prepare(work, [])["commit"]
        if not COMMIT.fullmatch(commit):
            raise SystemExit(f"commit the changes first: a mark names a commit, but this is {commit}")
        cut(options.data, work / "data")
        for before in sorted({source(records[0]) for records in groups.values()}):
            chosen = {name: records for name, records in groups.items() if source(records[0]) == before}
            jobs = [cheapest(records, runs) for records in chosen.values()]
            then, now = check(before, jobs, work), check(commit, jobs, work)
            for (name, records), old, new in zip(chosen.items(), then, now, strict=True):
                problem = difference(old, new, records[0]["code"])
                print(f"{name}, {len(records)} runs since {before[:8]}: {problem or 'the same figures'}", flush=True)
                for record in [] if problem else records:
                    record["code"], record["stamped"] = new["code"], commit
            write(every, results)


def group(results: Mapping[str, Any], runs: Mapping[str, Run]) -> dict[str, list[dict[str, Any]]]:
    """Returns the stale records by kind, output layer (or, without one, run) and code."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in (record for by_seed in results.values() for record in by_seed.values()):
        if record["run"] not in runs or is_current(record):
            continue
        if kind_of(record) == "speed":
            print(f"{record['run']}: its figures are times, which only a new run can measure")
            continue
        layer = LAYER.search(record["run"])
        name = f"{kind_of(record)} {layer[1]}" if layer else record["run"]
        groups.setdefault(f"{name} ({record['code']})", []).append(record)
    return groups


def source(record: Mapping[str, Any]) -> str:
    """The last commit whose code is known to give the figures of a record."""
    commit: str = record.get("stamped") or record["commit"]
    return commit


def cheapest(records: Iterable[Mapping[str, Any]], runs: Mapping[str, Run]) -> tuple[str, str, int]:
    """Returns the kind, flags and seed of the cheapest of some records."""
    record = min(records, key=lambda record: runs[record["run"]].price)
    return kind_of(record), runs[record["run"]].flags, record["seed"]


def cut(data: Path, target: Path) -> None:
    """Copies the first documents of each file that runs read; word vectors and lists of labels are linked."""
    folders = sorted({folder for kind in KINDS.values() for folder in kind.data})
    for file in chain.from_iterable((data / folder).rglob("*.*") for folder in folders):
        copy = target / file.relative_to(data)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.name.endswith((".pkl.gz", "_labels.json")):
            copy.symlink_to(file.resolve())
        elif file.suffix == ".json":
            content = json.loads(file.read_text(encoding="utf-8"))
            content |= {name: content[name][:DOCUMENTS] for name in ("X_ids", "Y_ids")}
            copy.write_text(json.dumps(content), encoding="utf-8")
        else:
            with gzip.open(file, "rb") as lines, gzip.open(copy, "wb", compresslevel=1) as kept:
                kept.writelines(islice(lines, DOCUMENTS))


def check(commit: str, jobs: list[tuple[str, str, int]], work: Path) -> list[dict[str, Any]]:
    """Runs jobs on the cut data with the code of a commit; returns the figures, or the error, of each."""
    tree, output, listed = work / commit, work / f"{commit}.jsonl", work / "jobs.json"
    listed.write_text(json.dumps(jobs), encoding="utf-8")
    subprocess.run(["git", "worktree", "add", "--quiet", "--force", "--detach", tree, commit], cwd=ROOT, check=True)
    environment = {"PYTHONPATH": str(tree), "HF_HOME": str(work / f"{commit}.cache")}  # no cache serves two commits
    try:
        command = [sys.executable, "-c", CHECK, listed, work / "data", output]
        with (work / "log").open("wb") as log:
            subprocess.run(command, cwd=tree, env=os.environ | environment, stdout=log, stderr=log, check=True)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{commit}: {(work / 'log').read_text(encoding='utf-8')[-2000:]}") from error
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


def difference(then: Mapping[str, Any], now: Mapping[str, Any], code: str) -> str:
    """Says why two runs do not show that the figures of a code still hold; empty if they do.

    Figures are compared to ten digits: a sum in another order differs in the last.
    """
    if then["code"] != code:
        return "the commit in the results has other code than measured them"
    for when, result in (("before", then), ("now", now)):
        if "error" in result:
            return f"it fails {when}: {result['error'].strip().splitlines()[-1]}"
    old, new = ({name: rounded(value) for name, value in result["figures"].items()} for result in (then, now))
    differing = sorted(name for name in {*old, *new} if name not in TIMED and old.get(name) != new.get(name))
    return "; ".join(f"{name} was {old.get(name)}, is {new.get(name)}" for name in differing)


def rounded(value: Any) -> str:
    """Returns a figure as JSON, with ten digits of each number."""
    return json.dumps(json.loads(json.dumps(value), parse_float=lambda digits: float(f"{float(digits):.10g}")))


if __name__ == "__main__":
    main()
