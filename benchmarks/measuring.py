"""How benchmarks measure: runs in turns in one process, and memory in a process of its own."""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch


def add_machine_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that say where a benchmark runs; call `torch.set_num_threads(options.threads)` with them."""
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", help="bfloat16 for half the bits: of codes, or by autocast")


def seconds(run: Callable[[], object]) -> float:
    """Wall-clock time of one run; on a GPU until it has done all it was given."""
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def in_turns(runs: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, float]]:
    """Times several things in turns, so that what else the machine does hits all alike.

    Args:
        runs: What to time, by name; each is run once before, not timed.
        repeats: Number of turns.

    Returns:
        `median_s`, `min_s` and `max_s` of each.
    """
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(seconds(run))
    return {
        name: {"median_s": statistics.median(taken), "min_s": min(taken), "max_s": max(taken)}
        for name, taken in times.items()
    }


def high_water_mark() -> float:
    """Most memory that this process has held so far, MiB; not getrusage, whose mark is inherited by child processes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def in_own_process(script: str, *flags: str) -> str:
    """Runs a benchmark script again with other flags, so that what it holds is its own; returns what it prints.

    Raises:
        RuntimeError: It fails; killed for want of memory, for example.
    """
    result = subprocess.run([sys.executable, script, *flags], capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{script} {' '.join(flags)} failed ({result.returncode}): {result.stderr[-2000:]}")
    return result.stdout
