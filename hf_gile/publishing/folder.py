"""Saves a model as published on the Hub: weights, code, processor, labels, index, results and card."""

from contextlib import suppress
from os import PathLike
from pathlib import Path

import torch
from huggingface_hub import ModelCard

from ..label_index import LabelIndex
from ..models import GileForSequenceClassification, GileProcessor, unwrapped
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
        index: Whether to save the codes of the labels, in 16 bits, as a `LabelIndex`.
        report: Evaluation report from `make_report`, saved as `results.json` and shown on the card.
        card: Information for a card as a `CardInfo`, which is also saved as `card.yaml`; or a card, as a `ModelCard` or
            text. By default, a card without further information. False keeps an existing card.

    Returns:
        The files written.

    Raises:
        ValueError: If no labels are stored with the model, it is not a classifier or has adapters, the processor does
            not fit it, or codes overflow in 16 bits.
        FileExistsError: If the folder is a file, or contains a folder with the name of a file.

    Example:
        >>> import tempfile
        >>> from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet, build_tokenizer
        >>> labels = LabelSet.from_names(["Heart Failure", "Milk, Human"])
        >>> tokenizer = build_tokenizer(["heart failure", "human milk"], min_count=1)
        >>> model = GileForSequenceClassification(GileConfig(vocab_size=len(tokenizer), num_labels=2)).eval()
        >>> processor = GileProcessor.for_config(tokenizer, model.config)
        >>> model.set_labels(labels, processor)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = save(folder, model, processor, card="# Hearts and milk")
        >>> sorted(path.name for path in written if path.parent.name != "index" and path.suffix != ".py")
        ['README.md', 'config.json', 'labels.jsonl', 'model.safetensors', 'model_manifest.json',
         'processor_config.json', 'processor_manifest.json', 'tokenizer.json', 'tokenizer_config.json']
    """
    folder = Path(folder)
    model = unwrapped(model)
    _check(model)
    processor.check_fits(model.config)
    existed = folder.exists()
    try:
        with new_files(folder, find_outdated) as new:
            _write(new, model, processor, index, report, card)
            return [folder / path.relative_to(new) for path in sorted(new.rglob("*")) if path.is_file()]
    finally:
        if not existed:
            with suppress(OSError):  # not empty
                folder.rmdir()


def _check(model: GileForSequenceClassification) -> None:
    """Refuses a model that cannot be published."""
    if not hasattr(model, "set_labels"):
        raise ValueError(
            f"a model is published with its labels, which a {type(model).__name__} does not store: save it and pass "
            "GileForSequenceClassification.from_pretrained(folder)"
        )
    if model.label_set is None:
        raise ValueError("the model has no labels stored: call model.set_labels first")
    if any(".lora_" in name for name, _ in model.named_parameters()):
        raise ValueError("a model with adapters cannot be published: merge them into its weights first")


def _write(
    folder: Path,
    model: GileForSequenceClassification,
    processor: GileProcessor,
    index: bool,
    report: Report | None,
    card: Card,
) -> None:
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
