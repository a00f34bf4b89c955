"""Saves a model as published on the Hub: weights, code, processor, labels, index, results and card."""

from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelCard

from ..label_index import LabelIndex
from ..models import GileForSequenceClassification, GileProcessor, unwrapped
from ..models.labels_gile import Label, LabelSet
from ..writing import new_files
from .card import Card, write_card
from .contents import is_loaded, missing_parts, referenced_code
from .report import REPORT_FILE, Report

INDEX_FOLDER = "index"
"""Folder of the label index, for `LabelIndex.from_pretrained`; multilingual models have a subfolder per language."""


def save(
    folder: str | PathLike[str],
    model: GileForSequenceClassification,
    processor: GileProcessor,
    label_set: LabelSet | None = None,
    *,
    index: bool = True,
    report: Report | None = None,
    card: Card = None,
) -> list[Path]:
    """Saves a model with all its parts, as `push_folder` uploads them.

    The save is atomic: all files are written first and then moved to their destination, and on an error nothing
    changes. If the process is killed, either nothing has changed, or the model refuses to load until the next save or
    `hf-gile repair` has completed the save. Weights, code and index of an earlier model are replaced. Other files
    stay, including report, card and figures unless new ones are passed.

    Args:
        folder: Destination folder.
        model: A `GileForSequenceClassification`. It is not changed.
        processor: The `GileProcessor` of the model.
        label_set: Labels to store; by default those of the model. Different labels are stored in the saved copy, as by
            `set_labels`.
        index: Whether to save the codes of the labels, in 16 bits, as a `LabelIndex`.
        report: Evaluation report from `make_report`, saved as `results.json` and shown on the card.
        card: Information for a card as a `CardInfo`, which is also saved as `card.yaml`; or a card, as a `ModelCard` or
            text. By default, a card without further information. False keeps an existing card.

    Returns:
        The files written.

    Raises:
        ValueError: If there are no labels, the model is not a classifier or has adapters, labels or processor do not
            fit it, or codes overflow in 16 bits.
        FileExistsError: If the folder is a file, or contains a folder with the name of a file.

    Example:
        >>> import tempfile
        >>> from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet, build_tokenizer
        >>> labels = LabelSet.from_names(["Heart Failure", "Milk, Human"])
        >>> tokenizer = build_tokenizer(["heart failure", "human milk"], min_count=1)
        >>> model = GileForSequenceClassification(GileConfig(vocab_size=len(tokenizer), num_labels=2)).eval()
        >>> processor = GileProcessor.for_config(tokenizer, model.config)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = save(folder, model, processor, labels, card="# Hearts and milk")
        >>> sorted(path.name for path in written if path.parent.name != "index" and path.suffix != ".py")
        ['README.md', 'config.json', 'labels.jsonl', 'model.safetensors', 'model_manifest.json',
         'processor_config.json', 'processor_manifest.json', 'tokenizer.json', 'tokenizer_config.json']
    """
    folder = Path(folder)
    model = unwrapped(model)
    _check(model, label_set)
    existed = folder.exists()
    try:
        with new_files(folder, find_outdated) as new:
            _write(new, model, processor, label_set, index, report, card)
            written = [folder / path.relative_to(new) for path in sorted(new.rglob("*")) if path.is_file()]
    finally:
        if not existed:
            with suppress(OSError):  # not empty
                folder.rmdir()
    return written


def _check(model: GileForSequenceClassification, label_set: LabelSet | None) -> None:
    """Checks the arguments of `save` before anything is written."""
    if not hasattr(model, "set_labels"):
        raise ValueError(
            f"a model is published with its labels, which a {type(model).__name__} does not store: save it and pass "
            "GileForSequenceClassification.from_pretrained(folder)"
        )
    if label_set is None and model.label_set is None:
        raise ValueError("the model has no labels stored: pass label_set=, or call model.set_labels first")
    if any(".lora_" in name for name, _ in model.named_parameters()):
        raise ValueError("a model with adapters cannot be published: merge them into its weights first")


def _write(
    folder: Path,
    model: GileForSequenceClassification,
    processor: GileProcessor,
    label_set: LabelSet | None,
    index: bool,
    report: Report | None,
    card: Card,
) -> None:
    processor.check_fits(model.config)
    model.save_pretrained(folder)
    if label_set is not None and label_set != model.label_set:
        model = _with_labels(model, folder, processor, label_set)
        model.save_pretrained(folder)
    processor.save_pretrained(folder)
    missing = missing_parts(folder)
    if missing:
        raise ValueError(f"the saved model would not load elsewhere: it lacks {'; '.join(missing)}")
    if index:
        _write_index(folder / INDEX_FOLDER, model)
    if report is not None:
        report.save(folder / REPORT_FILE)
    if card is False:
        return
    if isinstance(card, str | ModelCard):
        (folder / "README.md").write_text(str(card), encoding="utf-8")
    else:
        write_card(folder, model, card, report)


def _with_labels(
    model: GileForSequenceClassification, folder: Path, processor: GileProcessor, label_set: LabelSet
) -> Any:
    """Returns a copy of a saved model with other labels."""
    copy = type(model).from_pretrained(folder, dtype="auto").to(model.device).eval()
    if model.config.text_config.text_encoder_type == "static":
        copy.gile.text_encoder.read_other_labels = model.gile.text_encoder.read_other_labels
    words = None
    if _texts(copy.label_set or ()) == _texts(label_set):
        words = copy.label_input_ids
    copy.set_labels(label_set, processor, words)
    return copy


def _texts(labels: Iterable[Label]) -> list[tuple[str, str, str | None]]:
    return [(label.id, label.text, label.language) for label in labels]


def _write_index(folder: Path, model: GileForSequenceClassification) -> None:
    languages = model.config.languages
    if len(languages) < 2:
        LabelIndex.build(model, dtype=torch.float16).save_pretrained(folder)
        return
    for language in model.config.language_labels or languages:
        built = LabelIndex.build(model, language=language, dtype=torch.float16)
        built.save_pretrained(folder / language)


def find_outdated(folder: Path, written: set[str]) -> list[str]:
    """Returns the files of an earlier model that are not `written` again: also its code, but no other code."""
    code = referenced_code(folder)
    paths = [*folder.iterdir(), *(folder / INDEX_FOLDER).rglob("*")]
    names = [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
    return [name for name in names if name not in written and (name in code or name[-3:] != ".py") and is_loaded(name)]
