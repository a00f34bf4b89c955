"""The pipelines of a saved model: label scoring, and classification into its stored labels.

    pipeline("zero-shot-classification", model=folder, trust_remote_code=True)  # LabelScoringPipeline
    pipeline("text-classification", model=folder, trust_remote_code=True)  # StoredLabelsPipeline
    pipeline("label-scoring", model=model, processor=processor)  # LabelScoringPipeline, for a loaded model

Shapes: B texts, P pieces of a text, L labels, J joint size.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from numbers import Real
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset
from transformers import AutoModelForSequenceClassification, Pipeline
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.pipelines.pt_utils import PipelineDataset
from transformers.utils import logging

from .checks_gile import check_whole_number
from .languages_gile import check_language, get_language_columns
from .lexical_gile import LexicalFeatures, Postings, pad_features
from .losses_gile import widened
from .processing_gile import check_processor
from .search_gile import Bias, Choice, TopLabels, best_labels, compute_scores, get_bias, project_label_set
from .stored_labels_gile import LABEL_CACHE_BYTES, LabelCache, compute_state

LONG_TEXTS = ("cut", "max", "mean")
"""Ways to handle texts that are longer than a model reads."""

_PIECES_AT_ONCE = 32
"""Number of pieces of long texts encoded together, but never fewer than the number of texts."""

_WATCHED = 50
_UNUSUAL = 0.3
"""Number of texts after which they are compared with the training documents, and the share below `config.usual_score`
from which they are unlike these: a tenth is usual."""


@dataclass(frozen=True)
class Options:
    """Options of the label-scoring pipeline.

    Args:
        multi_label: Whether labels are scored independently by a sigmoid, or as exclusive classes by a softmax over the
            candidates. By default as the model was trained.
        top_k: Maximum number of labels of an answer, best first; by default unlimited.
        threshold: Minimum probability of labels. `"stored"` uses the threshold of each label, or else of seen or unseen
            labels, or else 0.5; with `multi_label=False`, it returns the best label only.
        force_label: Whether to return the best label if no label reaches the threshold. By default only with
            `threshold="stored"`, if the model stores this rule (`config.force_label`) and
            the candidates include all labels that it was trained on.
        long_texts: How to handle long texts: `"cut"` truncates them; otherwise they are encoded in pieces, and the
            score of a label is that of the best piece, `"max"`, or the mean of the logits, `"mean"`.
        return_parents: Whether to add the names of the parents of each label, by `Label.broader`.
        shortlist: As `top_k`; also adds these labels with descriptions, as text for the prompt of a language model.
        language: Language of the texts, for a multilingual model.
        label_language: Language of the labels, if it differs.
        returns_logits: Whether scores are logits, without calibration; set by `StoredLabelsPipeline`.

    Raises:
        ValueError: If a value is invalid.
    """

    multi_label: bool | None = None
    top_k: int | None = None
    threshold: float | str | None = None
    force_label: bool | None = None
    long_texts: str = "cut"
    return_parents: bool = False
    shortlist: int | None = None
    language: str | None = None
    label_language: str | None = None
    returns_logits: bool = False

    def __post_init__(self) -> None:
        kinds: dict[str, type] = {
            "multi_label": bool,
            "force_label": bool,
            "return_parents": bool,
            "language": str,
            "label_language": str,
        }
        for name, kind in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, kind | None):
                raise ValueError(f"{name} must be a {kind.__name__}, got {value!r:.100}")
        for name in ("top_k", "shortlist"):
            if getattr(self, name) is not None:
                check_whole_number(name, getattr(self, name))
        threshold: Any = self.threshold
        is_name = threshold is None or (isinstance(threshold, str) and threshold == "stored")
        is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
        if not is_name and not (is_number and 0 <= float(threshold) <= 1):
            raise ValueError(f"threshold must be a probability between 0 and 1, got {threshold!r:.100}; or 'stored'")
        if self.long_texts not in LONG_TEXTS:
            raise ValueError(f"long_texts must be one of {', '.join(LONG_TEXTS)}, got {self.long_texts!r:.100}")


class LabelScoringPipeline(Pipeline):
    """Scores texts against labels by their text, with the interface of the built-in zero-shot pipeline.

    Each set of candidate labels is encoded once and cached. A text then takes a single pass of the text encoder, and an
    inner product per label. Scores are probabilities, calibrated if the model is.

        pipe = pipeline("zero-shot-classification", model="path-or-hub-id", trust_remote_code=True)
        pipe("Breast milk lowers the risk of infection.", candidate_labels=["Milk, Human", "Heart Failure"])
        pipe(texts, candidate_labels={"Milk, Human": "breast milk; colostrum"}, top_k=5)
        pipe(texts, top_k=5)  # the label set stored with the model
        pipe(texts, threshold="stored")  # labels to assign; with force_label=True, at least one
        pipe(text, shortlist=30)["shortlist"]  # candidates, for the prompt of a language model
        for answer in pipe((json.loads(line)["text"] for line in file), batch_size=32): ...

    A `LabelSet` avoids comparing thousands of names, a `hf_gile.LabelIndex` avoids encoding them. Up to rounding, an
    answer depends only on its text and labels: not on the batch, the order of texts or labels, or other labels (except
    with `multi_label=False`, a softmax). Pipelines are thread-safe. The model is put in evaluation mode.

    Args:
        args: Positional arguments of any pipeline, the model first.
        kwargs: `model`, `processor` and other arguments of any pipeline; `label_cache_bytes`, the size of the cache of
            label codes (256 MiB by default; the least recently used are dropped first, and larger sets are not cached);
            and defaults for `Options`.

    Raises:
        ValueError: If the model cannot store labels, the processor is missing or does not fit, or an option is invalid.
    """

    _load_processor = True
    _load_tokenizer = _load_image_processor = _load_video_processor = _load_feature_extractor = False

    def __init__(self, *args: Any, label_cache_bytes: int = LABEL_CACHE_BYTES, **kwargs: Any) -> None:
        self._cache = LabelCache(label_cache_bytes)
        model = args[0] if args else kwargs.get("model")
        if not hasattr(model, "gile"):
            raise ValueError(
                f"the label-scoring pipeline needs a GileForSequenceClassification, got {type(model).__name__}; "
                "use AutoModelForSequenceClassification.from_pretrained(folder)"
            )
        super().__init__(*args, **kwargs)
        self.watched = 0
        self.unusual = 0
        check_processor(self.processor, self.model.config)

    def __call__(
        self, inputs: object = None, candidate_labels: Any = None, *, sequences: object = None, **options: Any
    ) -> Any:
        """Scores texts, see the examples above. Arguments of `pipeline(...)` are the defaults.

        Args:
            inputs: A text, a list of texts, or a generator or dataset of texts (results are streamed). An empty text is
                scored as a document without words. For models that read sentences, a text may be a list of sentences.
            candidate_labels: A list of label names or `Label`s, names with descriptions `{name: description}`, a
                `LabelSet`, a `LabelIndex` of this model and language, or a string of names separated by commas. By
                default the label set stored with the model.
            sequences: The texts, by their name in the built-in pipeline.
            options: Fields of `Options`; `batch_size`, the number of texts encoded together (1 by default), and
                `num_workers`. `hypothesis_template`, an option of the built-in pipeline, is ignored.

        Returns:
            For each text `{"sequence": text, "labels": [names, best first], "scores": [probabilities]}`; if requested,
            `"parents": [[names], ...]` and `"shortlist"`, a text; and a `"note"` for texts without known words.

        Raises:
            ValueError: If texts, labels or options are invalid (the message names the position), a `LabelIndex` belongs
                to another model or language, a linear unit gets new labels, or scores are NaN.
        """
        if inputs is not None and sequences is not None:
            raise ValueError("pass the texts either as inputs or as sequences, got both")
        texts = _check_texts(sequences if inputs is None else inputs, self.read_text)
        return super().__call__(texts, candidate_labels=candidate_labels, **options)

    def read_text(self, text: object, name: str) -> Any:
        """Returns a checked document; `name` is for errors."""
        self.processor.check_text(text, name)
        return text

    def save_pretrained(self, save_directory: str | PathLike[str], **kwargs: Any) -> None:
        """Saves the model and its processor for `pipeline(task, model=folder, trust_remote_code=True)`."""
        # Not by super(), which omits the processor and requires hf_gile for the pipeline.
        self.model.save_pretrained(save_directory, **kwargs)
        self.processor.save_pretrained(save_directory, **kwargs)

    def _sanitize_parameters(
        self, candidate_labels: object = None, hypothesis_template: object = None, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if hypothesis_template is not None:
            logging.get_logger(__name__).warning_once(
                "hypothesis_template is ignored: GILE models read labels without a template"
            )
        names = [field.name for field in fields(Options) if field.name != "returns_logits"]
        for name in options:
            if name not in names:
                raise ValueError(
                    f"the label-scoring pipeline has no option {name!r}; it has candidate_labels, {', '.join(names)} "
                    "and batch_size"
                )
        chosen = {name: value for name, value in options.items() if value is not None}
        Options(**chosen)  # validates
        if candidate_labels is not None:
            chosen["labels"] = self._cache.label_set(candidate_labels)
        return {}, chosen, {}

    def preprocess(self, inputs: object) -> dict[str, Any]:
        """Wraps a text, since `_forward` tokenizes whole batches, and a text may be a list of sentences."""
        return {"text": (inputs,)}

    def _forward(self, model_inputs: dict[str, Any], labels: object = None, **chosen: Any) -> dict[str, Any]:
        batched = isinstance(model_inputs["text"], list)
        texts = model_inputs["text"] if batched else [model_inputs["text"]]
        options = Options(**chosen)
        tokenized = self.tokenize([text for (text,) in texts], options)
        label_set = getattr(labels, "label_set", labels)
        names = self._names(label_set, options)
        described = label_set or self.model.label_set
        columns = {
            "text": texts,
            "best": [
                _format_labels(described, names, answer.columns.tolist(), options) | {"scores": answer.scores}
                for answer in self.select(labels, self.embed(tokenized, options), options)
            ],
            "known": [any(map(self.processor.knows, text.pieces)) for text in tokenized],
        }
        return columns if batched else {name: values[0] for name, values in columns.items()}

    def _names(self, label_set: Any, options: Options) -> Mapping[int, str]:
        """Returns the names of candidates by index, unique among these."""
        config = self.model.config
        stored = self.model.label_set
        if label_set is not None:
            return self._cache.fact(label_set, "names", None, label_set.id2label)
        if stored is None or not config.language_labels:
            return config.id2label
        columns = get_language_columns(config, check_language(config, options.label_language or options.language))

        return self._cache.fact(
            stored,
            f"names from {columns.start}",
            None,
            lambda: dict(enumerate(stored[columns].id2label().values(), columns.start)),
        )

    def tokenize(self, texts: Sequence[Any], options: Options) -> list["TokenizedText"]:
        """Tokenizes texts, without the model; thread-safe, so that other threads may score meanwhile.

        Raises:
            ValueError: If a text or the language is invalid; the message names the position.
        """
        pieces = self.processor.pieces(texts, options.language, is_cut=options.long_texts == "cut")
        words = self.processor.count_words(texts, as_tensors=False)
        return [
            TokenizedText(parts, {name: rows[row] for name, rows in words.items()}) for row, parts in enumerate(pieces)
        ]

    @torch.no_grad()
    def embed(self, texts: Sequence["TokenizedText"], options: Options) -> "EncodedTexts":
        """Encodes tokenized texts, by the `options` of `tokenize`.

        First pieces are a batch, so that codes of short texts do not depend on `long_texts`.
        """
        if self.model.training:  # checked for each batch, since a stream may be read between training steps
            self.model.eval()
        codes, text_embeds = self._encode_batch([text.pieces[0] for text in texts], options.language)
        others = [piece for text in texts for piece in text.pieces[1:]]
        size = max(_PIECES_AT_ONCE, len(texts))
        batches = [others[start : start + size] for start in range(0, len(others), size)]
        other_codes = torch.cat([codes[:0], *(self._encode_batch(batch, options.language)[0] for batch in batches)])
        rest = other_codes.split([len(text.pieces) - 1 for text in texts])
        stacked = {row: torch.cat([codes[row, None], part]) for row, part in enumerate(rest) if len(part)}
        words = pad_features({name: [text.words[name] for text in texts] for name in texts[0].words})
        return EncodedTexts(codes, stacked, self.model.gile.lexical_features(words, text_embeds))

    def _encode_batch(self, documents: list[Any], language: str | None) -> tuple[Tensor, Tensor]:
        """Returns `(B, J)` text codes and `(B, H)` vectors of documents of ids."""
        gile = self.model.gile
        inputs = {name: ids.to(gile.device) for name, ids in self.processor.pad_documents(documents).items()}
        text_embeds, _ = gile.embed_texts(**inputs, language=language)
        codes = gile.output_layer.project_texts(text_embeds, check_language(gile.config, language))
        return codes, text_embeds

    def select(self, labels: object, read: "EncodedTexts", options: Options) -> list[TopLabels]:
        """Selects the labels of texts among a `LabelSet` or `LabelIndex`, or None for the stored labels."""
        config = self.model.config
        side = self._label_side(labels, options)
        multi_label = options.multi_label
        top_k = options.shortlist or options.top_k
        threshold: Any = options.threshold
        force_label = options.force_label
        if multi_label is None:
            multi_label = config.problem_type != "single_label_classification"
        if threshold == "stored" and not multi_label:
            threshold = None
            top_k = 1
        if threshold == "stored":
            threshold = self._label_facts("thresholds", labels, side)
            if force_label is None:
                force_label = config.force_label and self._has_all_seen(labels, side)
        seen = None
        if config.calibration and not options.returns_logits:
            seen = self._label_facts("seen", labels, side)
        choice = Choice(
            is_multi_label=multi_label,
            top_k=top_k and int(top_k),
            threshold=threshold,
            force_label=bool(force_label),
            calibration=config.calibration,
            seen=seen,
            returns_logits=options.returns_logits,
        )
        answers: dict[int, TopLabels] = {}
        long = list(read.pieces)
        if len(long) < len(read.codes):  # so that scores of short texts do not depend on long_texts
            answers |= enumerate(best_labels(read.codes, side.codes, side.addend(read, slice(None)), choice))
        if long:
            pieces = list(map(widened, read.pieces.values()))
            # The mean of logits is the logit of the mean.
            means = torch.stack([piece.mean(0) for piece in pieces]) if options.long_texts == "mean" else pieces
            answers |= zip(long, best_labels(means, side.codes, side.addend(read, long), choice), strict=True)
        if labels is None and options.multi_label is None and not options.returns_logits:
            self._watch([answer.scores for answer in answers.values()])
        if any(bool(answer.scores.isnan().any()) for answer in answers.values()):
            raise ValueError(
                "scores of a text are NaN: the weights of the model contain NaN or infinity, as after diverged "
                "training; use an earlier checkpoint"
            )
        first = side.columns.start
        return [TopLabels(answers[row].scores, answers[row].columns + first) for row in range(len(read.codes))]

    def logits(self, labels: object, read: "EncodedTexts", options: Options, columns: Sequence[int]) -> Tensor:
        """Returns `(B, C)` logits of texts for the labels at some indices; other arguments are as in `select`."""
        side = self._label_side(labels, options)
        scores = compute_scores(read.codes, side.codes, side.addend(read, slice(None)))
        return scores[:, [column - side.columns.start for column in columns]]

    def _watch(self, scores: list[Tensor]) -> None:
        """Counts documents by the probability of their best stored label, and warns if most look unusual."""
        usual = self.model.config.usual_score
        if not usual:
            return
        best = [float(answer[0]) for answer in scores if len(answer)]
        self.watched += len(best)
        self.unusual += sum(score < usual for score in best)
        if note := self.note_on_texts():
            logging.get_logger(__name__).warning_once(note)

    def note_on_texts(self) -> str:
        """Returns a warning if the texts scored so far look unlike the training documents, or else an empty string."""
        if self.watched < _WATCHED or self.unusual < _UNUSUAL * self.watched:
            return ""
        return (
            "these texts look unlike those that the model was trained on: the best label of at least "
            f"{100 * _UNUSUAL:.0f} % has a probability below {self.model.config.usual_score:.2g}, where 10 % is usual; "
            "calibrate the model on a few hundred such documents (hf-gile calibrate), or train it with some"
        )

    def postprocess(self, model_outputs: dict[str, Any]) -> dict[str, Any]:
        """Converts the best labels of a document to names and numbers."""
        (text,) = model_outputs["text"]
        best = model_outputs["best"]
        answer = {"sequence": text, **best, "scores": best["scores"].tolist()}
        if not model_outputs["known"]:
            answer["note"] = "the model knows no word of this text"
        return answer

    def _label_side(self, labels: Any, options: Options) -> "_LabelSide":
        """Returns the codes and postings of labels in any form; arguments are as in `select`."""
        model = self.model
        language = check_language(model.config, options.language)
        if hasattr(labels, "check_fits"):
            label_language = options.label_language or language
            labels.check_fits(model, (language, label_language))
            return _LabelSide(labels.codes, labels.bias, labels.postings, slice(0, len(labels)), label_language)
        label_language = check_language(model.config, options.label_language or language)
        bias = get_bias(model.gile, language)
        if labels is None:
            columns = get_language_columns(model.config, label_language)
            codes = model.project_stored_labels(language=language)[columns]
            return _LabelSide(codes, bias, model.stored_postings(), columns, label_language)

        project = partial(project_label_set, model, self.processor, labels, language, options.label_language)
        state = model.gile.label_state()
        codes = self._cache.codes((labels, language, options.label_language), state, project)
        postings = None
        if model.gile.output_layer.counts_words:
            inputs_state = (state, compute_state(model.gile.output_layer.lexical.idf), label_language)
            postings = self._cache.fact(
                labels, "postings", inputs_state, lambda: model.build_postings(labels, label_language)
            )
        return _LabelSide(codes, bias, postings, slice(0, len(codes)), label_language)

    def _has_all_seen(self, labels: object, side: "_LabelSide") -> bool:
        """Checks whether the labels include all that training documents have: each document had one of these."""
        stored = self.model.label_set
        if labels is None:
            return True
        return stored is not None and int(self._label_facts("seen", labels, side).sum()) == sum(stored.seen)

    def _label_facts(self, name: str, labels: object, side: "_LabelSide") -> Any:
        """Returns `seen` or `thresholds` of labels, cached for each label set."""
        model = self.model
        stored = model.label_set
        label_set = getattr(labels, "label_set", labels)

        def compute() -> Any:
            values = getattr(model.stored_labels, name)(label_set, side.language)[side.columns].to(model.device)
            is_single = name == "thresholds" and bool((values == values[0]).all())
            return values[0].item() if is_single else values

        # Not the label set itself, which would never be released.
        state = (stored and weakref.ref(stored), side.columns, side.language, sorted(model.config.thresholds.items()))
        return self._cache.fact(label_set or model.stored_labels, name, state, compute)


class StoredLabelsPipeline(LabelScoringPipeline):
    """Classifies texts into the stored labels, with the interface of the built-in text-classification pipeline.

    The probabilities are those of `LabelScoringPipeline`, calibrated if the model is.

        pipe = pipeline("text-classification", model="path-or-hub-id", trust_remote_code=True)
        pipe("Rats were fed.")  # [{"label": "Rats", "score": 0.9}]
        pipe(["Rats were fed.", "Iron in blood."], top_k=2, batch_size=32)  # two labels for each text, best first
        pipe({"text": "A title", "text_pair": "A text"}, top_k=None)  # all labels
        pipe("Ratten.", language="german")  # a multilingual model

    Arguments and errors are those of `LabelScoringPipeline`.
    """

    def __call__(self, inputs: object, **options: Any) -> Any:  # type: ignore[override]
        """Classifies texts. Arguments of `pipeline(...)` are the defaults.

        Args:
            inputs: A text, `{"text": text, "text_pair": text}`, a list, or a generator or dataset of these. A pair is
                read as a text of two lines, such as a title and a text.
            options: `top_k`, the number of labels, None for all, by default the best; `function_to_apply`, "sigmoid",
                "softmax", or "none" for logits without calibration, by default as the model was trained; `language`,
                `long_texts`, `batch_size` and `num_workers`, as in `LabelScoringPipeline`. `padding`, `truncation` and
                `max_length` are accepted, but a text is always cut to the length that the model reads.

        Returns:
            For each text `{"label": name, "score": probability}`; with `top_k`, a list of these, best first. As in the
            built-in pipeline, a list for a single text.

        Raises:
            ValueError: If texts or options are invalid, or no labels are stored.
        """
        is_text = isinstance(inputs, str)
        if isinstance(inputs, Mapping):
            inputs = self.read_text(inputs, "inputs")
        answers = super().__call__(inputs, **options)
        return [answers] if is_text and "top_k" not in options else answers

    def read_text(self, text: object, name: str) -> Any:
        """Returns a checked document, which may be a pair of texts; `name` is for errors."""
        if not isinstance(text, Mapping) or "text" not in text or text.keys() - {"text", "text_pair"}:
            return super().read_text(text, name)
        content = super().read_text(text["text"], name)
        pair = text.get("text_pair")
        if pair is None:
            return content
        if not isinstance(content, str) or not isinstance(pair, str):
            raise ValueError(
                f"{name}: text and text_pair must be texts, got {type(content).__name__} and {type(pair).__name__}"
            )
        return super().read_text(f"{content}\n{pair}", name)

    def _sanitize_parameters(  # type: ignore[override]
        self,
        top_k: object = "",
        function_to_apply: object = None,
        padding: object = None,
        truncation: object = None,
        max_length: int | None = None,
        **options: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        # An empty top_k is the default: None asks for all labels.
        self._check_truncation(truncation, max_length)
        for name in options.keys() - {"candidate_labels", "language", "long_texts"}:
            raise ValueError(
                f"the text-classification pipeline has no option {name!r}; it has top_k, function_to_apply, language, "
                "long_texts and batch_size"
            )
        chosen = super()._sanitize_parameters(**options, top_k=None if top_k == "" else top_k)[1]
        if function_to_apply is not None:
            name = str(getattr(function_to_apply, "value", function_to_apply)).lower()
            if name not in ("sigmoid", "softmax", "none"):
                raise ValueError(f"function_to_apply must be 'sigmoid', 'softmax' or 'none', got {name!r:.100}")
            chosen |= {"multi_label": name != "softmax", "returns_logits": name == "none"}
        if top_k == "":
            return {}, chosen, {}
        return {}, chosen | {"top_k": top_k}, {"returns_list": True}

    def _check_truncation(self, truncation: object, max_length: int | None) -> None:
        """Refuses options of the tokenizer that would change which part of a text is read."""
        limit = self.processor.max_document_words
        if truncation in (False, "do_not_truncate"):
            raise ValueError("truncation=False: texts are always cut; long_texts='max' reads them in pieces")
        if max_length is not None and max_length < limit:
            raise ValueError(
                f"max_length={max_length}: this model reads up to {limit} words or tokens of a text; leave it out"
            )

    def _forward(self, model_inputs: dict[str, Any], labels: object = None, **chosen: Any) -> dict[str, Any]:
        return super()._forward(model_inputs, labels, **{"top_k": 1, **chosen})

    def postprocess(self, model_outputs: dict[str, Any], returns_list: bool = False) -> Any:
        """Converts the best labels of a document to the answer of the built-in pipeline."""
        answer = super().postprocess(model_outputs)
        pairs = zip(answer["labels"], answer["scores"], strict=True)
        answers = [{"label": label, "score": score} for label, score in pairs]
        return answers if returns_list else answers[0]


# Transformers finds the pipelines of a folder by `config.custom_pipelines`. For a loaded model, it does not look there:
# the class of a built-in task is the same for all models, so it is not replaced here, and the built-in pipelines call
# the model, which refuses (`WRONG_PIPELINE`). This task is ours. The package, or the code of the first folder,
# registers it.
PIPELINE_REGISTRY.supported_tasks.setdefault(
    "label-scoring", {"impl": LabelScoringPipeline, "pt": (AutoModelForSequenceClassification,), "type": "text"}
)


def _check_texts(inputs: Any, read: Callable[[Any, str], Any]) -> Any:
    """Returns a checked text or list of texts, or a dataset or generator that checks its texts by `read`."""
    if isinstance(inputs, str):
        return inputs
    if hasattr(inputs, "column_names") or hasattr(inputs, "columns"):  # a table, or a label set
        raise ValueError(
            f"got {type(inputs).__name__} instead of texts: pass the text column of a dataset, as in "
            "pipe(dataset[name]), and labels as candidate_labels"
        )
    if hasattr(inputs, "tolist"):  # numpy and pandas
        inputs = inputs.tolist()
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable | Dataset):
        read(inputs, "text[0]")  # raises an error
    has_length = hasattr(inputs, "__len__") and not isinstance(inputs, IterableDataset)
    if has_length and len(inputs) == 0:
        raise ValueError("no texts to score: pass at least one")
    if isinstance(inputs, Dataset) and has_length:
        positions = range(len(inputs))  # type: ignore[arg-type]
        return PipelineDataset(positions, _read_row, {"texts": inputs, "read": read})
    texts = (read(text, f"text[{position}]") for position, text in enumerate(inputs))
    return list(texts) if has_length else texts


def _read_row(position: int, texts: Any, read: Callable[[Any, str], Any]) -> Any:
    """Returns a checked text of a dataset."""
    return read(texts[position], f"text[{position}]")


class TokenizedText(NamedTuple):
    """A text as ids."""

    pieces: list[Any]  # as `GileProcessor.pieces`
    words: dict[str, list[int]]  # as `GileProcessor.count_words`


class EncodedTexts(NamedTuple):
    """Encoded texts."""

    codes: Tensor  # (B, J), codes of the first pieces
    pieces: dict[int, Tensor]  # (P, J) codes of the pieces of longer texts, by position
    lexical: LexicalFeatures | None  # of whole texts


class _LabelSide(NamedTuple):
    """The labels to score, from any form of candidate labels."""

    codes: Tensor  # (L, J)
    bias: float  # the constant of their scores
    postings: Postings | None  # of the lexical terms, if these are used; of all stored labels
    columns: slice  # indices of the labels in their label set
    language: str | None  # default language of the labels

    def addend(self, read: EncodedTexts, texts: slice | Sequence[int]) -> Bias:
        """Returns the addend of the scores of some texts: the constant, and the terms of words."""
        postings = self.postings
        if postings is None:
            return self.bias
        words = read.lexical and read.lexical.take(texts)
        return lambda rows: self.bias + postings.scores(words and words.take(rows))[:, self.columns]


def _format_labels(labels: Any, names: Mapping[int, str], columns: Sequence[int], options: Options) -> dict[str, Any]:
    """Returns the entries of an answer that describe its labels; `labels` is None if only names are known."""
    answer: dict[str, Any] = {"labels": [names[column] for column in columns], "scores": None}  # in this order
    if options.return_parents:
        parents = [[labels.column(x) for x in labels[j].broader if x in labels] if labels else () for j in columns]
        answer["parents"] = [[names[parent] for parent in row if parent in names] for row in parents]
    if options.shortlist is not None:
        descriptions = [labels[j].text.removeprefix(labels[j].name) if labels else "" for j in columns]
        answer["shortlist"] = "\n".join(f"- {names[j]}{text}" for j, text in zip(columns, descriptions, strict=True))
    return answer
