"""The label-scoring pipeline: `pipeline("zero-shot-classification", model=..., trust_remote_code=True)`."""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real
from os import PathLike
from typing import Any

import torch
from transformers import Pipeline, ZeroShotClassificationPipeline
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.utils import logging

from .best_labels_gile import BestLabels, Choice, best_labels
from .label_cache_gile import LABEL_CACHE_BYTES, LabelCache
from .label_index_gile import LabelIndex, bias_of, project_label_set
from .languages_gile import check_language, own_columns
from .losses_gile import widened
from .pipeline_inputs_gile import checked_texts
from .reading_gile import LONG_TEXTS, read_texts

_OPTIONS = (
    "candidate_labels",
    "multi_label",
    "top_k",
    "threshold",
    "force_label",
    "long_texts",
    "return_evidence",
    "language",
    "label_language",
)


@dataclass(frozen=True)
class _Request:
    """One document, and the labels it is scored with; none: the stored ones."""

    text: Any
    labels: Any


class LabelScoringPipeline(Pipeline):
    """Scores texts against labels given by their words, called and answering as the built-in zero-shot pipeline does.

    Each set of candidate labels is encoded once and remembered; a text then costs one pass of the text encoder and an
    inner product for each label, whatever their number: thousands of names in one call are nothing special. Scores are
    probabilities, calibrated if the model is (`hf_gile.training.calibrate`).

    **Labels.** Names, names with descriptions, or by default those stored with the model; for all texts, or for each
    its own. A `LabelSet` spares comparing thousands of names with those of the last call, a `LabelIndex` (which can be
    saved, and of 16 bits) encoding them at all.

        pipe = pipeline("zero-shot-classification", model="path-or-hub-id", trust_remote_code=True)
        pipe("Breast milk lowers the risk of infection.", candidate_labels=["Milk, Human", "Heart Failure"])
        pipe(texts, candidate_labels={"Milk, Human": "breast milk; colostrum"}, top_k=5)
        pipe(texts, top_k=5)  # the label set stored with the model
        pipe(["Iron in blood.", "Rats were fed."], candidate_labels=[["Iron", "Milk"], ["Rats", "Mice"]])

    **Which of them.** All labels, best first; `top_k` of them; those with a probability of `threshold`; or with both,
    of those that reach it, the `top_k` best. `threshold="stored"` asks of each label the threshold it was given by
    `calibrate` (its own, else that of the seen or unseen labels, else 0.5); where one label is right, it gives the best
    one. With `force_label` a text that would get none gets its best label.

        pipe(texts, threshold="stored", force_label=True)  # labels to assign, one at least
        pipe(texts, threshold=0.2, top_k=10)

    **Long texts.** By default a text is cut to what the model reads. `long_texts="max"` reads all of it in pieces, and
    a label has the score of the piece that fits it best; `"mean"` takes the mean of their logits. Each piece costs a
    pass of the text encoder. Texts that fit have the same answer in all three.

    **Evidence.** `return_evidence=True` shows which words the model attended to. A document is read before it meets any
    label, so the evidence is of the document, and the same for all labels.

        pipe("Infants got breast milk. They grew.", return_evidence=True)["evidence"]
        # {"sentences": [{"weight": 0.7, "words": [["Infants", 0.2], ...]}, ...]}

    **Many texts.** Lists are answered by lists; generators, iterators, `KeyDataset` and columns of an `IterableDataset`
    by streams, which hold a batch at a time. `batch_size` texts are read at once.

        for answer in pipe((json.loads(line)["text"] for line in file), batch_size=32, top_k=5): ...
        pipe(dataset["abstract"], batch_size=32)

    An answer depends on its own text and labels only, up to the rounding of sums: not on the batch, nor on the order
    of texts or labels, nor on what other labels there are (with `multi_label=False`, a softmax, on these too). Threads
    may share a pipeline. The model is put in evaluation mode.

    Args:
        args: As for any pipeline: the model first.
        kwargs: `model`, `processor` and whatever else any pipeline takes; `label_cache_bytes`, the memory of the label
            codes to remember (256 MiB by default; those least recently used go first, and a set of more is encoded
            at every call); and any option of a call, as its default.

    Raises:
        ValueError: The model does not store labels, there is no processor, it is that of another model, or an option
            makes no sense.
    """

    _load_processor = True
    _load_tokenizer = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(self, *args: Any, label_cache_bytes: int = LABEL_CACHE_BYTES, **kwargs: Any) -> None:
        self._cache = LabelCache()
        self.label_cache_bytes = label_cache_bytes
        model = args[0] if args else kwargs.get("model")
        if not hasattr(model, "gile"):
            raise ValueError(
                f"the label-scoring pipeline needs a GileForSequenceClassification, got {type(model).__name__}; "
                "AutoModelForSequenceClassification.from_pretrained(folder) loads one of what either has saved"
            )
        super().__init__(*args, **kwargs)
        if not hasattr(self.processor, "unknown_labels"):
            raise ValueError(
                "the label-scoring pipeline needs the processor saved with the model; save it beside the model with "
                "processor.save_pretrained(folder), or pass processor=GileProcessor(...)"
            )
        self.processor.check_fits(self.model.config)

    @property
    def label_cache_bytes(self) -> int:
        """Bytes of label codes that are remembered; may be set at any time."""
        return self._cache.max_bytes

    @label_cache_bytes.setter
    def label_cache_bytes(self, value: int) -> None:
        if not hasattr(value, "__index__") or value < 0:
            raise ValueError(f"label_cache_bytes must be a whole number of bytes, at least 0, got {value!r}")
        self._cache.max_bytes = int(value)

    def __call__(
        self,
        inputs: Any,
        candidate_labels: Any = None,
        multi_label: bool | None = None,
        top_k: int | None = None,
        threshold: float | str | None = None,
        force_label: bool | None = None,
        long_texts: str | None = None,
        return_evidence: bool | None = None,
        language: str | None = None,
        label_language: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Scores texts; the class shows how. What is not given is as it was given to `pipeline(...)`.

        Args:
            inputs: A text, a list of texts, or a generator or dataset of texts (answered as a stream). An empty text
                is scored as a document without words. For models that read sentences a text may be a list of these.
            candidate_labels: A list of label names or `Label`s, names with descriptions `{name: description}`, a
                `LabelSet`, a `LabelIndex` made by this model for texts in this language, or one text of names separated
                by commas; or a list of such, one for each text. By default the label set stored with the model.
            multi_label: Whether each label is scored on its own, by a sigmoid; else one label is right, and a softmax
                runs over the candidates. By default as the model was trained.
            top_k: The most labels of an answer, the best; by default any number.
            threshold: Only labels with at least this probability; `"stored"`: that of each label, or with
                `multi_label=False` the best label alone. By default all.
            force_label: Whether a text of which no label reaches the threshold gets the best one; by default not.
            long_texts: What to do with texts that are longer than the model reads: `"cut"` (by default), `"max"` or
                `"mean"`.
            return_evidence: Whether to add where the model looked; by default not.
            language: The language of the texts, in a model of several.
            label_language: The language of the labels, if it is another.
            kwargs: `batch_size`, texts read at once (1 by default), and `num_workers`; `hypothesis_template`, which
                the built-in pipeline takes, is ignored.

        Returns:
            For each text `{"sequence": text, "labels": [names, best first], "scores": [probabilities]}`, and with
            evidence `"evidence": {"sentences": [{"weight": weight, "words": [[word, weight], ...]}, ...]}`, words as
            they are written in the text: those that the model read, of pieces all. Of a text without a word that the
            model knows, `"note"` says so: its scores say how frequent labels are, and nothing of the text.

        Raises:
            ValueError: No texts, something that is not a text (its place is named), no labels, duplicate or empty
                labels, another number of label lists than of texts, a `LabelIndex` of another model or language, a
                model that cannot score other labels than its own, evidence of a model without attention, a model whose
                scores are not numbers, or an option that does not exist or makes no sense.
        """
        own = (multi_label, top_k, threshold, force_label, long_texts, return_evidence, language, label_language)
        kwargs |= {name: value for name, value in zip(_OPTIONS[1:], own, strict=True) if value is not None}
        texts = checked_texts(inputs, self.processor)
        if not _one_set_for_each_text(candidate_labels):
            return super().__call__(texts, candidate_labels=candidate_labels, **kwargs)
        is_one = isinstance(texts, str)
        texts = [texts] if is_one else texts
        if not isinstance(texts, list):
            raise ValueError(f"label lists for each text go with a list of texts, got {type(inputs).__name__}")
        if len(texts) != len(candidate_labels):
            raise ValueError(
                f"candidate_labels holds {len(candidate_labels)} label lists, one for each text, but there are "
                f"{len(texts)} texts"
            )
        pairs = zip(texts, map(self._cache.label_set, candidate_labels), strict=True)
        answers = super().__call__([_Request(*pair) for pair in pairs], **kwargs)
        return answers[0] if is_one else answers

    def save_pretrained(self, save_directory: str | PathLike[str], **kwargs: Any) -> None:
        """Saves the model and its processor: all that `pipeline(model=folder, trust_remote_code=True)` needs.

        Args:
            save_directory: The folder.
            kwargs: What `save_pretrained` of the model takes.
        """
        # What it does by default leaves out the processor, with the limits of what the model reads, and declares the
        # pipeline in the configuration for those alone who have hf_gile.
        self.model.save_pretrained(save_directory, **kwargs)
        self.processor.save_pretrained(save_directory, **kwargs)

    def _sanitize_parameters(
        self, candidate_labels: Any = None, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if options.pop("hypothesis_template", None) is not None:
            logging.get_logger(__name__).warning_once(
                "hypothesis_template is ignored: a GILE model reads what labels say, and no sentence around it"
            )
        for name in options:
            if name not in _OPTIONS:
                raise ValueError(
                    f"the label-scoring pipeline has no option {name!r}; it has {', '.join(_OPTIONS)} and batch_size"
                )
        given = {name: value for name, value in options.items() if value is not None}
        for name in ("language", "label_language"):
            if not isinstance(given.get(name, ""), str):
                raise ValueError(
                    f"{name} must be the name of one language, got {given[name]!r:.100}; call once for each language"
                )
        for name in ("multi_label", "force_label", "return_evidence"):
            if not isinstance(given.get(name, True), bool):
                raise ValueError(f"{name} must be True or False, got {given[name]!r:.100}")
        top_k, threshold = given.get("top_k", 1), given.get("threshold", 0.0)
        if not hasattr(top_k, "__index__") or isinstance(top_k, bool) or top_k < 1:
            raise ValueError(f"top_k must be a whole number, at least 1, got {top_k!r:.100}")
        is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
        if not (is_number and 0 <= threshold <= 1) and not (isinstance(threshold, str) and threshold == "stored"):
            raise ValueError(
                f"threshold is a probability between 0 and 1, got {threshold!r:.100}; or 'stored', for those of the "
                "labels"
            )
        if given.get("long_texts", "cut") not in LONG_TEXTS:
            raise ValueError(f"long_texts must be one of {', '.join(LONG_TEXTS)}, got {given['long_texts']!r:.100}")
        if candidate_labels is not None:
            given["labels"] = self._cache.label_set(candidate_labels)
        return {}, given, {}

    def preprocess(self, inputs: Any) -> dict[str, Any]:
        """Wraps a text: words are made of whole batches, in `_forward`."""
        return {"request": inputs if hasattr(inputs, "labels") else _Request(inputs, None)}

    def _forward(
        self,
        model_inputs: dict[str, Any],
        labels: Any = None,
        language: str | None = None,
        label_language: str | None = None,
        multi_label: bool | None = None,
        top_k: int | None = None,
        threshold: float | str | None = None,
        force_label: bool = False,
        long_texts: str = "cut",
        return_evidence: bool = False,
    ) -> dict[str, Any]:
        if self.model.training:  # asked of each batch, for a stream may be read between steps of training
            self.model.eval()
        batched = isinstance(model_inputs["request"], list)
        requests: list[_Request] = model_inputs["request"] if batched else [model_inputs["request"]]
        if labels is not None:
            requests = [one if one.labels is not None else replace(one, labels=labels) for one in requests]
        texts, config = [request.text for request in requests], self.model.config
        if multi_label is None:
            multi_label = config.problem_type != "single_label_classification"
        if threshold == "stored" and not multi_label:
            threshold, top_k = None, 1
        options = Choice(
            is_multi_label=multi_label,
            top_k=None if top_k is None else int(top_k),
            force_label=force_label,
            calibration=config.calibration,
        )
        read = read_texts(self.model.gile, self.processor, texts, language, long_texts != "cut", return_evidence)
        state = cache(self.model.gile.label_state)
        by_labels: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            by_labels.setdefault(id(request.labels), []).append(place)
        found: list[Any] = [None] * len(requests)
        for places in by_labels.values():
            own_labels = requests[places[0]].labels
            index, first = self._index(own_labels, language, label_language, state)
            of = (own_labels, slice(first, first + len(index)), label_language or language)
            seen = self._of_labels("seen_among", *of) if config.calibration else None
            least: Any = self._of_labels("thresholds_of", *of) if threshold == "stored" else threshold
            choice = replace(options, seen=seen, threshold=least)
            long = [place for place in places if place in read.pieces]
            if len(long) < len(places):  # all of them, so that the others are scored as they are with long_texts="cut"
                _put(found, places, best_labels(index, read.codes[places], choice), first)
            if long:
                pieces = [widened(read.pieces[place]) for place in long]
                # The mean of logits is the logit of the mean.
                codes = torch.stack([one.mean(0) for one in pieces]) if long_texts == "mean" else pieces
                _put(found, long, best_labels(index, codes, choice), first)
        answer: dict[str, Any] = {"request": requests, "found": found, "known": read.known}
        answer["evidence"] = [None] * len(requests) if read.evidence is None else read.evidence
        return answer if batched else {name: values[0] for name, values in answer.items()}

    def postprocess(self, model_outputs: dict[str, Any]) -> dict[str, Any]:
        """Turns the labels found for one document into names and numbers."""
        request = model_outputs["request"]
        scores, columns = model_outputs["found"]
        if bool(scores.isnan().any()):
            raise ValueError(
                f"the model gives {request.text!r:.100} scores that are not numbers: its weights hold NaN or infinity, "
                "as after a training that diverged; take an earlier checkpoint"
            )
        names = self.model.config.id2label
        if request.labels is not None:
            label_set = getattr(request.labels, "label_set", request.labels)
            names = self._cache.fact(label_set, "names", None, label_set.id2label)
        answer = {
            "sequence": request.text,
            "labels": [names[column] for column in columns.tolist()],
            "scores": scores.tolist(),
        }
        if model_outputs["evidence"] is not None:
            answer["evidence"] = model_outputs["evidence"]
        if not model_outputs["known"]:
            answer["note"] = "the model knows no word of this text"
        return answer

    def _index(
        self,
        labels: Any,
        language: str | None,
        label_language: str | None,
        state: Callable[[], Any] | None = None,
    ) -> tuple[LabelIndex, int]:
        """What scores these labels, and the column of its first label."""
        gile, config = self.model.gile, self.model.config
        language = check_language(config, language)
        if hasattr(labels, "check_fits"):
            labels.check_fits(self.model)
            label_language = label_language or language
            if (labels.language, labels.label_language) != (language, label_language):
                raise ValueError(
                    f"this label index was built with language={labels.language!r}, "
                    f"label_language={labels.label_language!r}, but texts are to be scored with language={language!r}, "
                    f"label_language={label_language!r}: build an index for these"
                )
            return labels, 0
        bias = bias_of(gile, language)
        if labels is None:
            own = own_columns(config, check_language(config, label_language or language))
            codes = self.model.stored_codes(language=language)[own]
            places: Any = range(len(codes))  # in the place of labels: their names come from the configuration
            return LabelIndex(places, codes, bias, language, ""), own.start
        check_language(config, label_language or language)
        if config.output_layer == "linear":
            gile.project_labels()  # refuses, and says why

        def make() -> tuple[torch.Tensor, torch.Tensor]:
            words: list[torch.Tensor] = []
            codes = project_label_set(self.model, self.processor, labels, language, label_language, seen_words=words)
            return codes, torch.cat(words).unique()

        codes = self._cache.codes(
            labels,
            # What is learned of single labels goes by their ids.
            bool(gile.label_tables) and self.model.label_set is not None,
            (language, label_language, (state or gile.label_state)()),
            make,
            gile.label_state,
        )
        return LabelIndex(labels, codes, bias, language, ""), 0

    def _of_labels(self, name: str, labels: Any, own: slice, language: str | None) -> Any:
        """What the model stores of labels, `seen_among` or `thresholds_of`, made once for each label set."""
        model = self.model
        stored, label_set = model.label_set, getattr(labels, "label_set", labels)

        def make() -> Any:
            numbers = getattr(model, name)(label_set, check_language(model.config, language))[own]
            is_one = name == "thresholds_of" and bool((numbers == numbers[0]).all())
            return numbers[0].item() if is_one else numbers

        of = stored if label_set is None else label_set
        if of is None:  # a linear unit of which nothing is known
            return make()
        # Not the label set itself, which what is kept of it would keep alive.
        state = (stored and weakref.ref(stored), own, language, sorted(model.config.thresholds.items()))
        return self._cache.fact(of, name if label_set is None else f"given {name}", state, make)


class _ZeroShot(ZeroShotClassificationPipeline):
    """The built-in pipeline, but `LabelScoringPipeline` for a GILE model that was loaded before.

    By its path, transformers gets our pipeline from the configuration; of the model itself it does not ask, and the
    built-in pipeline would read two of the stored labels as "entailment" and "contradiction".
    """

    _load_tokenizer = None  # where the model is not ours, it is asked for below

    def __new__(cls, *args: Any, tokenizer: Any = None, **kwargs: Any) -> Any:
        if hasattr(kwargs.get("model"), "gile"):
            return LabelScoringPipeline(*args, **kwargs)
        if tokenizer is None:
            raise ValueError("the zero-shot pipeline needs the tokenizer of the model: pass tokenizer=")
        return ZeroShotClassificationPipeline(*args, tokenizer=tokenizer, **kwargs)


PIPELINE_REGISTRY.supported_tasks["zero-shot-classification"]["impl"] = _ZeroShot


def _put(found: list[Any], places: list[int], answers: list[BestLabels], first: int) -> None:
    """Puts answers in their places, in columns that count from `first`."""
    for place, one in zip(places, answers, strict=True):
        found[place] = (one.scores, one.columns + first)


def _one_set_for_each_text(labels: Any) -> bool:
    return isinstance(labels, list | tuple) and any(
        isinstance(one, list | tuple | Mapping) or hasattr(one, "texts") or hasattr(one, "check_fits") for one in labels
    )


__all__ = ["LabelScoringPipeline"]
