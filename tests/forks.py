"""Run a function in a forked process, which may kill itself."""

import multiprocessing
import signal
import warnings
from collections.abc import Callable

import torch

LIMIT = 300
"""Seconds after which a child that hangs is ended."""


def is_killed(act: Callable[[], object]) -> bool:
    """Runs a function in a fork of this process, and returns whether it ended its process by SIGKILL.

    Raises:
        AssertionError: The child failed, or hung; its traceback is on standard error.
    """

    def run() -> None:
        signal.alarm(LIMIT)
        torch.set_num_threads(1)  # a fork has none of the threads that torch would wait for
        act()

    child = multiprocessing.get_context("fork").Process(target=run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which a fork leaves behind
        child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL), f"the child ended with {child.exitcode}"
    return child.exitcode != 0
