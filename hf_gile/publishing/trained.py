"""Writes cards of trained models with test metrics, and checks that saved folders load without hf_gile."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import BatchFeature, Trainer

from ..models import GileProcessor
from .card_files import read_card_fields, write_card
from .card_info import CardInfo
from .report import make_report


def add_card(
    folder: Path,
    trainer: Trainer,
    texts: Sequence[Any],
    gold: Sequence[Sequence[str]],
    info: CardInfo,
    processor: "GileProcessor | Callable[..., BatchFeature] | None" = None,
    **options: Any,
) -> None:
    """Evaluates a saved model on the test documents with the scores of the pipeline, and writes its card.

    Args:
        folder: The folder of the saved model, where `results.json`, `README.md`, figures and `labels.csv` are written.
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
        history=trainer.state.log_history,
        example_texts=3 if info.show_examples else 0,
        batch_size=trainer.args.per_device_eval_batch_size,
        bf16=trainer.args.bf16,
        **{"dataset": info.dataset_name, **options},
    )
    report.save(folder / "results.json")
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


class WordIdProcessor:
    """A processor for documents that are already word ids.

    Args:
        processor: The processor.
    """

    def __init__(self, processor: GileProcessor) -> None:
        self.processor = processor

    def __call__(self, text: list[Any], language: str | list[str] | None = None, **_: Any) -> BatchFeature:
        """Pads documents, and hands on their language, which a multilingual model needs."""
        words = BatchFeature(self.processor.pad_documents(text))
        if language is not None:
            words["language"] = language
        return words


CLEAN_PROCESS = """
import json, sys
sys.modules["hf_gile"] = None  # only the folder may be used, even if hf_gile is installed
from transformers import pipeline
request = json.load(sys.stdin)
pipe = pipeline("zero-shot-classification", model=request["folder"], trust_remote_code=True)
for labels in (None, request["labels"]):
    answer = pipe(request["text"], candidate_labels=labels, top_k=10)
    for name, score in zip(answer["labels"], answer["scores"]):
        print(f"  {score:8.4f}  {''.join(sign if sign.isprintable() else ' ' for sign in name)}")
    print()
"""


def score_without_package(folder: Path, text: str, labels: list[str]) -> None:
    """Loads a saved folder in a process without hf_gile, and prints scores of its stored labels and of other labels.

    Args:
        folder: The folder.
        text: The text to score.
        labels: The other labels.
    """
    request = json.dumps({"folder": str(folder), "text": text, "labels": labels})
    subprocess.run([sys.executable, "-c", CLEAN_PROCESS], input=request, text=True, check=True)
