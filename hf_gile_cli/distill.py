"""`hf-gile distill`: replaces the pretrained encoder of a model by a table, for many texts on few processors."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from .measure import Documents
from .options import Model
from .running import counted, note
from .saved_model import load


@dataclass(kw_only=True)
class Distillation(Documents):
    """Options of `hf-gile distill`."""

    model: Model
    output_dir: Annotated[Path, typer.Option("--output_dir", metavar="FOLDER", help="Folder for the fast model.")]
    overwrite: Annotated[
        bool, typer.Option("--overwrite_output_dir", help="Replace the model in the output folder.")
    ] = False


def distill(options: Distillation) -> None:
    """Make a model that reads thousands of texts a second. It learns from a slower model and your texts.

    A table of vectors, for tokens and pairs of neighbouring tokens, replaces the pretrained encoder. It learns from the
    encoder what your texts are about; texts need no labels, and should be like those to score. With --labels, the head
    is fitted again to the labels of the texts, with nine tenths of them, and calibrated on the rest.

    hf-gile distill MODEL texts.txt --output_dir FAST
    hf-gile distill MODEL train.jsonl --text title --text abstract --labels subjects --output_dir FAST
    """
    from hf_gile.data.parts import fill_parts
    from hf_gile.publishing import save
    from hf_gile.training import distill as learn
    from hf_gile.training import fit_labels, teach
    from hf_gile.training.distillation import MOST_TEXTS
    from hf_gile.training.fit import can_fit_labels

    folder = options.output_dir
    if folder.exists() and not options.overwrite and (folder.is_file() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists and is not empty: name another, or pass --overwrite_output_dir")
    teacher, processor = load(options.model, device=options.device)
    parts: dict[str, Any] = {}
    if options.labels:
        if not can_fit_labels(teacher):
            raise ValueError(
                f"the head of {options.model} is not one that hf-gile train fits by default, so it cannot be fitted "
                "again: leave out --labels"
            )
        rows = options.read_known(teacher.label_set)
        parts = fill_parts({"train": rows, "test": rows}, column="text")
        texts = list(parts["train"]["text"])
        texts = texts[:: max(1, -(-len(texts) // MOST_TEXTS))]
    else:
        texts = _sample_texts(options, MOST_TEXTS)
    note(f"{options.model} reads {counted(len(texts), 'text')}")
    fast = learn(teacher, processor, texts, teach(teacher, processor, texts, options.bf16))
    note(f"its vectors and those of the table have a cosine of {fast.cosine:.2f}, for texts left out of the table")
    if parts:
        fit_labels(fast, parts)
    else:
        note("the head is unchanged: with --labels COLUMN, it is fitted to the labels of these texts")
    save(folder, fast.model, fast.processor, index=False, card=False)
    size = sum(file.stat().st_size for file in folder.rglob("*"))
    note(f"written to {folder}: {size / 2**20:.0f} MiB")


def _sample_texts(options: Distillation, most: int) -> list[str]:
    """Returns the texts of all files, or a random sample of many; takes the same memory whatever their number."""
    from hf_gile.data import ReadReport, read_documents

    report = ReadReport(options.on_error)
    chance = random.Random(0)
    texts: list[str] = []
    number = 0
    columns = options.text or ["text"]
    reading: Any = {"id": options.id, "requested": options.requested(), "report": report}
    for file in options.files:
        for document in read_documents(file, columns, **reading):
            if not document.text.strip():
                continue
            number += 1
            if number <= most:
                texts.append(document.text)
            elif (row := chance.randrange(number)) < most:
                texts[row] = document.text
    return texts
