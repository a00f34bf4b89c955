"""The command `hf-gile`. Not within hf_gile, whose import waits for torch and transformers: `--help` does not."""

import sys


def main() -> None:
    """Runs the command."""
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit("hf-gile needs the `cli` extra: pip install 'hf-gile[cli]'")
    from .app import app

    app(prog_name="hf-gile")
