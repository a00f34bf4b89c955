"""`hf-gile card`, `hf-gile push` and `hf-gile verify`: a model for others, and of others."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import Model, Revision
from .running import add_command, counted, note, visible

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a saved model.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    add_command(app, "card", card)
    add_command(app, "push", push)
    add_command(app, "verify", verify)


@dataclass(kw_only=True)
class Card:
    """Options of `hf-gile card`; those of `CardInfo` by its names."""

    folder: Folder
    info: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file of what you know, by the names of these options.")
    ] = None
    model_name: Annotated[str | None, typer.Option(metavar="TEXT", help="The title.")] = None
    repo_id: Annotated[str | None, typer.Option(metavar="USER/NAME", help="Where it is, or will be, on the Hub.")] = (
        None
    )
    summary: Annotated[str | None, typer.Option(metavar="TEXT", help="What it was made for.")] = None
    language: Annotated[list[str] | None, typer.Option(metavar="CODE", help="Of the texts, such as en.")] = None
    license: Annotated[str | None, typer.Option(metavar="ID", help="Of the model, such as apache-2.0.")] = None
    datasets: Annotated[
        list[str] | None, typer.Option("--dataset", metavar="ID", help="Of the training data, on the Hub.")
    ] = None
    dataset_name: Annotated[str | None, typer.Option(metavar="TEXT", help="What people call this data.")] = None
    dataset_license: Annotated[str | None, typer.Option(metavar="TEXT", help="Its licence.")] = None
    base_model: Annotated[str | None, typer.Option(metavar="ID", help="What training began with, on the Hub.")] = None
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="TEXT", help="A further tag.")] = None
    training_command: Annotated[str | None, typer.Option(metavar="TEXT", help="What trains it.")] = None
    training_data: Annotated[str | None, typer.Option(metavar="TEXT", help="What it was trained on, in words.")] = None
    limits: Annotated[list[str] | None, typer.Option("--limit", metavar="TEXT", help="What it is not for.")] = None
    citation: Annotated[str | None, typer.Option(metavar="BIBTEX", help="Of your own work.")] = None
    show_examples: Annotated[
        bool, typer.Option("--show-examples", help="Show texts of the report; their licence must allow it.")
    ] = False


def card(options: Card) -> None:
    """Write the card of a model, README.md, with its figures and the table of its labels, labels.csv.

    It says what the model does and for which labels, and shows results.json, if training or `hf-gile evaluate` has put
    one into the folder. What you know, and no file says, comes from options or from a file of them; it is kept beside
    the card, card.yaml, where the next card finds it. README.md is replaced.

    hf-gile card MODEL --repo-id user/gile-mesh --license apache-2.0 --language en
    hf-gile card MODEL --info card.yaml
    """
    from hf_gile.publishing import CardInfo, Report, read_card_fields, write_card
    from hf_gile.publishing.card_files import CARD_FILE

    from .saved_model import load

    folder, info = options.folder, options.info
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder} (in {Path.cwd()})")
    if info is None and (folder / CARD_FILE).is_file():
        info = folder / CARD_FILE
    said = {name: value for name, value in vars(options).items() if name in CardInfo.__dataclass_fields__ and value}
    known = CardInfo(**{**({} if info is None else read_card_fields(info)), **said})
    model, _ = load(str(folder), device="cpu")
    results = folder / "results.json"
    report = Report.load(results) if results.is_file() else None
    write_card(folder, model, known, report)
    note(f"{folder / 'README.md'}{'' if report else '; no results.json: hf-gile evaluate makes one'}")


def push(
    folder: Folder,
    repo_id: Annotated[
        str, typer.Argument(metavar="REPO", help="user/name or organisation/name; made if there is none.")
    ],
    private: Annotated[
        bool | None,
        typer.Option("--private/--public", help="Of a new repository.  [default: as its owner's settings say]"),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="The branch; made if there is none.  [default: main]")
    ] = None,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Open a pull request instead.")] = False,
    message: Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="Of the commit.")] = None,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Of the Hub.  [default: that of HF_TOKEN or of `hf auth login`]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go up, change nothing.")] = False,
) -> None:
    """Put a saved model on the Hub, in one commit.

    Prints what goes up: new, changed or deleted, the size, the file. Pickles, checkpoints and logs stay here. Files of
    an earlier version of the model go, those of others stay.

    hf-gile push MODEL user/gile-mesh --private --dry-run
    hf-gile push MODEL user/gile-mesh --create-pr --message "Calibrated"
    """
    from hf_gile.publishing import push_folder

    done = push_folder(
        folder,
        repo_id,
        private=private,
        revision=revision,
        create_pr=create_pr,
        commit_message=message,
        token=token,
        dry_run=dry_run,
    )
    for file in done.changes:
        sys.stdout.write(f"{file.status:9}  {file.size:14,}  {visible(file.path)}\n")
    for path, why in done.left_out:
        note(f"left out: {path}, {why}")
    same = len(done.files) - len(done.changes)
    changes = counted(len(done.changes), "change") + (f", {counted(same, 'file')} unchanged" if same else "")
    if dry_run:
        kinds = {None: "private or public as its owner's settings say", True: "private", False: "public"}
        if done.is_new:
            note(f"there is no {repo_id}, or none that this token sees: it would be made, {kinds[private]}")
        elif done.is_new is None:
            note(f"offline mode is on, so nobody asked what there is: all files are new, and {repo_id} made if need be")
        note(f"{changes}, not made{', as a pull request' if create_pr else ''}: {done.url}")
    elif done.commit is None:
        note(f"nothing has changed: {done.url}")
    else:
        note(f"{changes}, commit {done.commit[:12]}: {done.pull_request or done.url}")


def verify(model: Model, revision: Revision = None) -> None:
    """Compare the code of a model with that of the installed package, by hash. Nothing of the model is run.

    trust_remote_code=True runs the Python files of a model. Prints each of them: same, differs, unknown to the package,
    or missing; and the call that stays with this commit. Ends with 1 if any is not the same.

        hf-gile verify user/gile-mesh
        hf-gile verify user/gile-mesh --revision v2
    """
    from hf_gile.publishing.verify import verify_code

    done = verify_code(model, revision)
    for name, (digest, what) in done.files.items():
        sys.stdout.write(f"{what:8}  {digest[:16]:16}  {visible(name)}\n")
    for reference in done.elsewhere:
        sys.stdout.write(f"{'elsewhere':8}  {visible(reference)}\n")
    pinned = "" if done.commit is None else f', revision="{done.commit}", code_revision="{done.commit}"'
    sys.stdout.flush()
    if not done.is_same:
        note(f"{model} has code that is not that of the installed hf-gile: read it before you trust it")
        raise typer.Exit(1)
    call = f"pipeline(model={model!r}, trust_remote_code=True{pinned})"
    note(f"all code is that of the installed hf-gile; to stay with it:\n{call}")
