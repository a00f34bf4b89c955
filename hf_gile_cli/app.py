"""Defines the command-line application."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from . import audit, convert, describe, distill, export, labels, measure, publish, score, serve, space, train
from .running import add_command, debug_errors, new_group

app = new_group(
    "",
    """Score texts against labels by the texts of the labels. Train, evaluate and publish such models.

        hf-gile demo                                      train a small model on real text and score with it
        hf-gile score MODEL texts.jsonl > scored.jsonl    MODEL: a folder or a name on the Hub
        hf-gile labels show MODEL                         list the labels of a model
        hf-gile COMMAND --help                            show all options and examples

    Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted, 143 terminated. Results go to standard output,
    messages to standard error.
    """,
    completion=True,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(version("hf-gile"))
        raise typer.Exit


@app.callback()
def _settings(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="HF_GILE_DEBUG", help="Show the traceback of an error.")
    ] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    debug_errors(debug)


def _add_group(name: str, about: str, commands: list[Callable[..., None]]) -> None:
    group = new_group(name, about)
    for command in commands:
        add_command(group, command)
    app.add_typer(group, name=name)


add_command(app, train.demo)
add_command(app, train.train, **train.SETTINGS)
for command in (
    distill.distill,
    score.score,
    serve.serve,
    space.space,
    describe.describe,
    measure.evaluate,
    measure.calibrate,
    audit.audit,
    convert.index,
    convert.convert,
    publish.card,
    publish.push,
    publish.verify,
    publish.repair,
):
    add_command(app, command)
_add_group("labels", labels.ABOUT, [labels.show, labels.add, labels.rename, labels.retire, labels.import_])
_add_group("export", export.ABOUT, [export.sentence_transformers, export.onnx, export.vectors])
