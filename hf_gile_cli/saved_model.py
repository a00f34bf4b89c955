"""Saved models: loading them, and saving one of which labels or calibration have changed."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .running import note, quiet_libraries

if TYPE_CHECKING:
    from hf_gile import GileForSequenceClassification, GileProcessor, LabelSet

_LABELS_AT_ONCE = 10_000


GENERAL = "general"
"""Stands for a scorer of any labels that nobody has trained, in the place of a saved model."""


def load(
    model: str,
    revision: str | None = None,
    device: str | None = None,
    texts: Sequence[str] = (),
    documents: Iterable[str] = (),
) -> tuple[Any, Any]:
    """Loads a model and its processor. The code is that of the installed hf_gile; no code of the model is ever run.

    Args:
        model: Its folder, or its name on the Hub; "general" where no folder is called so.
        revision: Of a model on the Hub.
        device: Where to put it; by default a GPU, if there is one.
        texts: What tells the general scorer the language of the texts.
        documents: Texts like those to score, for the general scorer.

    Returns:
        The `GileForSequenceClassification`, in evaluation mode, and the `GileProcessor`.

    Raises:
        ValueError: It is no GILE model or has code of its own, or there is no such device.
        FileNotFoundError: It is nowhere.
        OSError: The Hub does not give it.
    """
    import torch
    from transformers import AutoModelForSequenceClassification

    from hf_gile import GileConfig, GileProcessor
    from hf_gile.publishing.contents import MODEL_TYPES
    from hf_gile.publishing.exchange import complete

    quiet_libraries()
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"this machine has no device {device!r}: {str(error).splitlines()[0]}") from None
    folder, device = Path(model), device or ("cuda" if torch.cuda.is_available() else "cpu")
    if model == GENERAL and not folder.is_dir():
        from hf_gile.training.general import general_scorer

        scorer, processor = general_scorer(texts, documents)
        return scorer.to(device), processor
    if folder.is_dir():
        complete(folder)
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"{model} is no saved model: there is no config.json in it")
        _check_weights(folder)
    if folder.is_file():
        raise FileNotFoundError(
            f"{model} is a file and no model; to score it without one: hf-gile score general {model}"
        )
    if not folder.is_dir() and not is_hub_name(model):
        raise FileNotFoundError(f"no folder {model} (in {Path.cwd()}); a model on the Hub is called user/name")
    try:
        config, _ = GileConfig.get_config_dict(model, revision=revision or "main")
    except OSError as error:
        if folder.is_dir():
            raise
        from hf_gile.publishing.hub_errors import why_not_read

        raise FileNotFoundError(
            f"{model} is no folder here, and the Hub does not give it: {why_not_read(error)}"
        ) from error
    kind = config.get("model_type")
    if kind not in MODEL_TYPES:
        raise ValueError(f"{model} is a model of type {kind!r:.100}, not a GILE model")
    # Where the flag is missing, Transformers asks on standard input, which may hold the texts to score.
    loaded = AutoModelForSequenceClassification.from_pretrained(
        model, revision=revision or "main", trust_remote_code=False
    ).eval()
    processor = GileProcessor.from_pretrained(model, revision=revision or "main", trust_remote_code=False)
    return loaded.to(device), processor


def _check_weights(folder: Path) -> None:
    """Makes sure that the weights of a model are in its folder, not where a file of it points."""
    from hf_gile.models.configuration_gile import read_json_object

    if (folder / "adapter_config.json").is_file():
        raise ValueError(f"{folder} has adapters, whose weights belong to another model: merge them with merge_lora")
    for index in folder.glob("*.index.json"):
        try:
            names = [str(name) for name in read_json_object(index)["weight_map"].values()]
        except (ValueError, LookupError, AttributeError):
            raise ValueError(f"{index} does not list files of weights: save the model again") from None
        for name in names:
            if Path(name).name != name:
                raise ValueError(f"{index} names weights outside of its folder: {name!r:.200}")


def is_hub_name(model: str) -> bool:
    """Whether a model that is no folder may be one on the Hub.

    Args:
        model: Its name.

    Example:
        >>> [is_hub_name(name) for name in ("user/gile", "gile", "./runs/gile", "runs/mesh/gile")]
        [True, False, False, False]
    """
    return model.count("/") == 1 and not model.startswith((".", "/", "~")) and not Path(model).exists()


def note_unknown_labels(
    model: "GileForSequenceClassification",
    processor: "GileProcessor",
    labels: Iterable[Any],
    language: str | None = None,
) -> None:
    """Says of which new labels the model knows no word; it gives all of them the same score, which nobody sees.

    Args:
        model: The `GileForSequenceClassification`.
        processor: Its processor.
        labels: `Label`s; what the model has learned of stored ones tells these apart.
        language: The language of those that name none.
    """
    config, labels = model.config, list(labels)
    if config.output_layer == "linear" or config.text_config.reads_pretrained:
        return  # it does not read them, or reads parts of words
    if len(config.languages) == 1:
        language = language or config.languages[0]
    if config.languages and not all(label.language or language for label in labels):
        return  # what comes next refuses them
    if model.gile.label_rows is not None and labels:
        stored = model.stored_labels.columns_of(labels, language).tolist()
        labels = [label for label, column in zip(labels, stored, strict=True) if column < 0]
    languages = [label.language or language for label in labels] if config.languages else None
    unknown = unknown_labels(processor, [label.text for label in labels], languages)
    if unknown:
        names = ", ".join(repr(labels[place].name) for place in unknown[:3])
        more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
        words = "no word of 1 label" if len(unknown) == 1 else f"not one word of {len(unknown):,} labels"
        note(
            f"the model knows {words}: {names}{more}; it scores all such labels alike, so name or describe them in "
            "other words"
        )


def unknown_labels(
    processor: "GileProcessor", texts: Sequence[str], languages: Sequence[str | None] | None = None
) -> list[int]:
    """Finds labels that are nothing but unknown words: a model of words cannot tell them from one another.

    Args:
        processor: The processor of a model of words.
        texts: Texts of labels.
        languages: The language of each, if the model has several.

    Returns:
        Their places.

    Raises:
        ValueError: An unknown language.
    """
    unknown: list[int] = []
    for start in range(0, len(texts), _LABELS_AT_ONCE):
        part = slice(start, start + _LABELS_AT_ONCE)
        rows = processor(label_text=texts[part], label_language=languages and languages[part])["label_input_ids"]
        unknown += [start + place for place, row in enumerate(rows) if set(row) == {processor.tokenizer.unk_token_id}]
    return unknown


@contextmanager
def changing(path: Path, dry_run: bool = False) -> Iterator[None]:
    """Waits until no other command changes a model or a label file: it would undo what this one does, or this one that.

    Args:
        path: The folder of the model, or the label file; this one need not exist.
        dry_run: Whether nothing will be written; then nothing is waited for.
    """
    from hf_gile.publishing.exchange import alone, complete

    if path.is_dir():
        complete(path)
    if dry_run:
        yield
        return
    with alone(path, lambda: note(f"waiting for another hf-gile that changes {path}")):
        yield


def save_changed(
    folder: Path, model: "GileForSequenceClassification", processor: "GileProcessor", label_set: "LabelSet"
) -> str:
    """Saves a model in place of itself, with changed labels or settings; the codes in its `index` follow.

    The card and all other files stay as they are. If something fails, so does everything.

    Args:
        folder: Where the model was loaded from.
        model: The model.
        processor: Its processor.
        label_set: Its labels as they are to be.

    Returns:
        What became of the index, in words to go on with; none if there is none.

    Raises:
        ValueError: The labels do not fit the model.
    """
    from hf_gile.publishing import save

    index, words = _index_for(folder / "index", model, processor, label_set)
    save(folder, model, processor, label_set, index=index, card=False)
    return words


def note_old_card(folder: Path) -> None:
    """Says that the card of a model that has changed is the old one, and what makes another.

    Args:
        folder: The folder of the model.
    """
    from hf_gile.publishing.card_files import CARD_FILE

    if not (folder / "README.md").is_file():
        return
    command = f"hf-gile card {shlex.quote(str(folder))}"
    if not (folder / CARD_FILE).is_file():  # somebody may have written it
        note(f"README.md is of before this change: mend it, or have {command} replace it")
        return
    old = "README.md and labels.csv are" if (folder / "labels.csv").is_file() else "README.md is"
    figures = "; hf-gile evaluate before it gives new figures" if (folder / "results.json").is_file() else ""
    note(f"{old} of before this change: {command} makes a new card{figures}")


def _index_for(
    folder: Path, model: "GileForSequenceClassification", processor: "GileProcessor", new: "LabelSet"
) -> tuple[Any, str]:
    """The index to save: that of the folder with the labels that are new, or True to make all codes anew."""
    from hf_gile import LabelIndex

    if not folder.is_dir():
        return False, ""
    old = model.label_set
    anew = True, "; index made anew"
    # Of several languages, or with codes that go by id.
    if not (folder / "label_index.json").is_file() or model.gile.label_rows is not None:
        return anew
    try:
        index = LabelIndex.from_pretrained(folder, model, mmap=False)  # the file it is in will be replaced
    except (ValueError, FileNotFoundError):  # of another model, or damaged
        return anew
    before, after = ({label.id: label for label in labels} for labels in (index.label_set, new))
    if old is None or index.label_set.ids != old.ids:
        return anew
    renamed = [one for one in after if one in before and before[one].text != after[one].text]
    if any(before[one].description != after[one].description for one in renamed):
        return anew
    gone, added = [one for one in before if one not in after], [label for label in new if label.id not in before]
    if len(gone) == len(before):
        return anew
    if gone:
        index.remove(*gone)
    for one in renamed:
        index.rename(one, after[one].name, model, processor)
    if added:
        index.add(added, model, processor)
    if index.label_set.ids != new.ids:
        return anew
    index.label_set = new
    return index, f"; index follows: {len(added) + len(renamed):,} encoded, {len(gone):,} removed"
