"""Writes cards of trained models with test metrics."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import BatchFeature, Trainer

from ..models import GileProcessor
from .card_files import read_card_fields, write_card
from .card_info import CardInfo
from .report import REPORT_FILE, make_report


def add_card(
    folder: Path,
    trainer: Trainer,
    texts: Sequence[Any],
    gold: Sequence[Sequence[str]],
    info: CardInfo,
    processor: GileProcessor | Callable[..., BatchFeature] | None = None,
    **options: Any,
) -> None:
    """Evaluates a saved model on the test documents with the scores of the pipeline, and writes its card.

    Args:
        folder: The folder of the saved model, where `results.json`, `README.md`, `labels.csv` and a figure are written.
        trainer: The trainer of the model.
        texts: The test documents.
        gold: Label ids of each document; labels that the model lacks are ignored.
        info: Content of the card.
        processor: The processor of the documents; by default the processor of the trainer.
        options: Further arguments of `make_report`.
    """
    model: Any = trainer.model
    document_processor: Any = processor or trainer.processing_class
    report = make_report(
        model,
        document_processor,
        texts,
        [[label_id for label_id in ids if label_id in model.label_set] for ids in gold],
        batch_size=trainer.args.per_device_eval_batch_size,
        bf16=trainer.args.bf16,
        **{"dataset": info.dataset_name, **options},
    )
    report.save(folder / REPORT_FILE)
    write_card(folder, model, info, report)


def card_info(path: str | None, **defaults: Any) -> CardInfo:
    """Reads the content of a card from a YAML file, with defaults of the recipe.

    Args:
        path: The file with fields of `CardInfo`; None for the defaults only.
        defaults: Default fields.
    """
    fields = {} if path is None else read_card_fields(path)
    return CardInfo(**{"training_command": command(), **defaults, **fields})


def command() -> str:
    """Returns the command line of this run, without local paths of the script and the output."""
    script = Path(sys.argv[0]).resolve()
    words = iter(sys.argv[1:])
    flags = []
    for word in words:
        if word == "--output_dir":
            next(words, None)
        elif not word.startswith(("--output_dir=", "--overwrite_output_dir", "--overwrite-output-dir")):
            flags.append(word)
    return shlex.join(["python", f"{script.parent.name}/{script.name}", *flags])


__all__ = ["add_card", "card_info"]
