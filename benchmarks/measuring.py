"""Measures time by alternating runs in one process, and memory in separate processes."""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch


def add_machine_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for threads, device and data type; the caller passes `options.threads` to torch."""
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", help="bfloat16 stores codes in 16 bits or turns autocast on")


def seconds(run: Callable[[], object]) -> float:
    """Returns the wall-clock time of a run, including pending work on the GPU."""
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def in_turns(runs: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, float]]:
    """Times several functions in turns, so that other load on the machine affects all equally.

    Args:
        runs: Functions to time, by name; each is first run once untimed.
        repeats: Number of turns.

    Returns:
        `median_s`, `min_s` and `max_s` of each function.
    """
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(seconds(run))
    return {
        name: {"median_s": statistics.median(durations), "min_s": min(durations), "max_s": max(durations)}
        for name, durations in times.items()
    }


def high_water_mark() -> float:
    """Returns the peak memory of this process so far, in MiB; child processes would inherit the peak of getrusage."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def in_own_process(script: str, *flags: str) -> str:
    """Runs a benchmark script in a separate process, whose memory is measured alone, and returns its output.

    Raises:
        RuntimeError: If the script fails, for example because it runs out of memory.
    """
    result = subprocess.run([sys.executable, script, *flags], capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{script} {' '.join(flags)} failed ({result.returncode}): {result.stderr[-2000:]}")
    return result.stdout
