"""`hf-gile score --output`: writes scores in atomic parts, with several processes and machines."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .running import check_other_file, counted, note, write_json

if TYPE_CHECKING:
    from hf_gile.scoring import GileScorer, Reading

_SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT")


@dataclass(kw_only=True)
class FolderOptions:
    """Options of `hf-gile score --output`."""

    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write parts to this folder instead of lines; resumes an interrupted run."),
    ] = None
    status: Annotated[bool, typer.Option("--status", help="Show the progress of the run in --output.")] = False
    merge: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Merge all parts of --output into a single file.")
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="With --output: score every N-th part, starting with part I (0 to N-1).  "
            "[default: from Slurm or torchrun]",
        ),
    ] = None
    workers: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|auto",
            help="With --output: number of processes; auto: one per GPU, or per four cores.",
        ),
    ] = "auto"
    part_size: Annotated[
        float, typer.Option(min=0.0001, metavar="MIB", help="With --output: approximate input size of a part.")
    ] = 16
    batch_tokens: Annotated[
        int,
        typer.Option(min=1, metavar="NUMBER", help="With --output: tokens per batch, instead of --batch-size."),
    ] = 1 << 14
    bf16: Annotated[
        bool, typer.Option("--bf16", help="With --output: encode texts in bfloat16, if the processor supports it.")
    ] = False


def parse_shard(shard: str | None) -> tuple[int, int]:
    """Returns I and N of `I/N`; by default from the environment of a Slurm job array or of torchrun.

    Example:
        >>> parse_shard("2/8")
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
    """Shows the progress of a run, or merges its parts."""
    from hf_gile.scoring import ScoringRun

    if options.output is None:
        raise typer.BadParameter("pass the folder of the run as --output FOLDER", param_hint="--status or --merge")
    if options.merge is not None and options.merge.suffix != ".parquet":
        raise typer.BadParameter(f"writes Parquet: name the file .parquet, not {options.merge}", param_hint="--merge")
    run = ScoringRun.load(options.output)
    if options.status:
        write_json(run.status())
    if options.merge is not None:
        check_other_file(options.merge, [piece.path for piece in run.parts.values()])
        rows = run.merge(options.merge)
        note(f"{counted(rows, 'row')} of {counted(len(run.parts), 'part')} written to {options.merge}")


def write_folder(
    output: Path, files: list[str], scorer: "GileScorer", reading: "Reading", shard: tuple[int, int], workers: str
) -> None:
    """Scores texts and writes the results to a folder, or a shard of them, see `parse_shard`."""
    from tqdm.auto import tqdm

    from hf_gile.scoring import number_of_workers, score_parts, start_run

    run = start_run(output, files, scorer, reading)
    remaining = run.left(*shard)
    totals = {"rows": 0, "rejected": 0}
    scored = score_parts(run, remaining, scorer, number_of_workers(workers, len(remaining)))
    for counts in tqdm(scored, total=len(remaining), unit=" parts", disable=None):
        totals = {name: count + counts[name] for name, count in totals.items()}
    rejected = f"; {counted(totals['rejected'], 'row')} rejected, see {output}/rejected" if totals["rejected"] else ""
    done = f"{len(run.parts) - len(run.left()):,} of {counted(len(run.parts), 'part')} done"
    note(f"{counted(totals['rows'], 'text')} scored, {done}{rejected}")
