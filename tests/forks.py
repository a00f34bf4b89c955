"""Run a function in a forked process, which may kill itself."""

import os
import signal
import warnings
from collections.abc import Callable

import torch

LIMIT = 300
"""Seconds after which a child that hangs is ended."""


def is_killed(act: Callable[[], object]) -> bool:
    """Runs a function in a fork of this process.

    Args:
        act: The function. It may end its process by SIGKILL.

    Returns:
        Whether it did.

    Raises:
        AssertionError: The child failed, or hung; its traceback is on standard error.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which a fork leaves behind
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(LIMIT)
            torch.set_num_threads(1)  # a fork has none of the threads that torch would wait for
            act()
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the child ended with {code}"
    return code != 0
