"""Runs the recipes behind docs/paper_tables.md, each in a process of its own on one thread.

A run leaves a single file in the folder of the runs: its figures, its CPU seconds, the commit, the machine, and a
fingerprint of the code that its figures depend on. `benchmarks/paper_tables.py` collects these files.
"""

import hashlib
import importlib
import json
import multiprocessing
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from house import code_lines
from paper_rows import KINDS, Run

ROOT = Path(__file__).parents[1]

Figures = dict[str, Any]
"""Figures of a run by name: numbers, or lists of words."""

RANKING = {"ranking_loss": "RL", "average_precision": "AvgPr", "one_error": "OneErr"}


@cache
def fingerprint(kind: str) -> str:
    """Returns a hash of the code that the figures of a kind depend on, without comments and docstrings."""
    digest = hashlib.sha256()
    for room in KINDS[kind].rooms:
        path = ROOT / room
        if not path.exists():
            raise FileNotFoundError(f"the kind {kind} names {room}, which does not exist")
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            lines = code_lines(file.read_text(encoding="utf-8"))
            digest.update("\n".join([str(file.relative_to(ROOT)), *lines, ""]).encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Job:
    """A run with a seed."""

    run: Run
    seed: int

    @property
    def file(self) -> str:
        """Name of the file that it leaves."""
        digest = hashlib.sha256(self.run.name.encode()).hexdigest()[:16]
        return f"{self.run.kind}-{digest}-{self.seed}.json"


def prepare(runs: Path, kinds: Iterable[str], gpu: bool = False) -> dict[str, Any]:
    """Imports the recipes once, for all runs to start from, and returns the commit and the machine of these runs.

    Everything that libraries write goes into the folder of the runs. Without `gpu`, no run sees a GPU. With it, this
    process must not initialize CUDA: its forks could not.
    """
    for name in ("cache", "temporary"):
        (runs / name).mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "HF_HOME": str(runs / "cache"),
        "TMPDIR": str(runs / "temporary"),
        "MPLCONFIGDIR": str(runs / "cache"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "RAYON_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }
    if not gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    sys.path[:0] = [str(ROOT / "recipes"), str(ROOT / "benchmarks")]
    import machine
    import torch

    torch.set_num_threads(1)
    for kind in kinds:
        importlib.import_module(KINDS[kind].module)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return {"commit": machine.commit(), "machine": pool.apply(machine.machine)}


def run_all(
    jobs: list[Job], data: Path, runs: Path, number: int, source: Mapping[str, Any], deadline: float
) -> Iterator[tuple[Job, bool]]:
    """Runs jobs in their order, several at a time, and yields each when it ends, with whether it succeeded.

    Of every four processes, one starts with the dearest jobs of a seed: all at the end, they would take longest.

    Args:
        jobs: The jobs.
        data: Folder of all data.
        runs: Folder of the runs.
        number: Number of jobs at a time.
        source: The commit and the machine.
        deadline: Time, as of `time.monotonic`, by which a job must end: others are not started.
    """
    context = multiprocessing.get_context("fork")  # a child has all modules, whose import takes 7 CPU seconds
    waiting = list(jobs)
    running: dict[int, tuple[Job, Any, bool]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < number:
                takes_dearest = sum(dear for _, _, dear in running.values()) < number // 4
                job = next_job(waiting, takes_dearest)
                waiting.remove(job)
                if time.monotonic() + job.run.price > deadline:
                    continue
                process = context.Process(target=_in_child, args=(job, data, runs, source))
                process.start()
                running[process.sentinel] = (job, process, takes_dearest)
            if not running:
                break  # all others would end too late
            for sentinel in wait(list(running)):
                job, process, _ = running.pop(sentinel)  # type: ignore[arg-type]
                process.join()
                yield job, process.exitcode == 0
    finally:
        for _, process, _ in running.values():
            process.terminate()


def next_job(waiting: list[Job], takes_dearest: bool) -> Job:
    """Returns the first job, or the dearest with the seed of the first."""
    if not takes_dearest:
        return waiting[0]
    return max((job for job in waiting if job.seed == waiting[0].seed), key=lambda job: job.run.price)


def _in_child(job: Job, data: Path, runs: Path, source: Mapping[str, Any]) -> None:
    """Runs a job, and writes its file; output and errors go to a log, which remains if it fails."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    log, work = runs / job.file.replace(".json", ".log"), runs / "temporary" / job.file.removesuffix(".json")
    sys.stdout = sys.stderr = log.open("w", encoding="utf-8", buffering=1)
    for descriptor in (1, 2):
        os.dup2(sys.stdout.fileno(), descriptor)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        started, clock = _cpu_seconds(), time.monotonic()
        figures = MEASURES[job.run.kind](job, data, work)
        record = {
            "run": job.run.name,
            "seed": job.seed,
            "code": fingerprint(job.run.kind),
            "cpu_seconds": _cpu_seconds() - started,
            "seconds": time.monotonic() - clock,
            "figures": figures,
            **source,
        }
        unfinished = runs / "temporary" / job.file
        unfinished.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        unfinished.replace(runs / job.file)
        log.unlink()
    except BaseException as error:  # also SystemExit of a recipe
        traceback.print_exc()
        raise SystemExit(1) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _end_with(parent: int) -> None:
    """Ends this process when its parent has ended, however that happened."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _recipe(job: Job, data: Path, work: Path) -> dict[str, Any]:
    """Runs a recipe as from the command line, and returns its results.json."""
    import torch

    kind = KINDS[job.run.kind]
    words = f"{kind.flags} {job.run.flags}".split()  # of a repeated flag, the last counts
    flags = [str(data) + word.removeprefix("DATA") if word.startswith("DATA/") else word for word in words]
    seed = ["--seed", str(job.seed)] if kind.seeded else []
    if "--use_cpu" in flags and torch.cuda.is_available():
        flags += ["--use_cpu", "false"]
    sys.argv = [kind.module, *flags, *seed, "--output_dir", str(work)]
    sys.modules[kind.module].main()
    results: dict[str, Any] = json.loads((work / "results.json").read_text(encoding="utf-8"))
    return results


# --- Figures of each kind ----------------------------------------------------------------------------------------


def _ranking(test: Mapping[str, Any]) -> Figures:
    """Ranking metrics in percent, of all labels as seen ones if none were held out."""
    groups = {"seen": "seen_", "unseen": "unseen_"} if "test_seen_documents" in test else {"seen": ""}
    return {
        f"{short} {group}": 100 * test[f"test_{infix}{metric}"]
        for group, infix in groups.items()
        for metric, short in RANKING.items()
        if test[f"test_{infix}documents"]
    }


def _cost(result: Mapping[str, Any]) -> Figures:
    last = result["history"][-1]
    return {
        "parameters, M": result["parameters"] / 1e6,
        "CPU s an epoch": last["training_cpu_seconds"] / last["epoch"],
        "epochs": last["epoch"],
    }


def _news(job: Job, data: Path, work: Path) -> Figures:
    ((_, result),) = _recipe(job, data, work).items()
    figures = _cost(result) if "history" in result else {"parameters, M": result["parameters"] / 1e6}
    languages = {
        name: content for name, content in result.items() if isinstance(content, dict) and "tuned_f1" in content
    }
    figures["parameters a language, M"] = figures["parameters, M"] / len(languages)
    for language, content in languages.items():
        ranking = _ranking(content["test"])
        figures[f"{language} F1"] = 100 * content["tuned_f1"]
        figures[f"{language} F1 at {content['fixed_threshold']}"] = 100 * content["fixed_f1"]
        figures |= {f"{language} {name}": value for name, value in ranking.items()}
    return figures


def _biomedical(job: Job, data: Path, work: Path) -> Figures:
    figures: Figures = {}
    for row, result in _recipe(job, data, work).items():
        if "history" in result:
            figures |= _cost(result)
        prefix = "inferred " if row.endswith("_inferred") else ""
        test = {**_ranking(result["test"]), "parameters, M": result["parameters"] / 1e6}
        figures |= {prefix + name: value for name, value in test.items()}
    return figures


def _translation(job: Job, data: Path, work: Path) -> Figures:
    from translation import nearest

    ((layer, result),) = _recipe(job, data, work).items()
    test = result["test"]
    figures = _cost(result) | {"BLEU": test["bleu"], "BLEU interval": test["interval"]}
    figures["validation BLEU"] = 100 * max(epoch["eval_bleu"] for epoch in result["history"])
    figures |= {f"F1 {third}": 100 * test[f"f1_{third}"] for third in ("high", "medium", "low")}
    if "--target en" in job.run.flags and layer != "continuous":  # queries are English; that layer is not saved
        for query, sides in nearest(work / layer / "model").items():
            figures |= {f"nearest {query}, {side}": words for side, words in sides.items()}
    return figures


def _speed(job: Job, data: Path, work: Path) -> Figures:
    from translation import parse, speeds

    return {
        f"{layer} {float(share):.0%}".replace("%", " %"): row["tokens_per_second"] / 1000
        for layer, rows in speeds(parse(["--speed", *job.run.flags.split()]))
        for share, row in rows.items()
    }


def _describe(job: Job, data: Path, work: Path) -> Figures:
    from describe_data import describe

    return describe(data, *job.run.flags.split())


MEASURES: dict[str, Callable[[Job, Path, Path], Figures]] = {
    "news": _news,
    "words": _news,
    "biomedical": _biomedical,
    "translation": _translation,
    "speed": _speed,
    "describe": _describe,
}
