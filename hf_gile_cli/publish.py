"""`hf-gile card`, `push`, `verify` and `repair`: publish models, verify their code, and complete interrupted saves."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import DryRun, Json, Model, Revision
from .running import counted, note, write_row
from .saved_model import load

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a saved model.")]


@dataclass(kw_only=True)
class Card:
    """Options of `hf-gile card`, named like the fields of `CardInfo`; the file `info` may have all fields."""

    folder: Folder
    info: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file with these and further fields of the card.")
    ] = None
    repo_id: Annotated[str | None, typer.Option(metavar="USER/NAME", help="Repository of the model on the Hub.")] = None
    summary: Annotated[str | None, typer.Option(metavar="TEXT", help="Purpose of the model.")] = None
    language: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Language of the texts, such as en; repeat for several.")
    ] = None
    license: Annotated[str | None, typer.Option(metavar="ID", help="Licence of the model, such as apache-2.0.")] = None
    datasets: Annotated[
        list[str] | None,
        typer.Option("--dataset", metavar="ID", help="Training dataset on the Hub; repeat for several."),
    ] = None
    dataset_name: Annotated[str | None, typer.Option(metavar="TEXT", help="Name of the training data.")] = None
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TEXT", help="Additional tag; repeat for several.")
    ] = None


def card(options: Card) -> None:
    """Write a model card (README.md) and a table of the labels. The card plots the calibration.

    The card describes the model and its labels, and shows results.json if training or `hf-gile evaluate` has written
    it to the folder. Everything else comes from the options or a file, such as limits and a citation. It is saved as
    card.yaml for the next card. README.md is replaced.

    hf-gile card MODEL --repo-id user/gile-mesh --license apache-2.0 --language en
    hf-gile card MODEL --info card.yaml
    """
    from hf_gile.publishing import CardInfo, Report, read_card_fields, write_card
    from hf_gile.publishing.card import CARD_FILE

    folder = options.folder
    info = options.info
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder} (in {Path.cwd()})")
    if info is None and (folder / CARD_FILE).is_file():
        info = folder / CARD_FILE
    card_fields = {
        name: value for name, value in vars(options).items() if name in CardInfo.__dataclass_fields__ and value
    }
    card_info = CardInfo(**{**({} if info is None else read_card_fields(info)), **card_fields})
    model, _ = load(str(folder), device="cpu")
    results = folder / "results.json"
    report = Report.load(results) if results.is_file() else None
    write_card(folder, model, card_info, report)
    note(f"{folder / 'README.md'}{'' if report else '; no results.json: run hf-gile evaluate first to show results'}")


def push(
    folder: Folder,
    repo_id: Annotated[str, typer.Argument(metavar="REPO", help="user/name or organisation/name; created if missing.")],
    private: Annotated[
        bool | None,
        typer.Option("--private/--public", help="Visibility of a new repository.  [default: by its owner's settings]"),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="Branch; created if missing.  [default: main]")
    ] = None,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Open a pull request instead.")] = False,
    message: Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="Commit message.")] = None,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Access token.  [default: from HF_TOKEN or `hf auth login`]"),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Upload a saved model to the Hub in one atomic commit.

    Prints each new, changed or deleted file with its size. Only the files of a model are uploaded, no pickles,
    checkpoints, logs or data. Outdated files of an earlier version of the model are deleted; other files in the
    repository stay.

    hf-gile push MODEL user/gile-mesh --private --dry-run
    hf-gile push MODEL user/gile-mesh --create-pr --message "Calibrated"
    """
    from huggingface_hub import is_offline_mode

    from hf_gile.publishing import push_folder

    publication = push_folder(
        folder,
        repo_id,
        private=private,
        revision=revision,
        create_pr=create_pr,
        commit_message=message,
        token=token,
        dry_run=dry_run,
    )
    for file in publication.changes:
        row = {"status": file.status, "size": file.size, "path": file.path}
        write_row(row, f"{file.status:9}  {file.size:14,}  {file.path}", as_json)
    for path in publication.left_out:
        note(f"left out: {path}, not a file of a model")
    changes = counted(len(publication.changes), "change")
    unchanged = len(publication.files) - len(publication.changes)
    if unchanged:
        changes += f", {counted(unchanged, 'file')} unchanged"
    if dry_run:
        if is_offline_mode():
            note(f"offline mode is on: {repo_id} is not compared, so all files count as new")
        elif publication.is_new:
            kind = {None: "private or public by its owner's settings", True: "private", False: "public"}[private]
            note(f"{repo_id} does not exist or is not visible with this token: it would be created, {kind}")
        note(f"dry run: {changes}{', as a pull request' if create_pr else ''}: {publication.url}")
    elif publication.commit is None:
        note(f"nothing has changed: {publication.url}")
    else:
        note(f"{changes}, commit {publication.commit[:12]}: {publication.pull_request or publication.url}")


def verify(model: Model, as_json: Json = False, revision: Revision = None) -> None:
    """Compare the code of a model with this package, by hash. None of its code is run.

    trust_remote_code=True runs the Python files of a model. Prints the status of each file (same, differs, unknown or
    missing) and, for a model on the Hub, a call pinned to this commit. Exits with 1 unless all files are the same.

        hf-gile verify user/gile-mesh
        hf-gile verify user/gile-mesh --revision v2
    """
    from hf_gile.publishing.contents import verify_code

    check = verify_code(model, revision)
    for name, (digest, status) in check.files.items():
        row = {"status": status, "sha256": digest, "path": name}
        write_row(row, f"{status:8}  {digest[:16]:16}  {name}", as_json)
    for reference in check.elsewhere:
        write_row({"status": "elsewhere", "path": reference}, f"{'elsewhere':8}  {reference}", as_json)
    sys.stdout.flush()
    if not check.is_same:
        note(f"{model} has code that differs from the installed hf-gile: review the code before you trust it")
        raise typer.Exit(1)
    note("all code is identical to the installed hf-gile")
    if check.commit is not None:
        pinned = f'model={model!r}, trust_remote_code=True, revision="{check.commit}", code_revision="{check.commit}"'
        note(f'to pin this version:\npipeline("zero-shot-classification", {pinned})')


def repair(folder: Folder) -> None:
    """Complete a save that was interrupted, as by a power cut. Only saves of this machine can be completed.

    Until then, the model does not load. All commands that change a model do the same first. A folder from elsewhere
    is not changed.

        hf-gile repair MODEL
    """
    from hf_gile.writing import check_files, complete

    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder} (in {Path.cwd()})")
    is_completed = complete(folder)
    check_files(folder)
    note(f"{folder}: {'the save is complete' if is_completed else 'no save was interrupted on this machine'}")
