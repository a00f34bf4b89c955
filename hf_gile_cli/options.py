"""Arguments and options that several commands share."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A saved model: its folder, or its name on the Hub.")]
Revision = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of a model on the Hub: a branch, a tag or a commit.")
]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="Such as cpu or cuda:1.  [default: a GPU if there is one]")
]
Language = Annotated[str | None, typer.Option(metavar="NAME", help="Language of the texts, in a model of several.")]
TextColumns = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMN", help="Column of the text; several are joined.  [default: text]"),
]
IdColumn = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column of ids.")]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Of text files, such as windows-1252.")]
OnError = Annotated[str, typer.Option(metavar="raise|skip", help="What to do about malformed lines.")]
BatchSize = Annotated[int, typer.Option(min=1, metavar="NUMBER", help="Texts scored at a time.")]

LabelFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="Labels of a table, of MeSH or of SKOS.  [default: the model's]")
]
LabelId = Annotated[str, typer.Option(metavar="COLUMN", help="Of a table of labels: the column of ids.")]
LabelName = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Columns of names; the first not empty counts.  [default: name]"),
]
LabelDescription = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="What to describe labels by: columns; of MeSH entry_terms, scope_note, tree_path; of SKOS alt_labels, "
        "definition, broader.",
    ),
]
LabelSynonyms = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Columns of other names.")]
LabelLanguage = Annotated[
    list[str] | None, typer.Option(metavar="CODE", help="Of SKOS: languages of names, the best first.  [default: en]")
]


@dataclass(kw_only=True)
class LabelColumns:
    """What of a file are labels."""

    label_id: LabelId = "id"
    label_name: LabelName = None
    label_description: LabelDescription = None
    label_language: LabelLanguage = None

    def read(self, path: str, **options: Any) -> Any:
        """Reads labels.

        Args:
            path: The file.
            options: More for `read_label_file`.

        Returns:
            A `LabelSet`.
        """
        from hf_gile.data import read_label_file

        return read_label_file(
            path,
            id=self.label_id,
            name=self.label_name or ["name"],
            describe=self.label_description or [],
            languages=self.label_language or ["en"],
            **options,
        )


def checked_on_error(value: str) -> str:
    """Checks `--on-error`.

    Args:
        value: What was given.

    Raises:
        BadParameter: It is something else than raise or skip.
    """
    if value not in ("raise", "skip"):
        raise typer.BadParameter(f"must be raise or skip, got {value!r}", param_hint="--on-error")
    return value
