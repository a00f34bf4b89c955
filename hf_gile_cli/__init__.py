"""The command `hf-gile`. A separate package, so that `--help` does not import torch and transformers."""

import os
import signal
import sys

is_running = False
"""Whether this process is the command, which imports torch and transformers only when it needs them."""


def main() -> None:
    """Runs the command. On SIGTERM or when the terminal closes, it removes unfinished output before it exits."""
    global is_running
    is_running = True
    process = os.getpid()

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != process:  # a forked child does not terminate the work of its parent
            os.kill(os.getpid(), number)
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
            signal.signal(getattr(signal, name), end)
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit("hf-gile needs the `cli` extra: pip install 'hf-gile[cli]', or in a clone: pip install -e '.[cli]'")
    from .app import app

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # the encoding of JSON, whatever that of the terminal
    app(prog_name="hf-gile")
