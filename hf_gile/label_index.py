"""The codes of a label set, computed once: scores, exact and approximate top-k search, changes, files.

Shapes: B documents, L labels, C labels scored, J joint size, K labels returned.
"""

import hashlib
import json
import math
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

from .models import GileProcessor, Scorer, towers_of, unwrapped
from .models.labels_gile import Label, LabelSet
from .models.languages_gile import check_language, own_columns
from .models.processing_gile import LEXICAL_BUCKETS
from .models.scoring_gile import Postings
from .models.search_gile import (
    SCORES_AT_ONCE,
    TopLabels,
    best_of,
    bias_of,
    check_text_codes,
    finite_codes,
    join_codes,
    project_label_set,
    scores_of,
    top_k_of,
    wide_type,
)
from .models.stored_labels_gile import state_of
from .writing import whole_file

INDEX_FILE = "label_index.json"
"""The file of a saved index that names the others; it is written last."""

FORMAT_VERSION = 1
"""Raised when a saved index changes meaning, so that older code refuses it instead of misreading it."""

# What `label_index.json` holds of an index, and the types it may have.
_HEAD: dict[str, tuple[type, ...]] = {
    "bias": (float, int),
    "language": (str, type(None)),
    "label_language": (str, type(None)),
    "model_fingerprint": (str,),
}

# Its other files, by names that no other files have.
_FILES = re.compile(r"\.?label_index(-[0-9a-f]{8}){1,2}\.(safetensors|jsonl|json)")

# Fields of configurations that may change without another code for a text. All others count, new ones too.
_NO_DIFFERENCE = {
    *(field.name for field in fields(PreTrainedConfig)),
    *("auto_map", "custom_pipelines", "use_cache"),
    *("cosine_scale", "embedding_std", "initializer_range", "label_prior"),  # where weights start
    "freeze_text_encoder",
    *("calibration", "label_length", "language_labels", "thresholds"),  # of stored labels, and of answers
    *("max_label_words", "max_words"),  # of the processor; the sizes of sentences are those of a published graph, too
}

_FINGERPRINTS: "weakref.WeakKeyDictionary[Any, tuple[Any, str]]" = weakref.WeakKeyDictionary()

# Candidates of an approximate search whose codes are gathered at a time.
_CANDIDATES = 1 << 13


class LabelIndex:
    """The codes of a label set, which score any document of the model that made them.

    A score is the inner product of a text code and a label code plus a constant, so it depends neither on the other
    labels of the index nor on their order.

    Make one with `build`, or load one with `from_pretrained`.

    Args:
        label_set: The labels; row j of `codes` is that of label j.
        codes: `(L, J)` label codes, on any device; in 16 bits they take half the memory, and lose as much precision.
        bias: The constant b of the score.
        language: The language of the documents to score; None in a model without languages.
        model_fingerprint: Of the model that made the codes, `fingerprint(model)`.
        label_language: The language of labels that do not name theirs.
        postings: What compares their words with those of texts, where the model counts these (`GileModel.postings`).

    Attributes:
        search: What chooses candidates for `top_k(..., approximate=True)`, such as `hf_gile.ann.ApproximateSearch`;
            none at first. `candidates(text_codes, k)` takes `(B, J)` text codes and gives at least k columns of this
            index for each, best first as far as it can tell (`top_k` takes any order, `HardNegatives` does not), none
            twice, -1 where it finds fewer; `len` is its number of labels; `add(codes)`, `remove(columns)` and
            `replace(columns, codes)` follow the changes of the index.

    Raises:
        ValueError: Codes that are not a row for each label, or whole numbers.

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
        if not torch.is_tensor(codes):
            raise ValueError(f"codes must be a tensor, got {type(codes).__name__}; LabelIndex.build makes them")
        if codes.dim() != 2 or len(codes) != len(label_set):
            raise ValueError(
                f"codes must have one row for each of the {len(label_set)} labels, got shape {tuple(codes.shape)}"
            )
        _check_dtype(codes.dtype)
        self.label_set = label_set
        self.codes = codes
        self.bias = bias
        self.language = language
        self.model_fingerprint = model_fingerprint
        self.label_language = label_language
        self.postings = postings
        self.search: Any | None = None

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
        """Encodes labels.

        Args:
            model: A `GileModel` or a `GileForSequenceClassification`.
            processor: The `GileProcessor` saved with the model; not needed for stored labels.
            label_set: The labels; by default those stored with the model, with what it has learned of each (those of
                a linear unit, too). Of stored labels of several languages, those of `label_language` or `language`.
            language: The language of the documents to score, in a model of several.
            label_language: The language of labels that name none, by default that of the documents; only read where
                the text encoder reads labels, or the processor has words of several languages.
            batch_size: Labels encoded at a time.
            dtype: The type of the codes, such as `torch.float16`; by default that of the model.

        Raises:
            ValueError: No label set is given or stored, no processor, a language that the model does not know, a linear
                unit and other labels than its own, codes with numbers that are not finite in this type, a type of whole
                numbers, or a batch size below 1.
        """
        if hasattr(processor, "ids"):
            raise ValueError(
                "got a label set in the place of the processor: LabelIndex.build(model, processor, label_set)"
            )
        if label_set is not None and not hasattr(label_set, "ids"):
            raise ValueError(
                f"label_set must be a LabelSet, got {type(label_set).__name__}; LabelSet.from_names(names) makes one"
            )
        if not hasattr(batch_size, "__index__") or getattr(batch_size, "ndim", False) or batch_size < 1:
            raise ValueError(f"batch_size must be a whole number, at least 1, got {batch_size!r}")
        _check_dtype(dtype)
        model, gile = unwrapped(model), towers_of(model)
        language = check_language(gile.config, language)
        label_language = label_language or language
        was_training = model.training
        if was_training:
            model.eval()
        try:
            with torch.autocast(gile.device.type, enabled=False):
                if label_set is None:
                    label_set, codes = _stored(model, language, label_language, batch_size, dtype)
                else:
                    codes = project_label_set(model, processor, label_set, language, label_language, batch_size, dtype)
                postings_of = getattr(model, "postings_of", lambda labels, _: gile.postings(labels))
                postings = postings_of(label_set, label_language)
            bias, made_by = bias_of(gile, language), fingerprint(gile)
            index = cls(label_set, codes, bias, language, made_by, label_language, postings)
        finally:
            if was_training:
                model.train()
        return index

    def __len__(self) -> int:
        """The number of labels L."""
        return len(self.label_set)

    def __repr__(self) -> str:
        kind = f"{self.codes.shape[1]} numbers of {self.codes.dtype} on {self.codes.device}"
        return f"LabelIndex({len(self)} labels, each {kind})"

    def scores(self, text_codes: Tensor, columns: Tensor | None = None, lexical_ids: Tensor | None = None) -> Tensor:
        """The scores of documents with all labels, or with some.

        Args:
            text_codes: `(B, J)` from `project_texts`, of documents in `self.language`.
            columns: `(C,)` columns wanted; all of them by default.
            lexical_ids: `(B, F)` words of the documents, as the processor makes them, of an index with `postings`.

        Returns:
            `(B, L)` or `(B, C)` logits on the device of the codes, in 32 bits (64, where either codes have as many).

        Raises:
            ValueError: Text codes of another shape, or no words of documents that are scored by words, too.
        """
        if columns is not None and not torch.is_tensor(columns):
            raise ValueError(f"columns must be a tensor of columns, got {type(columns).__name__}")
        codes = self.codes if columns is None else self.codes[columns.to(self.codes.device)]
        bias = self._bias(text_codes, lexical_ids)
        if columns is None or not callable(bias):
            return scores_of(text_codes, codes, bias)
        return scores_of(text_codes, codes, lambda rows: bias(rows)[:, columns.to(codes.device)])

    def top_k(
        self, text_codes: Tensor, k: int, approximate: bool = False, lexical_ids: Tensor | None = None
    ) -> TopLabels:
        """The k best labels of each document, without holding the scores of all (but for k above L / 2).

        Args:
            text_codes: `(B, J)` from `project_texts`, of documents in `self.language`.
            k: Number of labels wanted; of an index with fewer, all.
            approximate: Whether `self.search` may choose the candidates, by their codes; their scores are exact, and so
                is the answer for a document of which it finds fewer than k.
            lexical_ids: As in `scores`.

        Returns:
            Scores and columns, each `(B, min(k, L))`.

        Raises:
            ValueError: k below 1, text codes of another shape, or an approximate search where there is none or
                one of another number of labels.
        """
        if approximate:
            return self._approximate(text_codes, k, lexical_ids)
        return top_k_of(text_codes, self.codes, self._bias(text_codes, lexical_ids), k)

    def _bias(self, text_codes: Tensor, lexical_ids: Tensor | None) -> Any:
        """What is added to the scores of documents, as `Bias` says."""
        postings, ids = self.postings, lexical_ids
        if postings is None:
            return self.bias
        if ids is None or len(ids) != len(text_codes):
            postings.scores(ids, len(text_codes))  # refuses, and says why
        return lambda rows: self.bias + postings.scores(ids[rows])  # type: ignore[index]

    @torch.no_grad()
    def _approximate(self, text_codes: Tensor, k: int, lexical_ids: Tensor | None) -> TopLabels:
        if self.search is None:
            raise ValueError(
                "this index has no approximate search: build one (index.search = hf_gile.ann.ApproximateSearch.build("
                "index, text_codes)), or load it with ApproximateSearch.load(folder, index), or call top_k without "
                "approximate=True"
            )
        if len(self.search) != len(self):
            raise ValueError(
                f"index.search has {len(self.search)} labels and the index {len(self)}: it is the search of another "
                "index; build one of this"
            )
        k = min(check_text_codes(text_codes, self.codes, k), len(self))
        bias = self._bias(text_codes, lexical_ids)
        text_codes = text_codes.to(self.codes.device, wide_type(text_codes, self.codes))
        columns = self.search.candidates(text_codes, k).to(self.codes.device)
        columns = columns.sort(-1).values  # of equal scores, that of the lower column goes first
        found, size = [], _CANDIDATES // columns.shape[1]
        if callable(bias):  # it makes the numbers of all labels
            size = min(size, SCORES_AT_ONCE // len(self))
        for rows in torch.arange(len(columns), device=columns.device).split(max(1, size)):
            # index_select and this order of the product: three times as fast on a CPU as what would be shorter.
            codes = self.codes.index_select(0, columns[rows].clamp(min=0).flatten()).to(text_codes)
            codes = codes.view(len(rows), columns.shape[1], codes.shape[1])  # (rows, candidates, J)
            with torch.autocast(codes.device.type, enabled=False):
                scores = torch.bmm(text_codes[rows, None], codes.mT).squeeze(1) + (0.0 if callable(bias) else bias)
            if callable(bias):
                scores += bias(slice(int(rows[0]), int(rows[-1]) + 1)).to(scores).gather(1, columns[rows].clamp(min=0))
            found.append(best_of(scores.masked_fill(columns[rows] < 0, -torch.inf), columns[rows], k))
        best = TopLabels(*map(torch.cat, zip(*found, strict=True)))
        rows = (best.columns < 0).any(-1).nonzero().squeeze(1)
        if len(rows):  # too few candidates
            own = None if lexical_ids is None else lexical_ids[rows.to(lexical_ids.device)]
            exact = top_k_of(text_codes[rows], self.codes, self._bias(text_codes[rows], own), k)
            best.scores[rows], best.columns[rows] = exact
        return best

    @torch.inference_mode(False)
    def add(self, labels: Label | Iterable[Label], model: Scorer, processor: GileProcessor) -> None:
        """Adds labels behind the present ones, whose codes and columns stay. All codes are copied: add many at once.

        Args:
            labels: `Label`s, a `LabelSet`, or one `Label`.
            model: The model that made this index.
            processor: The `GileProcessor` saved with it.

        Raises:
            ValueError: Labels that do not go with the present ones (see `LabelSet`), a `GileModel` that has
                learned more of labels than their words say, or another model.
        """
        self.check_fits(model)
        labels = [labels] if isinstance(labels, Label) else labels
        if not isinstance(labels, Iterable):
            raise ValueError(f"labels must be Labels, got {type(labels).__name__}")
        labels = list(labels)
        label_set = self.label_set.add(*labels)
        new = self._encode(labels, model, processor)
        self.codes = torch.cat([self.codes, new.codes.to(self.codes.device)])
        self.postings = self.postings and _joined(self.postings, new.postings)
        self.label_set = label_set
        if self.search is not None:
            self.search.add(new.codes)

    @torch.inference_mode(False)
    def remove(self, *label_ids: str) -> None:
        """Removes labels; those behind them move up. All codes are copied: remove many at once.

        Raises:
            ValueError: An id that no label has, or no label left.
        """
        if not all(isinstance(label_id, str) for label_id in label_ids):
            raise ValueError("remove takes ids, not a list of them: index.remove(*ids)")
        columns = torch.tensor(self.label_set.columns(label_ids), dtype=torch.long)
        kept = torch.ones(len(self), dtype=torch.bool)
        kept[columns] = False
        self.label_set = self.label_set.retire(*label_ids)
        self.codes = self.codes[kept.to(self.codes.device)]
        self.postings = self.postings and _selected(self.postings, kept.nonzero()[:, 0])
        if self.search is not None:
            self.search.remove(columns)

    def rename(self, label_id: str, name: str, model: Scorer, processor: GileProcessor) -> None:
        """Gives a label another name, and the code of that (not with a linear unit); its id and column stay.

        Raises:
            ValueError: An id that no label has, a name that does not go with the other labels, a `GileModel`
                that has learned more of labels than their words say, or another model.
        """
        self.check_fits(model)
        column = self.label_set.column(label_id)
        label_set = self.label_set.rename(label_id, name)
        if towers_of(model).config.output_layer == "linear":
            self.label_set = label_set
            return
        new = self._encode([label_set[column]], model, processor)
        # In place: of codes mapped from a file, this copies the page it is on and leaves the file.
        self.codes[column] = new.codes[0].to(self.codes.device)
        if self.postings is not None:
            places = torch.arange(len(self))
            places[column] = len(self)  # where it is joined
            self.postings = _selected(_joined(self.postings, new.postings), places)
        self.label_set = label_set
        if self.search is not None:
            self.search.replace(torch.tensor([column]), new.codes)

    def _encode(self, labels: Sequence[Any], model: Scorer, processor: GileProcessor) -> "LabelIndex":
        if towers_of(model).label_rows is not None and getattr(unwrapped(model), "label_set", None) is None:
            raise ValueError(
                f"the model may have learned more of label {labels[0].id!r} than its words say, which a GileModel "
                "cannot look up: pass the GileForSequenceClassification with its label set"
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
        """Makes sure that a model made this index, with the weights it has now.

        Args:
            model: The model.
            languages: Those of texts and labels that are to be scored; by default those of the index.

        Raises:
            ValueError: It is another model, or another version of it, or the index is for other languages.
        """
        found = fingerprint(model)
        if found != self.model_fingerprint:
            raise ValueError(
                f"this label index was made by another model, or by this one with other weights or in another dtype "
                f"(fingerprint {self.model_fingerprint[:12]}, this model has {found[:12]}): its scores would be "
                "meaningless; build it again with LabelIndex.build(model, processor, label_set)"
            )
        if languages is not None and languages != (self.language, self.label_language):
            raise ValueError(
                f"this label index was built with language={self.language!r}, label_language={self.label_language!r}, "
                f"but texts are to be scored with language={languages[0]!r}, label_language={languages[1]!r}: build an "
                "index for these"
            )

    @torch.inference_mode(False)
    def to(self, device: torch.device | str | int | None = None, dtype: torch.dtype | None = None) -> "LabelIndex":
        """Moves the codes, in place, to a device or another type; returns the index itself.

        Raises:
            ValueError: A type of whole numbers, or one in which codes are not finite.
        """
        _check_dtype(dtype)
        codes = self.codes.to(device=device, dtype=dtype)
        self.codes = codes if codes.dtype == self.codes.dtype else finite_codes(codes)
        self.postings = self.postings and Postings(*(one.to(codes.device) for one in self.postings))
        return self

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Saves the index: `label_index.json`, and beside it the labels and their codes, whose names it holds.

        `label_index.json` is replaced when the others are written, so that what was saved in this folder before can
        be read until the new index can. An approximate search is saved apart, by `ApproximateSearch.save`.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"label_index-{secrets.token_hex(4)}"
        with whole_file(folder / f"{stem}.safetensors") as written:
            words = {} if self.postings is None else self.postings._asdict()
            save_file({"codes": self.codes.contiguous(), **words}, written, metadata={"format": "pt"})
        self.label_set.save(folder / f"{stem}.jsonl")
        head = {
            "format_version": FORMAT_VERSION,
            "codes": f"{stem}.safetensors",
            "labels": f"{stem}.jsonl",
        } | {name: getattr(self, name) for name in _HEAD}
        files = {name: _checksum(folder / f"{stem}.{name}") for name in ("safetensors", "jsonl")}
        head["checksums"] = files | {"head": checksum_of_head(head)}
        with whole_file(folder / INDEX_FILE) as written:
            written.write_text(json.dumps(head, indent=2) + "\n", encoding="utf-8")
        for file in folder.iterdir():  # of an index saved here before, or not to its end
            if _FILES.fullmatch(file.name) and file.stem != stem:
                file.unlink(missing_ok=True)

    @classmethod
    @torch.inference_mode(False)
    def from_pretrained(
        cls, folder: str | PathLike[str], model: Scorer | None = None, mmap: bool = True, verify: bool = True
    ) -> "LabelIndex":
        """Loads an index from a folder.

        Args:
            folder: What `save_pretrained` was given.
            model: The model to use it with, if it should be checked at once.
            mmap: Whether the codes stay in their file and are read when needed; else they are read into memory.
            verify: Whether to read all files and compare them with the checksums they were saved with: about a second
                for each GB. An exact search reads all codes anyway; without the check, what a process never asks for,
                is never read, and damage shows in wrong scores only.

        Raises:
            FileNotFoundError: There is no index.
            ValueError: The index is damaged, saved by newer code, or made by another model.
        """
        file = Path(folder) / INDEX_FILE
        try:
            head = json.loads(file.read_text(encoding="utf-8"))
            version = head["format_version"]
            if version == FORMAT_VERSION:
                codes_file, labels_file = (_file_of(Path(folder), head[name]) for name in ("codes", "labels"))
                checksums = head.pop("checksums")
                if checksums["head"] != checksum_of_head(head):
                    raise ValueError("its checksum is another")
                rest = {name: head[name] for name in _HEAD}
                for name, value in rest.items():
                    if type(value) not in _HEAD[name] or (name == "bias" and not math.isfinite(value)):
                        raise ValueError(f"{name} is {value!r:.100}")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{file} is not the head of a label index ({type(error).__name__}: {error!s:.500}): build and save it "
                "again"
            ) from None
        if version != FORMAT_VERSION:
            raise ValueError(
                f"{file} has format_version {version}, this code reads {FORMAT_VERSION}: "
                "upgrade hf-gile (pip install -U hf-gile), or build the index again"
            )
        try:
            for path, name in ((codes_file, "safetensors"), (labels_file, "jsonl")) if verify else ():
                if _checksum(path) != checksums[name]:
                    raise ValueError(f"{path} is not as it was saved")
            with safe_open(codes_file, framework="pt") as opened:
                codes = opened.get_tensor("codes")
                has_words = "weights" in opened.keys()  # noqa: SIM118, not a mapping
                words = [opened.get_tensor(name) for name in Postings._fields] if has_words else None
            label_set = LabelSet.load(labels_file)
            postings = None if words is None else _checked(Postings(*words), len(label_set))
            index = cls(label_set, codes if mmap else codes.clone(), **rest, postings=postings)
            if verify:
                finite_codes(index.codes)
        except (SafetensorError, FileNotFoundError, KeyError, ValueError) as error:
            raise ValueError(f"{folder}: the index is damaged ({error!s:.500}): build and save it again") from None
        if model is not None:
            index.check_fits(model)
        return index


def fingerprint(model: Scorer) -> str:
    """What tells a model's codes from those of any other: a hash of the weights and of what else makes codes.

    It survives saving, loading and moving to another device, but not another type of the weights. Hashed again only
    when the weights have changed.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`.
    """
    gile = towers_of(model)
    weights = gile.state_dict()
    settings = json.dumps(_settings(gile.config), sort_keys=True, default=str)
    state = (settings, *state_of(*weights.values()))
    kept = _FINGERPRINTS.get(gile)
    if kept is None or kept[0] != state:
        digest = hashlib.blake2b(settings.encode(), digest_size=32)
        for name, weight in sorted(weights.items()):
            digest.update(f"{name} {weight.dtype} {tuple(weight.shape)} ".encode())
            flat = weight.detach().flatten()
            for start in range(0, len(flat), 1 << 22):
                digest.update(flat[start : start + (1 << 22)].cpu().contiguous().view(torch.uint8).numpy())
        kept = _FINGERPRINTS[gile] = (state, digest.hexdigest())
    return kept[1]


def _settings(config: PreTrainedConfig) -> dict[str, Any]:
    """What makes codes of a configuration, and of those in it."""
    settings = {"model_type": config.model_type}
    for name, value in vars(config).items():
        if name.startswith("_") or name in _NO_DIFFERENCE or "dropout" in name:
            continue
        is_number = isinstance(value, int) and not isinstance(value, bool)  # 1 is as good as 1.0
        settings[name] = _settings(value) if hasattr(value, "to_dict") else float(value) if is_number else value
    return settings


def _selected(postings: Postings, columns: Tensor) -> Postings:
    """The postings of some labels, in the order of `(C,)` columns, each once."""
    columns = columns.to(postings.labels.device)
    places = postings.labels.new_full((postings.weights.shape[1],), -1)
    places[columns] = torch.arange(len(columns), device=columns.device)
    kept = places[postings.labels] >= 0
    entries = kept[postings.texts.long()]
    return Postings.of_entries(
        _features_of_entries(postings)[entries],
        (kept.cumsum(0) - 1)[postings.texts[entries].long()],
        postings.values[entries],
        places[postings.labels[kept]],
        postings.words[kept],
        postings.weights[:, columns],
    )


def _joined(postings: Postings, new: Postings | None) -> Postings:
    """The postings of labels and, behind them, of others."""
    assert new is not None  # both are of one model
    new = Postings(*(one.to(postings.labels.device) for one in new))
    return Postings.of_entries(
        torch.cat([_features_of_entries(postings), _features_of_entries(new)]),
        torch.cat([postings.texts, new.texts + len(postings.labels)]),
        torch.cat([postings.values, new.values]),
        torch.cat([postings.labels, new.labels + postings.weights.shape[1]]),
        torch.cat([postings.words, new.words]),
        torch.cat([postings.weights, new.weights], 1),
    )


def _features_of_entries(postings: Postings) -> Tensor:
    return postings.features.repeat_interleave(postings.starts.diff())


def _checked(postings: Postings, labels: int) -> Postings:
    """Refuses postings whose numbers lead out of them, which a search would follow."""
    entries, texts, starts = len(postings.texts), len(postings.labels), postings.starts
    limits = [(postings.features, LEXICAL_BUCKETS), (postings.texts, texts), (postings.labels, labels)]
    is_right = [
        len(postings.values) == entries,
        len(starts) == len(postings.features) + 1,
        [int(one) for one in starts[[0, -1]]] == [0, entries] and bool((starts.diff() > 0).all()),
        len(postings.words) == texts,
        postings.weights.shape == (3, labels),
        *(not len(one) or (int(one.min()) >= 0 and int(one.max()) < limit) for one, limit in limits),
    ]
    if not all(is_right):
        raise ValueError("the words of labels are not as they were saved")
    return postings


def leads_out(file: Path, folder: Path) -> bool:
    """Tells whether a file of a saved model is a link to a file elsewhere, other than those of the Hub's cache.

    Args:
        file: The file.
        folder: The folder of the model.
    """
    folder, file = folder.resolve(), file.resolve()
    blobs = [above.parent / "blobs" for above in folder.parents if above.name == "snapshots"]
    return not any(file.is_relative_to(home) for home in (folder, *blobs))


def _file_of(folder: Path, name: Any) -> Path:
    if not _FILES.fullmatch(str(name)) or leads_out(folder / name, folder):
        raise ValueError(f"{folder / INDEX_FILE} names {str(name)!r:.200}, which is no file of an index in {folder}")
    return folder / name


def _stored(
    model: Scorer, language: str | None, label_language: str | None, batch_size: int, dtype: torch.dtype | None
) -> tuple[LabelSet, Tensor]:
    label_set = getattr(model, "label_set", None)
    if label_set is None:
        raise ValueError(
            "pass label_set=: no label set is stored with this model (a GileForSequenceClassification stores one, "
            "see its set_labels)"
        )
    own = own_columns(model.config, check_language(model.config, label_language))
    columns = torch.arange(own.start, own.stop, device=model.device)
    batches = (model.project_stored_labels(batch, language) for batch in columns.split(batch_size))
    codes = join_codes(batches, len(columns), dtype)
    return label_set if len(columns) == len(label_set) else label_set[own], codes


def _check_dtype(dtype: torch.dtype | None) -> None:
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ValueError(f"codes are floating point numbers, such as torch.float16, got {dtype}")


def _checksum(file: Path) -> str:
    """What tells a damaged file from the one that was saved; not one that somebody has forged."""
    checksum = 0
    with file.open("rb") as opened:
        while part := opened.read(1 << 20):
            checksum = zlib.crc32(part, checksum)
    return f"{checksum:08x}"


def checksum_of_head(head: dict[str, Any]) -> str:
    """Computes what tells a damaged `label_index.json` from the one that was saved.

    Args:
        head: What it holds, without `checksums`.
    """
    return f"{zlib.crc32(json.dumps(head, sort_keys=True).encode()):08x}"


__all__ = ["INDEX_FILE", "LabelIndex", "checksum_of_head", "leads_out"]
