"""`hf-gile index` and `hf-gile convert`: encode labels, and convert published checkpoints."""

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import Device, LabelColumns, LabelFile, Language, Model, Revision
from .running import check_new_folder, counted, note
from .saved_model import load, note_unknown_labels


@dataclass(kw_only=True)
class Index(LabelColumns):
    """Options of `hf-gile index`."""

    model: Model
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the index; an existing index is replaced.")]
    label_file: LabelFile = None
    dtype: Annotated[
        Literal["float16", "bfloat16", "float32"], typer.Option(help="Data type of the codes; 16 bits halve the size.")
    ] = "float16"
    language: Language = None
    device: Device = None
    revision: Revision = None


def index(options: Index) -> None:
    """Encode labels once and reuse their codes for scoring.

    hf-gile index MODEL runs/index --label-file desc2024.xml --label-description scope_note
    hf-gile score MODEL notes.txt --index runs/index
    """
    import torch

    from hf_gile import LabelIndex

    labels = options.read(options.label_file)
    loaded, processor = load(options.model, options.revision, options.device)
    if labels is not None:
        note_unknown_labels(loaded, processor, labels, options.language)
    dtype = getattr(torch, options.dtype)
    label_index = LabelIndex.build(loaded, processor, labels, language=options.language, dtype=dtype)
    label_index.save_pretrained(options.out)
    size = f"{label_index.codes.shape[1]} {options.dtype} numbers each"
    note(f"{counted(len(label_index), 'label')}, {size}: {options.out}")


def convert(
    weights: Annotated[Path, typer.Argument(metavar="WEIGHTS", help="Keras weights, an HDF5 file.")],
    args: Annotated[Path, typer.Argument(metavar="ARGS", help="args.json of the same training run.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the model; must be new or empty.")],
) -> None:
    """Convert a published checkpoint (idiap/gile, idiap/mhan). The model has the same scores.

    The model takes word vectors and label vectors as input, because the checkpoints contain no vocabulary.

        hf-gile convert weights.h5 args.json gile-mhan
    """
    from hf_gile.resources import resource

    check_new_folder(out)
    for file in (weights, args):
        if not file.is_file():
            raise FileNotFoundError(f"no file {file} (in {Path.cwd()})")
    conversion = runpy.run_path(str(resource("recipes/papers/keras_checkpoints.py")))
    model = conversion["from_keras"](weights, args)
    model.save_pretrained(out)
    config = model.config
    kind = config.text_config.text_encoder_type
    note(f"converted {kind} with output layer {config.output_layer}, for {', '.join(config.languages)}: {out}")
    note("it reads word vectors (inputs_embeds, label_embeds); without words in the checkpoint, it has no processor")
