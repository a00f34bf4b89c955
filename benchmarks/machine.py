"""What a benchmark ran on, to stand beside its figures, and how these are written."""

import json
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


def machine() -> dict[str, Any]:
    """The processor, its threads and the versions that matter."""
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
    """The commit of the code that runs, and whether it was changed since; "unknown" outside a clone."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=RESULTS.parent, capture_output=True, text=True, check=True).stdout

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "..", *UNCOUNTED)
        return git("rev-parse", "HEAD").strip() + (" and changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


UNCOUNTED = (":(exclude)results", ":(exclude)../docs", ":(exclude)../README.md", ":(exclude)../CHANGELOG.md")
"""Files that no figure depends on: results, of which several are measured one after the other, and pages."""


def provenance(seed: int | list[int]) -> dict[str, Any]:
    """What stands with every figure.

    Args:
        seed: What everything drawn is drawn by, or the seeds of several runs.

    Returns:
        `commit`, `seed` and `machine`.
    """
    return {"commit": commit(), "seed": seed, "machine": machine()}


def write_json(path: Path, results: Any) -> None:
    """Writes a results file whole: it is there as it was, or as it is to be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as written:
        written.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def write_results(
    name: str, figures: Mapping[str, Any], seed: int | list[int] = 0, kept: Mapping[str, Any] | None = None
) -> Path:
    """Writes `results/name.json`: the figures, with the commit, the seed and the machine that they were measured with.

    Args:
        name: Of the file.
        figures: What was measured.
        seed: What everything drawn is drawn by, or the seeds of several runs.
        kept: The contents of the file before, if figures of it were kept; theirs stand under "earlier".

    Returns:
        The file.
    """
    path, results = RESULTS / f"{name}.json", provenance(seed)
    if kept:
        results["earlier"] = [*kept.get("earlier", []), {key: kept.get(key) for key in PROVENANCE}]
    write_json(path, {**results, **figures})
    return path


PROVENANCE = ("commit", "seed", "machine")
"""What every results file says, or every run in it."""
