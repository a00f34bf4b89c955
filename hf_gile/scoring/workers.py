"""Several processes that score the parts of a run, each with threads or a GPU of its own."""

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

_CORES_OF_A_WORKER = 4


def number_of_workers(wanted: str, parts: int) -> int:
    """Returns how many processes to start.

    Args:
        wanted: A number, or "auto": a process for each GPU, or without any for every four cores.
        parts: Parts to score; there are no more processes.

    Raises:
        ValueError: It is neither.
    """
    if wanted == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        number = torch.cuda.device_count() or cores // _CORES_OF_A_WORKER
    elif wanted.isdecimal() and int(wanted) > 0:
        number = int(wanted)
    else:
        raise ValueError(f"workers must be a number from 1 on, or auto, got {wanted!r}")
    return max(1, min(number, parts))


def score_parts(run: ScoringRun, names: Iterable[str], scorer: GileScorer, workers: int) -> Iterator[dict[str, int]]:
    """Scores parts of a run.

    Several processes load the model that this one has, from a temporary folder, and map the codes of the labels.
    A process that ends otherwise than by an error, such as one that is killed for memory, ends the run.

    Args:
        run: The run.
        names: The parts.
        scorer: What scores them.
        workers: Number of processes; with 1 it is this one.

    Yields:
        The counts of each part, as soon as it is there.

    Raises:
        ChildProcessError: A process was killed.
        ValueError: A part cannot be scored.
    """
    if workers == 1:
        yield from (run.score(name, scorer) for name in names)
    else:
        with tempfile.TemporaryDirectory() as folder:
            scorer.pipe.save_pretrained(folder)
            scorer.index.save_pretrained(Path(folder) / "index")
            settings = {"batch_tokens": scorer.batch_tokens, "bf16": scorer.bf16, **scorer.options}
            yield from _score_in_processes(run, iter(names), folder, settings, workers)
    run.tidy()


def _score_in_processes(
    run: ScoringRun, names: Iterator[str], folder: str, settings: dict[str, Any], workers: int
) -> Iterator[dict[str, int]]:
    context = get_context("spawn")
    processes: dict[Connection, BaseProcess] = {}
    gpus, threads = torch.cuda.device_count(), max(1, torch.get_num_threads() // workers)
    try:
        for number in range(workers):
            ours, theirs = context.Pipe()
            device = f"cuda:{number % gpus}" if gpus else "cpu"
            arguments = (theirs, run, folder, {**settings, "device": device}, threads)
            processes[ours] = context.Process(target=_work, args=arguments, daemon=True)
            processes[ours].start()
            theirs.close()
        while processes:
            ready = wait(list(processes))
            for ours in [one for one in processes if one in ready]:
                try:
                    answer = ours.recv()
                except EOFError:
                    processes[ours].join()
                    raise ChildProcessError(
                        f"a worker has ended with exit code {processes[ours].exitcode}; parts that are done stay: "
                        "start again, with fewer workers or fewer tokens in a batch if memory was short"
                    ) from None
                if isinstance(answer, Exception):
                    raise answer
                if answer is not None:
                    yield answer
                name = next(names, None)
                ours.send(name)
                if name is None:
                    processes.pop(ours).join()
    finally:
        for process in processes.values():
            process.terminate()
            process.join()


def _work(connection: Connection, run: ScoringRun, folder: str, settings: dict[str, Any], threads: int) -> None:
    """Scores the parts that the main process names, until it names none or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process hears it, too
    torch.set_num_threads(threads)
    logging.disable_progress_bar()  # of loading, for each process
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
