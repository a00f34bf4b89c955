r"""Measures every table and figure of both papers on small data, and writes docs/paper_tables.md.

    python benchmarks/paper_tables.py --data FOLDER --seeds 3 --resume --jobs 2
    python benchmarks/paper_tables.py --data FOLDER --seeds 1 --resume --only "GILE, Table 2" --limit_minutes 9

Runs what benchmarks/results/paper_tables.json and the folder of the runs lack, or what is older than the code that it
depends on: the first seed of all rows first, and the cheapest first. A run leaves one file in the folder of the runs,
so a run that was killed costs only itself. Results and page are written twice a minute and at the end; `--jobs 0` only
writes them. `--only` leaves the runs of other tables as they are. `paper_stamps.py` keeps runs after a change of the
code that leaves their figures as they are.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from paper_page import page
from paper_rows import KINDS, Table, tables
from paper_runs import ROOT, Job, fingerprint, prepare, run_all

RESULTS = ROOT / "benchmarks" / "results" / "paper_tables.json"
PAGE = ROOT / "docs" / "paper_tables.md"
COMMIT = re.compile("[0-9a-f]{40}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of dw_format, pubmed_mesh and multi30k")
    parser.add_argument("--seeds", type=int, default=3, help="at most so many seeds of each row")
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at a time, each on one thread")
    parser.add_argument("--only", nargs="*", default=[""], help="tables whose titles start so; by default all")
    parser.add_argument("--limit_minutes", type=float, default=1e6, help="start no run that would end later")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "paper_tables", help="folder of the runs")
    parser.add_argument("--gpu", action="store_true", help="train on the GPU, the dearest runs first")
    parser.add_argument("--resume", action="store_true", help="keep the runs that there are")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.limit_minutes
    every = tables()
    chosen = [table for table in every if table.title.startswith(tuple(options.only))]
    if not chosen:
        parser.error(f"--only: no table starts with {options.only}; titles are {[table.title for table in every]}")
    options.runs = options.runs.resolve()
    options.runs.mkdir(parents=True, exist_ok=True)
    unchosen = names_of(every) - names_of(chosen)
    results = collect(options.runs, unchosen) if options.resume else {}
    jobs = find_jobs(chosen, results, options.seeds)
    print(f"{len(jobs)} runs, about {sum(job.run.price for job in jobs) / 3600:.1f} CPU hours", flush=True)
    failed = run(jobs, options, every, results, deadline) if jobs and options.jobs else []
    write(every, results)
    if failed:
        raise SystemExit("\n".join(["failed; see the logs:", *failed]))


def names_of(tables: Iterable[Table]) -> set[str]:
    """The names of all runs of tables."""
    return {run.name for table in tables for run in table.runs}


def run(
    jobs: list[Job], options: argparse.Namespace, every: list[Table], results: dict[str, Any], deadline: float
) -> list[str]:
    """Runs jobs and writes results and page meanwhile; returns the logs of those that failed."""
    check_data([job.run.kind for job in jobs], options.data)
    source = prepare(options.runs, {job.run.kind for job in jobs}, options.gpu)
    jobs = sorted(jobs, key=lambda job: -job.run.price) if options.gpu else jobs
    failed = []
    written = time.monotonic()
    for done, (job, succeeded) in enumerate(
        run_all(jobs, options.data.resolve(), options.runs, options.jobs, source, deadline), 1
    ):
        if succeeded:
            record = json.loads((options.runs / job.file).read_text(encoding="utf-8"))
            results.setdefault(job.run.name, {})[str(job.seed)] = record
            print(
                f"{done} of {len(jobs)}: {record['cpu_seconds']:.0f} CPU s, seed {job.seed}, {job.run.name}", flush=True
            )
        else:
            failed.append(str(options.runs / job.file.replace(".json", ".log")))
            print(f"{done} of {len(jobs)} failed: {failed[-1]}", flush=True)
        if time.monotonic() > written + 30:
            write(every, results)
            written = time.monotonic()
    return failed


def check_data(kinds: Iterable[str], data: Path | None) -> None:
    """Ends the script if a folder with data of a kind of runs is missing."""
    folders = {folder for kind in kinds for folder in KINDS[kind].data}
    missing = [folder for folder in sorted(folders) if not (data and (data / folder).is_dir())]
    if missing:
        raise SystemExit(f"--data: {data} has no folder {', '.join(missing)}")


def read(runs: Path) -> list[dict[str, Any]]:
    """Returns the records of the results file and of the folder of the runs, those that are stale first."""
    records = []
    if RESULTS.exists():
        records += expand(json.loads(RESULTS.read_text(encoding="utf-8")))
    records += [json.loads(path.read_text(encoding="utf-8")) for path in sorted(runs.glob("*.json"))]
    return sorted((record for record in records if kind_of(record) in KINDS), key=is_current)


def kind_of(record: Mapping[str, Any]) -> str:
    """The kind of the run of a record."""
    kind: str = record["run"].partition(": ")[0]
    return kind


def is_current(record: Mapping[str, Any]) -> bool:
    """Whether the code that the figures depend on has not changed since."""
    current: bool = record["code"] == fingerprint(kind_of(record))
    return current


def collect(runs: Path, unchosen: Collection[str] = ()) -> dict[str, Any]:
    """Returns the records that are not stale or not chosen, by name of the run and by seed.

    A run outside a clone, or of changed files, gets the commit of its stamp or else the current commit: both have the
    code that it ran.
    """
    import machine

    results: dict[str, Any] = {}
    for record in read(runs):
        if record["run"] not in unchosen and not is_current(record):
            continue
        if not COMMIT.fullmatch(record["commit"]):
            record["commit"] = record.get("stamped") or machine.commit()
        results.setdefault(record["run"], {})[str(record["seed"])] = record
    return results


def find_jobs(chosen: Iterable[Table], results: dict[str, Any], seeds: int) -> list[Job]:
    """Returns the runs that are missing, in the order in which to run them."""
    wanted = {
        Job(run, seed)
        for table in chosen
        for run in table.runs
        for seed in range(1, min(seeds, run.seeds) + 1)
        if str(seed) not in results.get(run.name, {})
    }
    return sorted(wanted, key=lambda job: (job.seed, job.run.price, job.run.name))


def write(every: list[Table], results: dict[str, Any]) -> None:
    """Writes the results file and the page, each atomically; runs that no table has are dropped."""
    names = names_of(every)
    there = {name: results[name] for name in sorted(names & set(results))}
    content = compress(there)
    for path, text in ((RESULTS, json.dumps(content, indent=1) + "\n"), (PAGE, page(every, there))):
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)


def compress(results: dict[str, Any]) -> dict[str, Any]:
    """Returns the content of the results file: sources (commit, machine, seeds), and runs that name theirs."""
    sources: list[dict[str, Any]] = []
    runs: dict[str, dict[str, Any]] = {}
    for name, by_seed in results.items():
        for seed, record in by_seed.items():
            source = {"commit": record["commit"], "machine": record["machine"]}
            if source not in sources:
                sources.append(source)
            keys = ("code", "stamped", "cpu_seconds", "seconds", "figures")
            shown = {key: record[key] for key in keys if key in record}
            runs.setdefault(name, {})[seed] = {"source": sources.index(source), **shown}
    for place, source in enumerate(sources):
        source["seed"] = sorted(
            {int(seed) for by_seed in runs.values() for seed, run in by_seed.items() if run["source"] == place}
        )
    return {"sources": sources, "runs": runs}


def expand(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the records of the results file."""
    records = []
    for name, by_seed in content["runs"].items():
        for seed, run in by_seed.items():
            source = content["sources"][run["source"]]
            origin = {"commit": source["commit"], "machine": source["machine"]}
            records.append({"run": name, "seed": int(seed), **run, **origin})
    return records


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
