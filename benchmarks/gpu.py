"""Checks and times the package on a machine with one or more GPUs, without a network.

    python benchmarks/gpu.py
    PYTHONPATH=. python benchmarks/gpu.py --output FILE --commit HASH   # without an installation or a clone
    python benchmarks/gpu.py --sections search attention --seconds 120
    python benchmarks/gpu.py --sections tuning --data FOLDER --encoder FOLDER
    python benchmarks/gpu.py --page                                     # writes docs/gpu.md from the results

Sections are defined in benchmarks/gpu_sections.py. Each runs in a separate process with limited time, most valuable
first. Models have random weights, as nothing is downloaded, except in the section "tuning", which reads an encoder and
records. The results file is written after each section: a section that fails or is cut off records its error and the
rows that it measured. Earlier results of other sections stay.

`--tiny` runs all sections with tiny models, also on a CPU, to test this script; its figures mean nothing.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from gpu_sections import SECTIONS, Bench
from machine import RESULTS, provenance, write_json

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gpu.md"

UNITS = {"gib": "GiB", "mib": "MiB", "tflops": "TFLOP/s"}

INTRODUCTION = """# On a GPU

`python benchmarks/gpu.py` checks and times the package on a machine with one or more GPUs in less than ten minutes,
without a network, and writes `benchmarks/results/gpu.json`; `--page` writes this page from it. Models have the sizes of
known encoders, but random weights: HAN reads words with the default sizes of `GileConfig`; MiniLM, e5-small and e5-base
have the layers of these encoders. A row that did not run says why.
"""


def run_section(name: str, options: argparse.Namespace, limit: float) -> dict[str, Any]:
    """Runs a section; returns its rows, its seconds and its error, if it failed."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows, log = Path(folder) / "rows.jsonl", Path(folder) / "log"
        if options.tiny and options.device == "cpu":  # saves imports
            error = None
            SECTIONS[name].run(Bench(options.device, True, options.seed, rows))
        else:
            error = run_process(name, options, limit, rows, log)
        section: dict[str, Any] = {"seconds": time.perf_counter() - start, "rows": read_rows(rows)}
        if error is not None:
            section["error"] = error
            print(log.read_text(encoding="utf-8", errors="replace")[-2000:])
    return section


def run_process(name: str, options: argparse.Namespace, limit: float, rows: Path, log: Path) -> str | None:
    """Runs a section in a separate process for a limited time; returns its error."""
    command = [sys.executable, __file__, "--section", name, "--rows", str(rows), "--device", options.device]
    command += ["--seed", str(options.seed), *(["--tiny"] if options.tiny else [])]
    if options.data and options.encoder:
        command += ["--data", str(options.data), "--encoder", str(options.encoder)]
    with log.open("wb") as written:
        process = subprocess.Popen(
            command, stdout=written, stderr=subprocess.STDOUT, env=environment(name), start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"cut off after {limit:.0f} seconds"
        finally:
            end_group(process)
    return f"exit status {code}" if code else None


def environment(name: str) -> dict[str, str]:
    """Returns the environment of a section: the code of this folder, and no access to the Hub."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    added = {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if name != "processes":  # the Trainer would use all GPUs that it sees
        added["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    return os.environ | added


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def read_rows(path: Path) -> dict[str, Any]:
    """Reads the rows of a section; the last line may be incomplete."""
    rows: dict[str, Any] = {}
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    for line in lines:
        rows |= json.loads(line)
    return rows


def read_results(path: Path) -> dict[str, Any]:
    """Reads the results file; without one, there are no sections."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"sections": {}}


def run(options: argparse.Namespace) -> None:
    """Runs sections one after the other, and writes the results after each."""
    start, path = time.perf_counter(), options.output
    results = read_results(path)
    origin = provenance(options.seed)
    if options.commit:
        origin["commit"] = options.commit
    origin["machine"] |= {"gpus": torch.cuda.device_count(), "device": options.device}
    for number, name in enumerate(options.sections):
        left = options.seconds - (time.perf_counter() - start)
        limit = min(SECTIONS[name].limit, left)
        if limit < 5:
            section = {"seconds": 0.0, "rows": {}, "error": f"not run: --seconds {options.seconds:.0f} were used up"}
        else:
            section = run_section(name, options, limit)
        results["sections"][name] = {**origin, **section}
        write_json(path, results)
        print(summary(name, section), flush=True)
        print(f"{number + 1} of {len(options.sections)} sections, {time.perf_counter() - start:.0f} s", flush=True)


def summary(name: str, section: Mapping[str, Any]) -> str:
    """Formats the rows of a section for a terminal."""
    lines = [f"--- {name}: {section['seconds']:.0f} s {section.get('error', '')}"]
    lines += [f"{row}: {json.dumps(figures)}" for row, figures in section["rows"].items()]
    return "\n".join(lines)


# --- The page --------------------------------------------------------------------------------------------------------


def page(results: Mapping[str, Any]) -> str:
    """Formats docs/gpu.md."""
    text = INTRODUCTION
    if waiting := [section.title for name, section in SECTIONS.items() if name not in results["sections"]]:
        sentence = f"Nobody has run these sections yet: {', '.join(waiting)}."
        text += f"\n{textwrap.fill(sentence, 120)}\n"
    for name in (name for name in SECTIONS if name in results["sections"]):
        section = results["sections"][name]
        machine = section["machine"]
        text += f"\n## {SECTIONS[name].title}\n\n{textwrap.fill(SECTIONS[name].text, 120)}\n\n"
        text += f"{machine['gpu'] or machine['cpu']}, torch {machine['torch']}, transformers "
        text += f"{machine['transformers']}, {machine['date']}.\n"
        if "error" in section:
            text += f"\nThis section ended early: {section['error']}.\n"
        if section["rows"]:
            text += f"\n{table(section['rows'])}\n"
    return text


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Formats rows as a Markdown table, with a column per figure."""
    columns = list(dict.fromkeys(column for figures in rows.values() for column in figures))
    headings = [" ".join(UNITS.get(word, word) for word in column.split("_")) for column in columns]
    lines = [f"| | {' | '.join(headings)} |"]
    lines.append(f"| --- |{' --- |' * len(columns)}")
    for name, figures in rows.items():
        lines.append(f"| {name} | {' | '.join(cell(figures.get(column)) for column in columns)} |")
    return "\n".join(lines)


def cell(value: Any) -> str:
    """Formats a figure with three digits."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return " ".join(value.split()).replace("|", "\\|")[:160]
    if not math.isfinite(value):
        return str(value)
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=450, help="limit of the time of all sections")
    parser.add_argument("--output", type=Path, default=RESULTS / "gpu.json", help="the file to write")
    parser.add_argument("--commit", help="commit of the code, if this is not a clone")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="folder of tibkat, for the section tuning")
    parser.add_argument("--encoder", type=Path, help="folder of a pretrained encoder, for the section tuning")
    parser.add_argument("--tiny", action="store_true", help="test this script with tiny models")
    parser.add_argument("--page", action="store_true", help="write docs/gpu.md from the stored results")
    parser.add_argument("--section", choices=SECTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.section:
        torch.manual_seed(options.seed)
        places = options.rows, options.data, options.encoder
        SECTIONS[options.section].run(Bench(options.device, options.tiny, options.seed, *places))
    elif options.page:
        PAGE.write_text(page(read_results(options.output)), encoding="utf-8")
    elif options.tiny and options.output == RESULTS / "gpu.json":
        parser.error("--tiny needs --output: its figures are no results")
    elif options.device == "cpu" and not options.tiny:
        parser.error("this machine has no GPU that torch can use; --tiny runs tiny models on a CPU")
    else:
        run(options)


if __name__ == "__main__":
    main()
