"""Label indexes: the precomputed codes of a label set, with scoring, exact top-k search, and saving.

Shapes: B documents, L labels, C labels scored, J joint size, K labels returned.
"""

import hashlib
import json
import re
import secrets
import weakref
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedConfig

from .models import GileProcessor, Scorer, get_towers, unwrapped
from .models.labels_gile import Label, LabelSet
from .models.languages_gile import check_language, get_language_columns
from .models.lexical_gile import LexicalFeatures, Postings
from .models.registration import evaluating
from .models.search_gile import (
    TopLabels,
    compute_scores,
    finite_codes,
    get_bias,
    join_codes,
    project_label_set,
    search_top_k,
)
from .models.stored_labels_gile import compute_state
from .writing import whole_file, write_text

INDEX_FILE = "label_index.json"
"""Main file of a saved index, which names the other files. It is written last."""

FORMAT_VERSION = 1
"""Incremented when the meaning of a saved index changes, so that older code refuses to load it."""

# Attributes of an index that `label_index.json` has.
_HEAD = ("bias", "language", "label_language", "model_fingerprint")

# Names of the other files of an index.
_FILES = re.compile(r"\.?label_index(-[0-9a-f]{8}){1,2}\.(safetensors|jsonl|json)")

# Configuration fields that do not affect codes. All other fields count, including new ones.
_NO_DIFFERENCE = {
    *(field.name for field in fields(PreTrainedConfig)),
    *("auto_map", "custom_pipelines", "use_cache"),
    *("cosine_scale", "embedding_std", "initializer_range", "label_prior"),  # initial values of weights
    "freeze_text_encoder",
    *("calibration", "label_length", "language_labels", "thresholds", "usual_score"),  # of stored labels and of results
    *("max_label_words", "max_words"),  # of the processor; sentence sizes also matter to a published graph
}

_FINGERPRINTS: "weakref.WeakKeyDictionary[Any, tuple[Any, str]]" = weakref.WeakKeyDictionary()


class LabelIndex:
    """The codes of a label set, for scoring documents with the model that computed them.

    A score is the inner product of a text code and a label code plus a constant. It depends neither on the other labels
    of the index nor on their order.

    Create an index with `build` or `from_pretrained`.

    Args:
        label_set: The labels; row j of `codes` belongs to label j.
        codes: `(L, J)` label codes, on any device. 16-bit codes need half the memory and are less precise.
        bias: Constant b of the score.
        language: Language of the documents to score; None for a model without languages.
        model_fingerprint: `fingerprint(model)` of the model that computed the codes.
        label_language: Language of labels without a language.
        postings: Postings of the lexical terms, if the model has them (`GileModel.postings`).

    Raises:
        ValueError: If codes do not have a row for each label, or are integers.

    Example:
        >>> from hf_gile import GileConfig, GileModel, GileProcessor, build_tokenizer
        >>> tokenizer = build_tokenizer(["heart failure", "human milk and iron"], min_count=1)
        >>> model = GileModel(GileConfig(vocab_size=len(tokenizer))).eval()
        >>> processor = GileProcessor.for_config(tokenizer, model.config)
        >>> index = LabelIndex.build(model, processor, LabelSet.from_names(["Iron", "Heart", "Milk"]))
        >>> text_codes = model.project_texts(**processor(["iron in milk"], return_tensors="pt"))
        >>> index.scores(text_codes).shape, index.top_k(text_codes, 2).columns.shape
        (torch.Size([1, 3]), torch.Size([1, 2]))
    """

    def __init__(
        self,
        label_set: LabelSet,
        codes: Tensor,
        bias: float,
        language: str | None,
        model_fingerprint: str,
        label_language: str | None = None,
        postings: Postings | None = None,
    ) -> None:
        if codes.dim() != 2 or len(codes) != len(label_set):
            raise ValueError(
                f"codes must have a row for each of the {len(label_set)} labels, got shape {tuple(codes.shape)}"
            )
        _check_dtype(codes.dtype)
        self.label_set = label_set
        self.codes = codes
        self.bias = bias
        self.language = language
        self.model_fingerprint = model_fingerprint
        self.label_language = label_language
        self.postings = postings

    @classmethod
    def build(
        cls,
        model: Scorer,
        processor: GileProcessor | None = None,
        label_set: LabelSet | None = None,
        *,
        language: str | None = None,
        label_language: str | None = None,
        batch_size: int = 1024,
        dtype: torch.dtype | None = None,
    ) -> "LabelIndex":
        """Encodes labels into an index.

        Args:
            model: A `GileModel` or a `GileForSequenceClassification`.
            processor: The `GileProcessor` saved with the model. Not needed for stored labels.
            label_set: The labels. By default the labels stored with the model, including their learned weights (also
                those of a linear unit). In a multilingual model, the stored labels of `label_language` or `language`.
            language: Language of the documents to score, for a multilingual model.
            label_language: Language of labels without a language; by default that of the documents. Only used if the
                text encoder reads labels, or the processor has words of several languages.
            batch_size: Number of labels encoded together.
            dtype: Type of the codes, such as `torch.float16`. By default the type of the model.

        Raises:
            ValueError: If there is no label set or no processor, a language is unknown, a linear unit was not
                trained on the labels, codes overflow in this type, or the type is not a floating point type.
        """
        if hasattr(processor, "ids"):
            raise ValueError(
                "got a label set instead of the processor: call LabelIndex.build(model, processor, label_set)"
            )
        _check_dtype(dtype)
        gile = get_towers(model)
        model = unwrapped(model)
        language = check_language(gile.config, language)
        label_language = label_language or language
        with evaluating(model), torch.autocast(gile.device.type, enabled=False):
            if label_set is None:
                label_set, codes = _stored(model, language, label_language, batch_size, dtype)
            else:
                codes = project_label_set(model, processor, label_set, language, label_language, batch_size, dtype)
            build = getattr(model, "build_postings", lambda labels, _: gile.postings(labels))
            postings = build(label_set, label_language)
        bias = get_bias(gile, language)
        return cls(label_set, codes, bias, language, fingerprint(gile), label_language, postings)

    def __len__(self) -> int:
        """Returns the number of labels L."""
        return len(self.label_set)

    def __repr__(self) -> str:
        kind = f"{self.codes.shape[1]} numbers of {self.codes.dtype} on {self.codes.device}"
        return f"LabelIndex({len(self)} labels, each {kind})"

    def scores(
        self,
        text_codes: Tensor,
        columns: Tensor | None = None,
        lexical: LexicalFeatures | None = None,
    ) -> Tensor:
        """Scores documents against all labels, or against some.

        Args:
            text_codes: `(B, J)` from `project_texts`, of documents in `self.language`.
            columns: `(C,)` indices of the labels to score; by default all.
            lexical: Features of the documents, for an index with `postings`: `LexicalFeatures.of(processor(...))`, or
                `model.gile.lexical_features`, which a model with neighbours needs.

        Returns:
            `(B, L)` or `(B, C)` logits on the device of the codes, in float32 (float64 if any codes are).

        Raises:
            ValueError: If text codes have a wrong shape, or `lexical` is missing for an index with `postings`.
        """
        codes = self.codes if columns is None else self.codes[columns.to(self.codes.device)]
        bias = self._bias(text_codes, lexical)
        if columns is None or not callable(bias):
            return compute_scores(text_codes, codes, bias)
        return compute_scores(text_codes, codes, lambda rows: bias(rows)[:, columns.to(codes.device)])

    def top_k(
        self,
        text_codes: Tensor,
        k: int,
        lexical: LexicalFeatures | None = None,
    ) -> TopLabels:
        """Returns the k best labels of each document, without storing all scores (unless k exceeds L / 2).

        Args:
            text_codes: `(B, J)` from `project_texts`, of documents in `self.language`.
            k: Number of labels; all labels if the index has fewer.
            lexical: As in `scores`.

        Returns:
            Scores and label indices, each `(B, min(k, L))`.

        Raises:
            ValueError: If k is below 1, or text codes have a wrong shape.
        """
        return search_top_k(text_codes, self.codes, self._bias(text_codes, lexical), k)

    def _bias(self, text_codes: Tensor, lexical: LexicalFeatures | None) -> Any:
        """Returns the `Bias` of the scores of documents."""
        postings = self.postings
        if postings is None:
            return self.bias
        if lexical is None or len(lexical) != len(text_codes):
            postings.scores(lexical, len(text_codes))  # raises an error with the reason
        assert lexical is not None
        return lambda rows: self.bias + postings.scores(lexical.take(rows))

    @torch.inference_mode(False)
    def add(self, labels: Label | Iterable[Label], model: Scorer, processor: GileProcessor) -> None:
        """Appends labels. All codes are copied, so add many labels at once.

        Args:
            labels: `Label`s, a `LabelSet`, or a single `Label`.
            model: The model that computed this index.
            processor: The `GileProcessor` saved with it.

        Raises:
            ValueError: If labels conflict with existing ones (see `LabelSet`), a `GileModel` has learned weights of
                labels beyond their text, or the model differs.
        """
        self.check_fits(model)
        labels = [labels] if isinstance(labels, Label) else list(labels)
        label_set = self.label_set.add(*labels)
        new = self._encode(labels, model, processor)
        self.codes = torch.cat([self.codes, new.codes.to(self.codes.device)])
        self.postings = self.postings and _joined(self.postings, new.postings)
        self.label_set = label_set

    @torch.inference_mode(False)
    def remove(self, *label_ids: str) -> None:
        """Removes labels. The indices of later labels decrease. All codes are copied, so remove many labels at once.

        Raises:
            ValueError: If an id is unknown, or no label would be left.
        """
        remaining = torch.ones(len(self), dtype=torch.bool)
        remaining[self.label_set.columns(label_ids)] = False
        self.label_set = self.label_set.retire(*label_ids)
        self.codes = self.codes[remaining.to(self.codes.device)]
        self.postings = self.postings and _selected(self.postings, remaining.nonzero()[:, 0])

    def rename(self, label_id: str, name: str, model: Scorer, processor: GileProcessor) -> None:
        """Renames a label and encodes it again (except with a linear unit). Its id and index stay.

        Raises:
            ValueError: If the id is unknown, the name conflicts with another label, a `GileModel` has learned weights
                of labels beyond their text, or the model differs.
        """
        self.check_fits(model)
        column = self.label_set.column(label_id)
        label_set = self.label_set.rename(label_id, name)
        if get_towers(model).config.output_layer == "linear":
            self.label_set = label_set
            return
        new = self._encode([label_set[column]], model, processor)
        # In place: for memory-mapped codes this copies a page and does not change the file.
        self.codes[column] = new.codes[0].to(self.codes.device)
        if self.postings is not None:
            order = torch.arange(len(self))
            order[column] = len(self)  # index of the appended entry
            self.postings = _selected(_joined(self.postings, new.postings), order)
        self.label_set = label_set

    def _encode(self, labels: Sequence[Any], model: Scorer, processor: GileProcessor) -> "LabelIndex":
        """Builds an index of further labels with the settings of this index."""
        if get_towers(model).label_rows is not None and getattr(unwrapped(model), "label_set", None) is None:
            raise ValueError(
                f"the model may have learned weights of label {labels[0].id!r}, which a GileModel cannot look up: pass "
                "the GileForSequenceClassification with its label set"
            )
        return LabelIndex.build(
            model,
            processor,
            LabelSet(labels),
            language=self.language,
            label_language=self.label_language,
            dtype=self.codes.dtype,
        )

    def check_fits(self, model: Scorer, languages: tuple[str | None, str | None] | None = None) -> None:
        """Checks that this index was computed by a model with its current weights.

        Args:
            model: The model.
            languages: Languages of the texts and labels to score; by default the languages of the index.

        Raises:
            ValueError: If it is a different model or version, or the index is for other languages.
        """
        actual = fingerprint(model)
        if actual != self.model_fingerprint:
            raise ValueError(
                f"this label index was computed by another model, or by this model with other weights or dtype "
                f"(fingerprint {self.model_fingerprint[:12]}, this model has {actual[:12]}): its scores would be "
                "meaningless; build it again with LabelIndex.build(model, processor, label_set)"
            )
        if languages is not None and languages != (self.language, self.label_language):
            raise ValueError(
                f"this label index was built with language={self.language!r}, label_language={self.label_language!r}, "
                f"but scoring uses language={languages[0]!r}, label_language={languages[1]!r}: build an "
                "index for these"
            )

    @torch.inference_mode(False)
    def to(self, device: torch.device | str | int | None = None, dtype: torch.dtype | None = None) -> "LabelIndex":
        """Moves or casts the codes to a device or type, in place, and returns the index.

        Raises:
            ValueError: If the type is not a floating point type, or codes overflow in it.
        """
        _check_dtype(dtype)
        codes = self.codes.to(device=device, dtype=dtype)
        self.codes = codes if codes.dtype == self.codes.dtype else finite_codes(codes)
        self.postings = self.postings and Postings(*(tensor.to(codes.device) for tensor in self.postings))
        return self

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Saves the index as `label_index.json` and the files of labels and codes that it names.

        The names contain a checksum, so that the same index is saved in the same files. `label_index.json` is replaced
        last, so an earlier index in the folder can be loaded until the new one is complete.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = {name: folder / f"label_index-{secrets.token_hex(4)}.{name}" for name in ("safetensors", "jsonl")}
        with whole_file(files["safetensors"]) as written:
            words = {} if self.postings is None else self.postings._asdict()
            save_file({"codes": self.codes.contiguous(), **words}, written, metadata={"format": "pt"})
        with whole_file(files["jsonl"]) as written:
            self.label_set.save(written)
        checksums = {name: _checksum(file) for name, file in files.items()}
        names = {name: f"label_index-{checksum}.{name}" for name, checksum in checksums.items()}
        for name, file in files.items():
            file.replace(folder / names[name])
        head = {
            "format_version": FORMAT_VERSION,
            "codes": names["safetensors"],
            "labels": names["jsonl"],
            **{name: getattr(self, name) for name in _HEAD},
        }
        head["checksums"] = checksums | {"head": _checksum_of_head(head)}
        write_text(folder / INDEX_FILE, json.dumps(head, indent=2) + "\n")
        for file in folder.iterdir():  # files of an earlier or incomplete save
            if _FILES.fullmatch(file.name) and file.name not in names.values():
                file.unlink(missing_ok=True)

    @classmethod
    @torch.inference_mode(False)
    def from_pretrained(
        cls,
        folder: str | PathLike[str],
        model: Scorer | None = None,
        mmap: bool = True,
        verify: bool = True,
    ) -> "LabelIndex":
        """Loads an index from a folder.

        Args:
            folder: Folder passed to `save_pretrained`.
            model: Model to check the index against.
            mmap: Whether to memory-map the codes instead of reading them into memory.
            verify: Whether to read all files and compare their checksums, about a second per GB. Without this check,
                codes that are not needed are never read, and damage shows only in wrong scores.

        Raises:
            FileNotFoundError: If the folder has no index.
            ValueError: If the index is damaged, was saved by newer code, or belongs to another model.
        """
        folder = Path(folder)
        file = folder / INDEX_FILE
        try:
            head = json.loads(file.read_text(encoding="utf-8"))
            version = head["format_version"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{file} is not the main file of a label index ({type(error).__name__}: {error!s:.500}): build and "
                "save the index again"
            ) from None
        if version != FORMAT_VERSION:
            raise ValueError(
                f"{file} has format_version {version}, this code reads {FORMAT_VERSION}: "
                "upgrade hf-gile (pip install -U hf-gile), or build the index again"
            )
        try:
            files = {
                "safetensors": _check_file(folder, head["codes"]),
                "jsonl": _check_file(folder, head["labels"]),
            }
            checksums = head.pop("checksums")
            if checksums["head"] != _checksum_of_head(head):
                raise ValueError(f"the checksum of {file} does not match")
            for name, path in files.items() if verify else ():
                if _checksum(path) != checksums[name]:
                    raise ValueError(f"{path} has changed since it was saved")
            with safe_open(files["safetensors"], framework="pt") as opened:
                codes = opened.get_tensor("codes")
                postings = None
                if "weights" in opened.keys():  # noqa: SIM118, not a mapping
                    postings = Postings(*map(opened.get_tensor, Postings._fields))
                    if bool((postings.starts.diff(prepend=postings.starts.new_zeros(1)) < 0).any()):
                        raise ValueError("its postings start before those of other texts")  # read out of bounds
            label_set = LabelSet.load(files["jsonl"])
            settings = {name: head[name] for name in _HEAD}
            index = cls(label_set, codes if mmap else codes.clone(), **settings, postings=postings)
            if verify:
                finite_codes(index.codes)
        except (SafetensorError, FileNotFoundError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{folder}: the index is damaged ({error!s:.500}): build and save it again") from None
        if model is not None:
            index.check_fits(model)
        return index


def fingerprint(model: Scorer) -> str:
    """Computes a hash of everything that determines the codes of a model: its weights and parts of its configuration.

    The hash does not change when the model is saved, loaded or moved to another device, but it depends on the dtype. It
    is computed again only after the weights have changed.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`.
    """
    gile = get_towers(model)
    weights = gile.state_dict()
    settings = json.dumps(_settings(gile.config), sort_keys=True, default=str)
    state = (settings, *compute_state(*weights.values()))
    cached = _FINGERPRINTS.get(gile)
    if cached is None or cached[0] != state:
        digest = hashlib.blake2b(settings.encode(), digest_size=32)
        for name, weight in sorted(weights.items()):
            digest.update(f"{name} {weight.dtype} {tuple(weight.shape)} ".encode())
            flat = weight.detach().flatten()
            for start in range(0, len(flat), 1 << 22):
                digest.update(flat[start : start + (1 << 22)].cpu().contiguous().view(torch.uint8).numpy())
        cached = _FINGERPRINTS[gile] = (state, digest.hexdigest())
    return cached[1]


def _settings(config: PreTrainedConfig) -> dict[str, Any]:
    """Returns the fields of a configuration, including nested configurations, that affect codes."""
    settings = {"model_type": config.model_type}
    for name, value in vars(config).items():
        if name.startswith("_") or name in _NO_DIFFERENCE or "dropout" in name:
            continue
        if hasattr(value, "to_dict"):
            value = _settings(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            value = float(value)  # 1 equals 1.0
        settings[name] = value
    return settings


def _selected(postings: Postings, columns: Tensor) -> Postings:
    """Selects the postings of `(C,)` distinct label indices, in their order."""
    columns = columns.to(postings.labels.device)
    order = postings.labels.new_full((postings.weights.shape[1],), -1)
    order[columns] = torch.arange(len(columns), device=columns.device)
    texts = (order[postings.labels] >= 0).nonzero()[:, 0]
    entries = postings.entries_of(texts)
    return Postings.from_entries(
        postings.expand_features()[entries],
        postings.starts.diff()[texts],
        postings.values[entries],
        order[postings.labels[texts]],
        postings.words[texts],
        postings.weights[:, columns],
        postings.specificity[columns],
        postings.full_length,
    )


def _joined(postings: Postings, new: Postings | None) -> Postings:
    """Appends the postings of further labels."""
    assert new is not None  # both belong to the same model
    new = Postings(*(tensor.to(postings.labels.device) for tensor in new))
    return Postings.from_entries(
        torch.cat([postings.expand_features(), new.expand_features()]),
        torch.cat([postings.starts.diff(), new.starts.diff()]),
        torch.cat([postings.values, new.values]),
        torch.cat([postings.labels, new.labels + postings.weights.shape[1]]),
        torch.cat([postings.words, new.words]),
        torch.cat([postings.weights, new.weights], 1),
        torch.cat([postings.specificity, new.specificity]),
        postings.full_length,
    )


def leads_out(file: Path, folder: Path) -> bool:
    """Checks whether a file of a saved model is a link to a file outside the folder and the cache of the Hub.

    Args:
        file: The file.
        folder: Folder of the model.
    """
    folder = folder.resolve()
    file = file.resolve()
    blobs = [parent.parent / "blobs" for parent in folder.parents if parent.name == "snapshots"]
    return not any(file.is_relative_to(home) for home in (folder, *blobs))


def _check_file(folder: Path, name: Any) -> Path:
    """Returns the path of a file of an index; refuses other files."""
    if not _FILES.fullmatch(str(name)) or leads_out(folder / name, folder):
        raise ValueError(f"{folder / INDEX_FILE} names {str(name)!r:.200}, which is not a file of an index in {folder}")
    return folder / name


def _stored(
    model: Scorer,
    language: str | None,
    label_language: str | None,
    batch_size: int,
    dtype: torch.dtype | None,
) -> tuple[LabelSet, Tensor]:
    """Returns the stored labels of a language, or all, and their codes."""
    label_set = getattr(model, "label_set", None)
    if label_set is None:
        raise ValueError(
            "no label set is stored with this model: pass label_set=, or store labels with "
            "GileForSequenceClassification.set_labels"
        )
    selected = get_language_columns(model.config, check_language(model.config, label_language))
    columns = torch.arange(selected.start, selected.stop, device=model.device)
    batches = (model.project_stored_labels(batch, language) for batch in columns.split(batch_size))
    codes = join_codes(batches, len(columns), dtype)
    return label_set if len(columns) == len(label_set) else label_set[selected], codes


def _check_dtype(dtype: torch.dtype | None) -> None:
    """Refuses types other than floating point types."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ValueError(f"dtype must be a floating point type, such as torch.float16, got {dtype}")


def _checksum(file: Path) -> str:
    """Computes a checksum that detects damage, but not forgery."""
    checksum = 0
    with file.open("rb") as opened:
        while part := opened.read(1 << 20):
            checksum = zlib.crc32(part, checksum)
    return f"{checksum:08x}"


def _checksum_of_head(head: dict[str, Any]) -> str:
    """Computes the checksum of `label_index.json` from its content without `checksums`."""
    return f"{zlib.crc32(json.dumps(head, sort_keys=True).encode()):08x}"
