"""Loads saved models, and saves changed labels or calibration."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .running import counted, note, silence_libraries

if TYPE_CHECKING:
    from torch import Tensor

    from hf_gile import GileForSequenceClassification, GileProcessor

_CHUNK_SIZE = 10_000


GENERAL = "general"
"""Name of the general scorer, which needs no training, instead of a saved model."""


def is_general(model: str) -> bool:
    """Checks whether a name stands for the general scorer, and not for a folder of this name."""
    return model == GENERAL and not Path(GENERAL).is_dir()


def load(
    model: str,
    revision: str | None = None,
    device: str | None = None,
    labels: Sequence[str] = (),
    documents: Iterable[str] = (),
    texts: Iterable[str] = (),
) -> tuple[Any, Any]:
    """Loads a model and its processor with the installed hf_gile; never runs code of the model.

    Args:
        model: Folder or name on the Hub; "general" is the general scorer unless a folder has this name.
        revision: Branch, tag or commit on the Hub.
        device: Device of the model; a GPU by default, if available.
        labels: Names of labels, from which the general scorer detects the language.
        documents: Texts similar to those to score, for the general scorer.
        texts: Texts to score, from which the general scorer detects the language.

    Returns:
        The `GileForSequenceClassification`, in evaluation mode, and the `GileProcessor`.

    Raises:
        ValueError: If it is not a GILE model, has custom code, or the device does not exist.
        FileNotFoundError: If it does not exist.
        OSError: If it cannot be read from the Hub.
    """
    if not is_general(model):
        _check_exists(model)  # before imports that take seconds
    import torch
    from transformers import AutoModelForSequenceClassification

    from hf_gile import GileConfig, GileProcessor
    from hf_gile.models.registration import CLASSES
    from hf_gile.models.saving_gile import load_checked

    silence_libraries()
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"this machine has no device {device!r}: {str(error).splitlines()[0]}") from None
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if is_general(model):
        from hf_gile.training.general import general_scorer

        scorer, processor = general_scorer(texts, documents, labels)
        return scorer.to(device), processor
    arguments: Any = {"revision": revision or "main"}
    with explained(model):
        config, _ = GileConfig.get_config_dict(model, **arguments)
    model_type = config.get("model_type")
    if model_type not in [known.model_type for known, _, _ in CLASSES]:
        raise ValueError(f"{model} is a model of type {model_type!r:.100}, not a GILE model")

    def load_both() -> tuple[Any, Any]:
        # Without the flag, Transformers would prompt on standard input, which may contain the texts to score.
        loaded = AutoModelForSequenceClassification.from_pretrained(model, **arguments, trust_remote_code=False)
        return loaded.eval(), GileProcessor.from_pretrained(model, **arguments, trust_remote_code=False)

    # Each checks its files; the names are empty to check only that both are of the same save.
    (loaded, processor), _ = load_checked(model, "processor", load_both, arguments, names=())
    if loaded.config.text_config.text_encoder_type == "static":
        loaded.gile.text_encoder.read_other_labels = partial(_read_other_labels, loaded)
    return loaded.to(device), processor


@contextmanager
def explained(model: str) -> Iterator[None]:
    """Explains errors of files of a model that is not a folder: why they cannot be read from the Hub."""
    try:
        yield
    except OSError as error:
        if Path(model).is_dir():
            raise
        from hf_gile.publishing.hub import explain

        _, reason = explain(error, "it")
        raise FileNotFoundError(
            f"{model} is no local file or folder, and cannot be read from the Hub: {reason}"
            f"{suggest_models(Path(model).parent)}"
        ) from error


def _check_exists(model: str) -> None:
    """Checks a folder of a model, and refuses what cannot be on the Hub."""
    from hf_gile.models.saving_gile import check_folder

    folder = Path(model)
    if folder.is_dir():
        check_folder(folder)
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"{model} is not a saved model: it has no config.json{suggest_models(folder)}")
        _check_weights(folder)
    if folder.is_file():
        raise FileNotFoundError(
            f"{model} is a file, not a model; to score it without a model: hf-gile score general {model}"
        )
    if not folder.is_dir() and not is_hub_name(model):
        raise FileNotFoundError(
            f"no folder {model} (in {Path.cwd()}); models on the Hub are named user/name{suggest_models(folder.parent)}"
        )


def suggest_models(folder: Path) -> str:
    """Returns a question with the saved models in a folder, to append to a message; empty for the current folder."""
    if folder == Path():
        return ""
    models = [str(file.parent) for depth in ("*", "*/*") for file in sorted(folder.glob(f"{depth}/config.json"))]
    if not models:
        return ""
    return f"; did you mean {' or '.join(models[:3])}?"


def _read_other_labels(model: "GileForSequenceClassification", input_ids: "Tensor") -> Any:
    """Reads new labels of a static model, and imports what it needs for that."""
    from hf_gile.training import attach_teacher

    return attach_teacher(model).gile.text_encoder.read_other_labels(input_ids)


def _check_weights(folder: Path) -> None:
    """Checks that all weights of a model are in its folder."""
    from hf_gile.models.checks_gile import read_json_object

    for index in folder.glob("*.index.json"):
        try:
            names = [str(name) for name in read_json_object(index)["weight_map"].values()]
        except (ValueError, LookupError, AttributeError):
            raise ValueError(f"{index} does not list weight files: save the model again") from None
        for name in names:
            if Path(name).name != name:
                raise ValueError(f"{index} refers to weights outside its folder: {name!r:.200}")


def is_hub_name(model: str) -> bool:
    """Checks whether a name may refer to a model on the Hub.

    Example:
        >>> [is_hub_name(name) for name in ("user/gile", "gile", "./runs/gile", "runs/mesh/gile")]
        [True, False, False, False]
    """
    return model.count("/") == 1 and not model.startswith((".", "/", "~")) and not Path(model).exists()


def note_unknown_labels(
    model: "GileForSequenceClassification",
    processor: "GileProcessor",
    labels: Sequence[Any],
    language: str | None = None,
) -> None:
    """Warns about new labels that consist of unknown words only, which all get the same score.

    A model that counts shared words distinguishes unknown words, but not labels without a word, such as emoji. Labels
    with learned weights are not affected. `language` is that of labels without a language.
    """
    from hf_gile.models.lexical_gile import lexical_features

    config = model.config
    if config.output_layer == "linear" or config.text_config.reads_pretrained:
        return  # does not read labels, or reads subwords
    if len(config.languages) == 1:
        language = language or config.languages[0]
    if config.languages and not all(label.language or language for label in labels):
        return  # reported later, when the labels are encoded
    if model.gile.label_rows is not None:
        seen = model.stored_labels.seen(labels, language).tolist()
        labels = [label for label, is_seen in zip(labels, seen, strict=True) if not is_seen]
    languages = [label.language or language for label in labels] if config.languages else None
    unknown = unknown_labels(processor, [label.text for label in labels], languages)
    if model.gile.output_layer.counts_words:
        unknown = [position for position in unknown if not lexical_features(labels[position].text)]
    if unknown:
        names = ", ".join(repr(labels[position].name) for position in unknown[:3])
        more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
        note(
            f"the model knows no word of {counted(len(unknown), 'label')}: {names}{more}; all such labels get the same "
            "score, so rename or describe them in other words"
        )


def unknown_labels(
    processor: "GileProcessor", texts: Sequence[str], languages: Sequence[str | None] | None = None
) -> list[int]:
    """Returns the positions of labels of unknown words only, which a word model cannot distinguish.

    A multilingual model needs the language of each label, and raises a ValueError for an unknown language.
    """
    unknown: list[int] = []
    for start in range(0, len(texts), _CHUNK_SIZE):
        part = slice(start, start + _CHUNK_SIZE)
        rows = processor(label_text=texts[part], label_language=languages and languages[part])["label_input_ids"]
        unknown += [start + offset for offset, row in enumerate(rows) if set(row) == {processor.tokenizer.unk_token_id}]
    return unknown


@contextmanager
def lock_for_change(path: Path, dry_run: bool = False) -> Iterator[None]:
    """Locks a model or a label file, which need not exist, against changes by other commands; waits if necessary."""
    from hf_gile.writing import complete, exclusive_lock

    if dry_run:
        yield
        return
    with exclusive_lock(path, lambda: note(f"waiting for another hf-gile process that is changing {path}")):
        if path.is_dir():
            complete(path)
        yield


def save_changes(folder: Path, model: "GileForSequenceClassification", processor: "GileProcessor") -> str:
    """Saves a changed model over its old version, and encodes the labels of its `index` again.

    The card and all other files stay unchanged. The change is atomic.

    Returns:
        That the index was rebuilt, as the end of a message; empty without an index.
    """
    from hf_gile.publishing import save

    has_index = (folder / "index").is_dir()
    save(folder, model, processor, index=has_index, card=False)
    return "; index rebuilt" if has_index else ""


def note_old_card(folder: Path) -> None:
    """Reports that the card of a changed model is outdated, and how to write a new one."""
    from hf_gile.publishing.card import CARD_FILE

    if not (folder / "README.md").is_file():
        return
    command = f"hf-gile card {shlex.quote(str(folder))}"
    if not (folder / CARD_FILE).is_file():  # may be written by hand
        note(f"README.md predates this change: edit it, or replace it with {command}")
        return
    outdated = "README.md and labels.csv are" if (folder / "labels.csv").is_file() else "README.md is"
    figures = "; run hf-gile evaluate first for new results" if (folder / "results.json").is_file() else ""
    note(f"{outdated} outdated by this change: {command} writes a new card{figures}")
