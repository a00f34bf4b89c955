"""`hf-gile score --output`: scores in parts, by several processes and machines, each part whole or not there."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .running import counted, note

if TYPE_CHECKING:
    from hf_gile.scoring import GileScorer, Reading

_SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT")


@dataclass(kw_only=True)
class FolderOptions:
    """Options of `hf-gile score` that writes a folder."""

    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write parts here instead of lines; goes on with a run there.")
    ] = None
    status: Annotated[bool, typer.Option("--status", help="Say how far the run in --output is.")] = False
    merge: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Write all parts of --output into a single file.")
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="With --output: each N-th part, from number I on (0 to N-1).  [default: by Slurm's array or torchrun]",
        ),
    ] = None
    workers: Annotated[
        str, typer.Option(metavar="NUMBER|auto", help="With --output: processes; one for each GPU or four cores.")
    ] = "auto"
    part_size: Annotated[
        float, typer.Option(min=0.0001, metavar="MIB", help="With --output: about how much of a file makes a part.")
    ] = 16
    batch_tokens: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="With --output: tokens scored at a time, instead of texts.")
    ] = 1 << 14
    bf16: Annotated[
        bool, typer.Option("--bf16", help="With --output: read texts in 16 bits, if the processor can.")
    ] = False


def shard_of(shard: str | None) -> tuple[int, int]:
    """Which parts are those of this process.

    Args:
        shard: `I/N`; by default what Slurm says of an array of jobs, or torchrun of processes.

    Returns:
        I and N.

    Raises:
        BadParameter: It makes no sense.

    Example:
        >>> shard_of("2/8")
        (2, 8)
    """
    if shard is None:
        if all(name in os.environ for name in _SLURM):
            number, first, count = (os.environ[name] for name in _SLURM)
            step = os.environ.get("SLURM_ARRAY_TASK_STEP", "1")
            shard = f"{(int(number) - int(first)) // int(step)}/{count}"
        elif "RANK" in os.environ and "WORLD_SIZE" in os.environ:
            shard = f"{os.environ['RANK']}/{os.environ['WORLD_SIZE']}"
        else:
            shard = "0/1"
    numbers = re.fullmatch(r"(\d+)/(\d+)", shard)
    if numbers is None or int(numbers[1]) >= int(numbers[2]):
        raise typer.BadParameter(f"must be I/N with I from 0 to N-1, got {shard!r}", param_hint="--shard")
    return int(numbers[1]), int(numbers[2])


def show_folder(options: FolderOptions) -> None:
    """Says how far a run is, or merges its parts.

    Args:
        options: Those of the command.
    """
    from hf_gile.scoring import ScoringRun

    if options.output is None:
        raise typer.BadParameter("of which run? pass --output FOLDER", param_hint="--status or --merge")
    run = ScoringRun.load(options.output)
    if options.status:
        typer.echo(json.dumps(run.status()))
    if options.merge is not None:
        rows = run.merge(options.merge)
        note(f"{counted(rows, 'row')} of {counted(len(run.parts), 'part')} written to {options.merge}")


def write_folder(
    output: Path, files: list[str], scorer: "GileScorer", reading: "Reading", shard: tuple[int, int], workers: str
) -> None:
    """Scores texts into a folder.

    Args:
        output: The folder.
        files: Texts.
        scorer: Scores them.
        reading: How to read them.
        shard: Which parts, see `shard_of`.
        workers: Number of processes, or auto.
    """
    from tqdm.auto import tqdm

    from hf_gile.scoring import number_of_workers, score_parts, start_run

    run = start_run(output, files, scorer, reading)
    left, totals = run.left(*shard), {"rows": 0, "rejected": 0}
    scored = score_parts(run, left, scorer, number_of_workers(workers, len(left)))
    for done in tqdm(scored, total=len(left), unit=" parts", disable=None):
        totals = {name: count + done[name] for name, count in totals.items()}
    rejected = f"; {counted(totals['rejected'], 'row')} rejected, see {output}/rejected" if totals["rejected"] else ""
    note(f"{counted(totals['rows'], 'text')} scored, {counted(len(left), 'part')}{rejected}")
