"""Runs fuzz targets, the entry points of the package, on generated cases.

A target is a Hypothesis strategy that draws cases, and a function that tries a case. A case passes if the function
returns, or raises a ValueError or OSError of the package with less than 2,000 characters. Everything else is a crash:
another exception, a warning, an error of a library, or more memory or processor time than the limits.

The default tests run a few cases of each target; the slow tests and benchmarks/reliability.py run thousands, in a
process with system limits. To run a single target, and see the smallest case of each kind of crash:

    python tests/fuzz/fuzzing.py TARGET --cases 5000 --seed 1
"""

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
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

sys.path.append(str(Path(__file__).parents[2] / "recipes"))  # for their readers

MODULES = ("reader_targets", "model_targets")  # each with a list TARGETS
LONGEST_MESSAGE = 2_000
CASE_SECONDS = 10  # of processor time
HEADROOM = 1 << 30  # bytes that a limited process may allocate after its first cases

PROFILE = settings(
    database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=False
)


class Target(NamedTuple):
    """A fuzz target, in a section of docs/reliability.md."""

    name: str
    section: str
    cases: SearchStrategy
    attempt: Callable
    long: int = 100  # number of cases in the slow tests


class Crash(AssertionError):
    """A case had a forbidden result."""


class TooSlow(BaseException):
    """A case took too long; not an `Exception`, so that readers do not catch it."""


def targets():
    """Returns all targets by name."""
    return {target.name: target for module in MODULES for target in importlib.import_module(module).TARGETS}


def tried(target, case):
    """Tries a case; returns "taken", or "refused" for invalid input, and raises a `Crash` for any other result."""
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
        if not 0 < len(message) <= LONGEST_MESSAGE:
            raise Crash(f"a message of {len(message):,} characters: {message[:200]}") from error
        return "refused"
    except (Exception, TooSlow) as error:
        raise Crash(f"{_kind(error)}: {str(error)[:200]}") from error
    return "taken"


def run(names, cases, start):
    """Tries many cases of targets sequentially, by default `Target.long`, in a process with system limits.

    Returns, by name of the target, `cases`, `taken`, `refused`, `crashes` (their number by kind), `peak_mib` (memory
    growth of the process) and `seconds` of processor time.
    """
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


def _run_here(target, cases, start):
    counts, crashes, smallest = Counter(), Counter(), {}

    def attempt(case):
        try:
            counts[tried(target, case)] += 1
        except Crash as error:
            kind = _describe(error)
            crashes[kind] += 1
            example = repr(case), "".join(traceback.format_exception(error.__cause__ or error))
            smallest[kind] = min(example, smallest.get(kind, example), key=lambda pair: len(pair[0]))

    def draw(number, first):
        profile = settings(PROFILE, derandomize=False, max_examples=number, phases=[Phase.generate])
        seed(first)(profile(given(target.cases)(attempt)))()

    draw(min(20, cases), start + 1)  # initial memory of libraries
    before, began = _memory(), time.process_time()
    counts.clear()
    crashes.clear()
    address_space = _status("VmSize") * 1024
    resource.setrlimit(resource.RLIMIT_AS, (address_space + HEADROOM, resource.RLIM_INFINITY))
    draw(cases, start)
    for kind in crashes:
        case, trace = smallest[kind]
        sys.stderr.write(f"{kind}\n{case[:1000]}\n{trace[-3000:]}\n")
    return {
        "cases": counts.total() + crashes.total(),
        "taken": counts["taken"],
        "refused": counts["refused"],
        "crashes": crashes,
        "peak_mib": round(max(0.0, _status("VmHWM") / 1024 - before), 1),
        "seconds": round(time.process_time() - began, 1),
    }


@contextmanager
def _limited_time():
    def stop(*_):
        raise TooSlow(f"more than {CASE_SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CASE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _kind(error):
    module = type(error).__module__
    return type(error).__name__ if module == "builtins" else f"{module}.{type(error).__name__}"


def _describe(error):
    """Describes a crash by its exception and the last frame in the package, equal for all cases of a fault."""
    cause = error.__cause__ or error
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if "/hf_gile" in frame.filename]
    where = f" in {Path(frames[-1].filename).name}: {frames[-1].name}" if frames else ""
    kind = str(error).split(":")[0] if isinstance(cause, (Crash, ValueError, OSError)) else _kind(cause)
    return re.sub("[0-9][0-9,]*", "N", kind) + where


def _memory():
    """Returns the resident MiB of this process, from which its high-water mark starts again, if permitted."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS") / 1024


def _status(name):
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main():
    """Tries cases of targets, and prints the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+", metavar="TARGET")
    parser.add_argument("--cases", type=int, help="of each; by default as many as each target says")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    known = targets()
    for name in options.targets:
        result = _run_here(known[name], options.cases or known[name].long, options.seed)
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.modules["fuzzing"] = sys.modules["__main__"]  # targets must import this module, not a second copy
    main()
