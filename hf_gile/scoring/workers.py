"""Scores the parts of a run in several processes, each with a number of threads or a GPU."""

import os
import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from .parts import ScoringRun
from .scorer import GileScorer

_CORES_PER_WORKER = 4


def number_of_workers(workers: str, parts: int) -> int:
    """Returns the number of processes to start.

    Args:
        workers: A number, or "auto": a process for each GPU, or without GPUs for every four cores.
        parts: Number of parts to score, the maximum number of processes.

    Raises:
        ValueError: If `workers` is neither.
    """
    if workers == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        number = torch.cuda.device_count() or cores // _CORES_PER_WORKER
    elif workers.isdecimal() and int(workers) > 0:
        number = int(workers)
    else:
        raise ValueError(f"workers must be a positive number or auto, got {workers!r}")
    return max(1, min(number, parts))


def score_parts(run: ScoringRun, names: Iterable[str], scorer: GileScorer, workers: int) -> Iterator[dict[str, int]]:
    """Scores parts of a run.

    Several processes load the model of the scorer from a temporary folder, and memory-map its label codes. If a process
    is killed, for example for lack of memory, the run ends.

    Args:
        run: The run.
        names: Names of the parts.
        scorer: Scorer of the run.
        workers: Number of processes; 1 uses the current process.

    Yields:
        The counts of each part when it is finished.

    Raises:
        ChildProcessError: If a process was killed.
        ValueError: If a part cannot be scored.
    """
    if workers == 1:
        yield from (run.score(name, scorer) for name in names)
    else:
        with tempfile.TemporaryDirectory() as folder:
            scorer.pipe.save_pretrained(folder)
            scorer.index.save_pretrained(Path(folder) / "index")
            settings = {"batch_tokens": scorer.batch_tokens, "bf16": scorer.bf16, **scorer.options}
            yield from _score_in_processes(run, iter(names), folder, settings, workers)


def _score_in_processes(
    run: ScoringRun, names: Iterator[str], folder: str, settings: dict[str, Any], workers: int
) -> Iterator[dict[str, int]]:
    """Distributes parts to worker processes, and yields their counts."""
    context = get_context("spawn")
    processes: dict[Connection, BaseProcess] = {}
    gpus = torch.cuda.device_count()
    threads = max(1, torch.get_num_threads() // workers)
    try:
        for number in range(workers):
            connection, worker_connection = context.Pipe()
            device = f"cuda:{number % gpus}" if gpus else "cpu"
            arguments = (worker_connection, run, folder, {**settings, "device": device}, threads)
            processes[connection] = context.Process(target=_work, args=arguments, daemon=True)
            processes[connection].start()
            worker_connection.close()
        while processes:
            ready = wait(list(processes))
            for connection in [connection for connection in processes if connection in ready]:
                try:
                    answer = connection.recv()
                except EOFError:
                    processes[connection].join()
                    raise ChildProcessError(
                        f"a worker ended with exit code {processes[connection].exitcode}; finished parts are saved: "
                        "start again, with fewer workers or fewer tokens per batch if memory was short"
                    ) from None
                if isinstance(answer, Exception):
                    raise answer
                if answer is not None:
                    yield answer
                name = next(names, None)
                connection.send(name)
                if name is None:
                    processes.pop(connection).join()
    finally:
        for process in processes.values():
            process.terminate()
            process.join()


def _work(
    connection: Connection,
    run: ScoringRun,
    folder: str,
    settings: dict[str, Any],
    threads: int,
) -> None:
    """Scores the parts that the main process sends, until it sends None or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles it
    torch.set_num_threads(threads)
    logging.disable_progress_bar()  # otherwise each process would show its loading
    answer: Any = None
    with suppress(EOFError, BrokenPipeError):
        try:
            scorer = GileScorer(folder, Path(folder) / "index", **settings)
            while True:
                connection.send(answer)
                name = connection.recv()
                if name is None:
                    return
                answer = run.score(name, scorer)
        except (ValueError, OSError) as error:
            connection.send(type(error)(*error.args))
