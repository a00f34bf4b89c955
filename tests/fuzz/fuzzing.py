"""Runs fuzz targets, the entry points of the package, on generated cases.

A target is a Hypothesis strategy that draws cases, and a function that tries a case. A case passes if the function
returns, or raises a ValueError or OSError of the package with less than 2,000 characters. Everything else is a crash:
another exception, a warning, an error of a library, or more memory or processor time than the limits.

The default tests run a few cases of each target; the slow tests and benchmarks/reliability.py run thousands, in a
process with system limits. To run a single target:

    python tests/fuzz/fuzzing.py TARGET --cases 5000 --seed 1

To add targets, list a module of this folder in MODULES; the module has a list TARGETS.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

sys.path.append(str(Path(__file__).parents[2] / "recipes"))  # for their readers

MODULES = ("reader_targets", "model_targets")
"""Modules with targets."""

LONGEST_MESSAGE = 2_000
CASE_SECONDS = 10
"""Maximum processor time of a case."""
HEADROOM = 1 << 30
"""Bytes of address space that a limited process may allocate after its first cases."""

PROFILE = settings(
    database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=False
)


@dataclass(frozen=True)
class Target:
    """A fuzz target.

    Args:
        name: Name of the target.
        section: Section of docs/reliability.md that lists it.
        cases: Draws cases.
        attempt: Tries a case.
        long: Number of cases in the slow tests.
    """

    name: str
    section: str
    cases: SearchStrategy[Any]
    attempt: Callable[[Any], object]
    long: int = 100


class Crash(AssertionError):
    """A case had a forbidden result."""


class TooSlow(BaseException):
    """A case took too long; not an `Exception`, so that readers do not catch it."""


def targets() -> dict[str, Target]:
    """Returns all targets by name."""
    return {target.name: target for module in MODULES for target in importlib.import_module(module).TARGETS}


def tried(target: Target, case: Any) -> str:
    """Tries a case.

    Args:
        target: The target.
        case: A case of the target.

    Returns:
        `"taken"`, or `"refused"` for invalid input.

    Raises:
        Crash: For any other result.
    """
    try:
        with _limited_time(), warnings.catch_warnings():
            warnings.simplefilter("error")
            target.attempt(case)
    except Crash:
        raise
    except (ValueError, OSError) as error:
        message = str(error)
        if type(error).__module__ != "builtins" or isinstance(error, UnicodeError):
            raise Crash(f"an error of a library, {_kind(error)}: {message[:200]}") from error
        if len(message) > LONGEST_MESSAGE:
            raise Crash(f"a message of {len(message):,} characters: {message[:200]}") from error
        if not message:
            raise Crash(f"a {type(error).__name__} without a message") from error
        return "refused"
    except (Exception, TooSlow) as error:
        raise Crash(f"{_kind(error)}: {str(error)[:200]}") from error
    return "taken"


def run(names: Iterable[str], cases: int | None, start: int) -> dict[str, dict[str, Any]]:
    """Tries many cases of targets sequentially, in a process with system limits.

    Args:
        names: Names of the targets.
        cases: Number of cases per target; by default `Target.long`.
        start: Seed, which determines the cases.

    Returns:
        By target name: `cases`, `taken`, `refused`, `crashes` (their number by kind), `peak_mib` (memory growth of the
        process) and `seconds` of processor time.
    """
    names = list(names)
    flags = [*names, "--seed", str(start), *([] if cases is None else ["--cases", str(cases)])]
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, *flags],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"cases"')]  # tokenizers also print
    results = {name: json.loads(line) for name, line in zip(names, lines, strict=False)}
    for name in names[len(results) :]:
        results[name] = {"cases": 0, "crashes": {f"the process died ({done.returncode}): {done.stderr[-1500:]}": 1}}
    return results


def _run_here(target: Target, cases: int, start: int, show: bool) -> dict[str, Any]:
    counts = {"taken": 0, "refused": 0}
    crashes: dict[str, int] = {}
    smallest: dict[str, tuple[str, str]] = {}

    def attempt(case: Any) -> None:
        try:
            counts[tried(target, case)] += 1
        except Crash as error:
            kind = _describe(error)
            crashes[kind] = crashes.get(kind, 0) + 1
            text = repr(case)
            if kind not in smallest or len(text) < len(smallest[kind][0]):
                smallest[kind] = text, "".join(traceback.format_exception(error.__cause__ or error))

    def draw(number: int, first: int) -> None:
        seed(first)(
            settings(PROFILE, derandomize=False, max_examples=number, phases=[Phase.generate])(
                given(target.cases)(attempt)
            )
        )()

    draw(min(20, cases), start + 1)  # initial memory of libraries
    before, began = _memory(), time.process_time()
    counts.update(taken=0, refused=0)
    crashes.clear()
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + HEADROOM, resource.RLIM_INFINITY))
    draw(cases, start)
    if show:
        for kind, (text, trace) in smallest.items():
            sys.stderr.write(f"{kind}\n{text[:1000]}\n{trace[-3000:]}\n")
    return {
        "cases": sum(counts.values()) + sum(crashes.values()),
        **counts,
        "crashes": crashes,
        "peak_mib": round(max(0.0, _high_water_mark() - before), 1),
        "seconds": round(time.process_time() - began, 1),
    }


@contextmanager
def _limited_time() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow(f"more than {CASE_SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CASE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _kind(error: BaseException) -> str:
    module = type(error).__module__
    return type(error).__name__ if module == "builtins" else f"{module}.{type(error).__name__}"


def _describe(error: Crash) -> str:
    """Describes a crash by its exception and the last frame in the package, equal for all cases of a fault."""
    cause = error.__cause__ or error
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if "/hf_gile" in frame.filename]
    where = f" in {Path(frames[-1].filename).name}: {frames[-1].name}" if frames else ""
    kind = str(error).split(":")[0] if isinstance(cause, (Crash, ValueError, OSError)) else _kind(cause)
    return re.sub("[0-9][0-9,]*", "N", kind) + where


def _high_water_mark() -> float:
    return _status("VmHWM") / 1024


def _memory() -> float:
    with suppress(OSError):  # resets the high-water mark, if permitted
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS") / 1024


def _address_space() -> int:
    return _status("VmSize") * 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    """Tries cases of targets, and prints the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+", metavar="TARGET")
    parser.add_argument("--cases", type=int, help="of each; by default as many as each target says")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print the smallest case of each kind of crash")
    options = parser.parse_args()
    known = targets()
    for name in options.targets:
        target = known[name]
        result = _run_here(target, options.cases or target.long, options.seed, options.show)
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.modules["fuzzing"] = sys.modules["__main__"]  # targets must import this module, not a second copy
    main()
