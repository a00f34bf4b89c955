"""`hf-gile export`: exports a model or its label vectors to tools that do not use hf_gile."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import LabelColumns, LabelFile, Model, Revision
from .running import check_new_folder, check_other_file, counted, note
from .saved_model import load

Out = Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the export; must be new or empty.")]
WithoutWords = Annotated[
    bool, typer.Option("--without-words", help="Leave out the lexical terms, which exports cannot represent.")
]


ABOUT = """
Export a model, or label vectors, to other tools.

    hf-gile export sentence-transformers MODEL OUT --without-words
    hf-gile export onnx MODEL OUT --int8 --without-words
    hf-gile export vectors MODEL labels.parquet --without-words

Exports give the same scores as the model, except for the words that --without-words leaves out. If a format
cannot represent a model, the command explains why.
"""
"""Help of the group."""


def sentence_transformers(
    model: Model, out: Out, without_words: WithoutWords = False, revision: Revision = None
) -> None:
    """Write a folder for SentenceTransformer. It has the vectors of the stored labels.

    hf-gile export sentence-transformers MODEL OUT --without-words
    """
    check_new_folder(out)
    from hf_gile.exports import export_sentence_transformers

    loaded, processor = load(model, revision, "cpu")
    export_sentence_transformers(loaded, processor, out, without_words)
    note(f"{out}, with {counted(len(loaded.label_set), 'label')} in labels.safetensors and labels.jsonl")


def onnx(
    model: Model,
    out: Out,
    int8: Annotated[bool, typer.Option("--int8", help="Also write model_int8.onnx, with 8-bit weights.")] = False,
    without_words: WithoutWords = False,
    revision: Revision = None,
) -> None:
    """Write ONNX files. text.onnx maps token ids to text codes, model.onnx to scores of the stored labels.

    hf-gile export onnx MODEL OUT --int8 --without-words
    """
    check_new_folder(out)
    from hf_gile.exports import export_onnx

    loaded, processor = load(model, revision, "cpu")
    export_onnx(loaded, processor, out, int8=int8, without_words=without_words)
    note(f"{out}: {', '.join(sorted(path.name for path in out.glob('*.onnx')))}")


@dataclass(kw_only=True)
class Vectors(LabelColumns):
    """Options of `hf-gile export vectors`."""

    model: Model
    out: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="labels.parquet, or labels.sql for pgvector; an existing file is replaced."
        ),
    ]
    label_file: LabelFile = None
    table: Annotated[str, typer.Option(metavar="NAME", help="Name of the SQL table.")] = "labels"
    for_sentence_transformers: Annotated[
        bool,
        typer.Option(
            "--for-sentence-transformers",
            help="Scale the vectors for use with a sentence-transformers export.",
        ),
    ] = False
    without_words: WithoutWords = False
    revision: Revision = None


def vectors(options: Vectors) -> None:
    """Write label vectors for a database. Their inner product with a text code ranks labels as the model does.

    hf-gile export vectors MODEL labels.parquet --without-words
    hf-gile export vectors MODEL labels.sql --table headings --label-file desc2024.xml --without-words
    """
    from hf_gile import LabelIndex
    from hf_gile.exports import export_vectors
    from hf_gile.exports.codes import dense_layer

    check_other_file(options.out, filter(None, [options.label_file]))
    labels = options.read(options.label_file)
    loaded, processor = load(options.model, options.revision, "cpu")
    label_index = LabelIndex.build(loaded, processor, labels)
    scale = dense_layer(loaded).scale if options.for_sentence_transformers else None
    export_vectors(label_index, options.out, table=options.table, scale=scale, without_words=options.without_words)
    note(f"{options.out}: {counted(len(label_index), 'label')} of {label_index.codes.shape[1]} numbers")
