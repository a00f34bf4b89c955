"""What a trained model says of itself: calibrated on validation documents, measured on test documents, with a card."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import BatchFeature, Trainer

from hf_gile import GileProcessor
from hf_gile.models.configuration_gile import METHODS
from hf_gile.publishing import CardInfo, make_report, read_card_fields, write_card
from hf_gile.training.experiment import NO_CALIBRATION
from hf_gile.training.settings import Settings, setting
from hf_gile.training.task import PROBLEM_TYPES

CALIBRATIONS = (*METHODS, NO_CALIBRATION)
"""What `--calibration` can be."""


@dataclass
class ReportSettings(Settings):
    """The kind of problem, how probabilities are calibrated, and what the card says."""

    calibration: str | None = setting(
        None,
        f"How probabilities are calibrated on validation documents: {', '.join(CALIBRATIONS)}; by default spline, for "
        "documents with one label platt.",
        CALIBRATIONS,
    )
    problem_type: str | None = setting(
        None,
        "single_label_classification (softmax) or multi_label_classification (a sigmoid for each label); by default "
        "the former if every document has exactly one label.",
        PROBLEM_TYPES,
    )
    card: str | None = setting(
        None, "YAML file of what the card is to say, by the fields of hf_gile.publishing.CardInfo."
    )

    def check_problem_type(self, problem_type: str | None) -> None:
        """Names settings that do not go with a softmax over the labels.

        Args:
            problem_type: That of the settings, or of the documents.

        Raises:
            ValueError: There are some.
        """
        if problem_type != "single_label_classification":
            return
        how = "or score each label on its own with --problem_type multi_label_classification"
        if getattr(self, "propensity_weighted", False):
            raise ValueError(f"propensity_weighted is not for documents with one label each: leave it out, {how}")
        if self.calibration not in (None, "none", "platt"):
            raise ValueError(
                "calibration of documents with one label each must be one of platt, none, got "
                f"{self.calibration!r}: choose one of these, {how}"
            )


def say_calibration(figures: dict[str, Any], say: Any) -> None:
    """A line for seen labels, one for labels held out of training, and what was not fitted."""
    for group in ("seen", "unseen"):
        if f"{group}_expected_calibration_error_after" in figures:
            before, after = (figures[f"{group}_expected_calibration_error_{when}"] for when in ("before", "after"))
            number = figures.get(f"{group}_label_thresholds", 0)
            threshold = ""
            if f"{group}_threshold" in figures:
                threshold = f", threshold {figures[f'{group}_threshold']:.3f}"
                threshold += f", {number:,} labels with their own" if number else ""
            say(f"  {group} labels: calibration error {100 * before:.3f} -> {100 * after:.3f} percent{threshold}")
    if "note" in figures:
        say(f"  {figures['note']}")


def add_card(
    folder: Path,
    trainer: Trainer,
    texts: Sequence[Any],
    gold: Sequence[Sequence[str]],
    info: CardInfo,
    processor: Any = None,
    **known: Any,
) -> None:
    """Measures a saved model on the test documents as the pipeline would score them, and writes its card.

    Args:
        folder: The folder of the saved model; it gets `results.json`, `README.md`, its figures and `labels.csv`.
        trainer: What trained the model.
        texts: The test documents.
        gold: The ids of their labels; others than those of the model are left out.
        info: What the card is to say.
        processor: What reads the documents; by default that of the trainer.
        known: Other arguments of `make_report`.
    """
    model: Any = trainer.model
    report = make_report(
        model,
        processor or trainer.processing_class,
        texts,
        [[label_id for label_id in ids if label_id in model.label_set] for ids in gold],
        history=trainer.state.log_history,
        example_texts=3 if info.show_examples else 0,
        batch_size=trainer.args.per_device_eval_batch_size,
        bf16=trainer.args.bf16,
        **{"dataset": info.dataset_name, **known},
    )
    report.save(folder / "results.json")
    write_card(folder, model, info, report)


def card_info(path: str | None, **known: Any) -> CardInfo:
    """What the card says: the fields of a YAML file, and what the recipe knows where the file says nothing.

    Args:
        path: The file, by the names of `CardInfo`; none for what the recipe knows.
        known: Fields.
    """
    given = {} if path is None else read_card_fields(path)
    return CardInfo(**{"training_command": command(), **known, **given})


def command() -> str:
    """The command line of this run, without the places where this machine keeps the script and what it writes."""
    script = Path(sys.argv[0]).resolve()
    words = iter(sys.argv[1:])
    flags = []
    for word in words:
        if word == "--output_dir":
            next(words, None)
        elif not word.startswith("--output_dir="):
            flags.append(word)
    return shlex.join(["python", f"{script.parent.name}/{script.name}", *flags])


class OfWordIds:
    """What a processor makes of documents that are word ids already.

    Args:
        processor: The processor.
    """

    def __init__(self, processor: GileProcessor) -> None:
        self.processor = processor

    def __call__(self, text: list[Any], **_: Any) -> BatchFeature:
        """Pads documents; the language is in their words."""
        return BatchFeature(self.processor.pad_documents(text))
