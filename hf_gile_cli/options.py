"""Defines arguments and options shared by several commands."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .running import note

if TYPE_CHECKING:
    from hf_gile.data.sniffing import Requested

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A saved model: a folder or a name on the Hub.")]
ModelOrGeneral = Annotated[
    str,
    typer.Argument(
        metavar="[MODEL]",
        show_default=False,
        help="A saved model: a folder or a name on the Hub; `general`, the default, needs no training.",
    ),
]
Revision = Annotated[str | None, typer.Option(metavar="NAME", help="Branch, tag or commit of a model on the Hub.")]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="Device, such as cpu or cuda:1.  [default: a GPU if available]")
]
Language = Annotated[str | None, typer.Option(metavar="NAME", help="Language of the texts, for a multilingual model.")]
TextColumns = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMN", help="Column with the text; repeat to join several.  [default: text]"),
]
IdColumn = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column with the ids.")]
OnError = Annotated[Literal["raise", "skip"], typer.Option(help="What to do with malformed lines.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")]
Json = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each row, instead of a table.")]
BatchSize = Annotated[int, typer.Option(min=1, metavar="NUMBER", help="Number of texts scored together.")]

LabelFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Labels as a table, a text with a label on each line, MeSH or SKOS.  [default: the labels of the model]",
    ),
]
LabelId = Annotated[str, typer.Option(metavar="COLUMN", help="Column with the label ids, in a table of labels.")]
LabelName = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with the label names; repeat for fallbacks; the first non-empty column is used.  [default: name]",
    ),
]
LabelDescription = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Source of label descriptions: columns of a table; entry_terms, scope_note or tree_path of MeSH; "
        "alt_labels, definition or broader of SKOS; none for names only.  [default: definitions, if there are any]",
    ),
]
LabelSynonyms = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Column with synonyms; repeat for several.")
]
LabelLanguage = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE", help="Languages of SKOS names, in order of preference.  [default: en]"),
]


@dataclass(kw_only=True)
class Layout:
    """Options of the layout of text files, which is otherwise seen in each file."""

    delimiter: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Delimiter of cells in CSV files.  [default: seen in the file]")
    ] = None
    quote: Annotated[
        str | None,
        typer.Option(metavar="SIGN|none", help="Sign around cells in CSV files.  [default: seen in the file]"),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoding, such as windows-1252.  [default: seen in the file]"),
    ] = None
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Names of the columns of CSV files without a header, such as labels,text."),
    ] = None

    def requested(self) -> "Requested":
        """Returns the layout."""
        from hf_gile.data.sniffing import Requested

        return Requested(self.delimiter, self.quote, self.encoding, tuple(self.columns or ())).check()


@dataclass(kw_only=True)
class LabelColumns(Layout):
    """Options that select labels in a file."""

    label_id: LabelId = "id"
    label_name: LabelName = None
    label_description: LabelDescription = None
    label_language: LabelLanguage = None

    def read(self, path: str | None, **options: Any) -> Any:
        """Reads a label file, if any, by `load_labels`, and notes what was left out or read unexpectedly."""
        if path is None:
            return None
        from hf_gile.data import ReadReport, load_labels

        report = options.setdefault("report", ReadReport())
        labels = load_labels(
            path,
            id=self.label_id,
            name=self.label_name or ["name"],
            description=self.label_description or None,
            languages=self.label_language or ["en"],
            **self.requested()._asdict() | options,
        )
        if report.left_out or report.notes:
            note("\n".join([f"{path}: {report}", *report.notes]))
        return labels
