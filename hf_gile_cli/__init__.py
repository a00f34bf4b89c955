"""The command `hf-gile`. Not within hf_gile, whose import waits for torch and transformers: `--help` does not."""

import os
import signal
import sys


def main() -> None:
    """Runs the command. When it is asked to end, by SIGTERM or a terminal that closes, it removes what it has begun."""
    process = os.getpid()

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != process:  # forked, for data; what was begun is not its own
            os.kill(os.getpid(), number)
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
            signal.signal(getattr(signal, name), end)
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit("hf-gile needs the `cli` extra: pip install 'hf-gile[cli]'")
    from .app import app

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # what JSON is in, whatever the terminal likes
    app(prog_name="hf-gile")
