"""`hf-gile index` and `hf-gile convert`: models and their labels in other forms."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Device, LabelDescription, LabelId, LabelLanguage, LabelName, Language, Model, Revision
from .running import add_command, counted, note

DTYPES = ("float16", "bfloat16", "float32")


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    add_command(app, "index", index)
    add_command(app, "convert", convert)


def index(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the index; one that is there is replaced.")],
    label_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Labels of a table, of MeSH or of SKOS.  [default: the model's]")
    ] = None,
    label_id: LabelId = "id",
    label_name: LabelName = None,
    label_description: LabelDescription = None,
    label_language: LabelLanguage = None,
    dtype: Annotated[str, typer.Option(metavar="|".join(DTYPES), help="Of the codes; 16 bits take half.")] = "float16",
    language: Language = None,
    device: Device = None,
    revision: Revision = None,
) -> None:
    """Encode labels once, to score with them any number of times.

    hf-gile index MODEL runs/index --label-file desc2024.xml --label-description scope_note
    hf-gile score MODEL notes.txt --index runs/index
    """
    if dtype not in DTYPES:
        raise typer.BadParameter(f"must be one of {', '.join(DTYPES)}, got {dtype!r}", param_hint="--dtype")
    import torch

    from hf_gile import LabelIndex

    from .labels import read_labels
    from .saved_model import load, note_unknown_labels

    label_set = read_labels(label_file, label_id, label_name, label_description, label_language) if label_file else None
    loaded, processor = load(model, revision, device)
    if label_set is not None:
        note_unknown_labels(loaded, processor, label_set, language)
    built = LabelIndex.build(loaded, processor, label_set, language=language, dtype=getattr(torch, dtype))
    built.save_pretrained(out)
    note(f"{counted(len(built), 'label')}, {built.codes.shape[1]} numbers of {dtype} each: {out}")


def convert(
    weights: Annotated[Path, typer.Argument(metavar="WEIGHTS", help="The Keras weights, an HDF5 file.")],
    args: Annotated[Path, typer.Argument(metavar="ARGS", help="args.json of the same run.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the model; must not be there, or be empty.")],
) -> None:
    """Convert a checkpoint that the authors published (idiap/gile, idiap/mhan) into a model with the same scores.

    It takes word vectors and label vectors, for the checkpoints hold no words.

        hf-gile convert weights.h5 args.json gile-mhan
    """
    from hf_gile.conversion import from_keras

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} is there already, and not empty: choose another folder")
    for file in (weights, args):
        if not file.is_file():
            raise FileNotFoundError(f"no file {file} (in {Path.cwd()})")
    model = from_keras(weights, args)
    model.save_pretrained(out)
    config = model.config
    note(f"{config.text_encoder_type} and {config.output_layer}, {', '.join(config.languages)}: {out}")
