"""Feeds damaged files and odd values to every entry point of the package and records the outcomes.

    python benchmarks/reliability.py --cases 1000
    python benchmarks/reliability.py --table        # the tables of docs/reliability.md

The targets are those of tests/fuzz, which the slow tests also run. The targets of a section share a process with
limited memory, and each case has limited CPU time. A crash is any outcome except a result or a short refusal.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from machine import RESULTS, write_results

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fuzz"))

import fuzzing


def tables(figures: dict[str, Any]) -> dict[str, str]:
    """Returns the table of each section."""
    by_section = {}
    for section, results in figures["sections"].items():
        rows = ["| target | cases | taken | refused | crashes | MiB | seconds |", "| --- |" + " ---: |" * 6]
        sums = [0] * 4
        for name, result in results.items():
            counts = [result["cases"], result["taken"], result["refused"], sum(result["crashes"].values())]
            sums = [total + count for total, count in zip(sums, counts, strict=True)]
            numbers = [*(f"{count:,}" for count in counts), f"{result['peak_mib']:.0f}", f"{result['seconds']:.0f}"]
            rows.append(f"| {name} | {' | '.join(numbers)} |")
        peak = max(result["peak_mib"] for result in results.values())
        seconds = sum(result["seconds"] for result in results.values())
        totals = [*(f"{total:,}" for total in sums), f"{peak:.0f}", f"{seconds:.0f}"]
        rows.append(f"| all | {' | '.join(totals)} |")
        by_section[section] = "\n".join(rows)
    return by_section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000, help="number of cases per target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", action="store_true", help="print the tables of the stored results")
    options = parser.parse_args()
    if options.table:
        for title, table in tables(json.loads((RESULTS / "reliability.json").read_text(encoding="utf-8"))).items():
            print(f"## {title}\n\n{table}\n")
        return
    sections: dict[str, list[str]] = {}
    for name, target in fuzzing.targets().items():
        sections.setdefault(target.section, []).append(name)
    with ThreadPoolExecutor(2) as processes:
        outcomes = processes.map(lambda names: fuzzing.run(names, options.cases, options.seed), sections.values())
        results = dict(zip(sections, outcomes, strict=True))
    write_results("reliability", {"sections": results}, options.seed)


if __name__ == "__main__":
    main()
