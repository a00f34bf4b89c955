"""The command `hf-gile`. Not within hf_gile, whose import waits for torch and transformers: `--help` does not."""

import sys


def main() -> None:
    """Runs the command."""
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit("hf-gile needs the `cli` extra: pip install 'hf-gile[cli]'")
    from .app import app

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # what JSON is in, whatever the terminal likes
    app(prog_name="hf-gile")
