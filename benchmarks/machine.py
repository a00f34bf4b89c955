"""Writes results files with their provenance: commit, seed and machine."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import torch
import transformers

from hf_gile.writing import whole_file

RESULTS = Path(__file__).parent / "results"


def stay_offline(threads: int = 1) -> None:
    """Lets this process and its child processes load nothing from the Hub, and compute in `threads` threads."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": str(threads)}
    torch.set_num_threads(threads)


def machine() -> dict[str, Any]:
    """Describes the processor, the number of threads and the relevant library versions."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "date": date.today().isoformat(),
    }


def commit() -> str:
    """Returns the commit of the running code, marked if files were changed since; "unknown" outside a clone."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=RESULTS.parent, capture_output=True, text=True, check=True).stdout

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "..", *UNCOUNTED)
        return git("rev-parse", "HEAD").strip() + (" and changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


UNCOUNTED = (":(exclude)results", ":(exclude)../docs", ":(exclude)../README.md", ":(exclude)../CHANGELOG.md")
"""Files whose changes do not affect figures: results, as several are written one after the other, and pages."""


def provenance(seed: int | list[int]) -> dict[str, Any]:
    """Describes the origin of figures.

    Args:
        seed: The random seed, or the seeds of several runs.

    Returns:
        `commit`, `seed` and `machine`.
    """
    return {"commit": commit(), "seed": seed, "machine": machine()}


def write_json(path: Path, results: Any) -> None:
    """Writes a results file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as written:
        written.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def write_results(
    name: str, figures: Mapping[str, Any], seed: int | list[int] = 0, kept: Mapping[str, Any] | None = None
) -> Path:
    """Writes `results/name.json`: the figures with their commit, seed and machine.

    Args:
        name: Name of the file.
        figures: The measured figures.
        seed: The random seed, or the seeds of several runs.
        kept: The previous contents of the file, if some of its figures are reused; their provenance is stored under
            "earlier".

    Returns:
        The path of the file.
    """
    path, results = RESULTS / f"{name}.json", provenance(seed)
    if kept:
        results["earlier"] = [*kept.get("earlier", []), {key: kept.get(key) for key in PROVENANCE}]
    write_json(path, {**results, **figures})
    return path


PROVENANCE = ("commit", "seed", "machine")
"""Keys of every results file, or of every run in it."""
