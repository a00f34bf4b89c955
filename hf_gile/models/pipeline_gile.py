"""The label-scoring pipeline: `pipeline("zero-shot-classification", model=..., trust_remote_code=True)`."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Pipeline

from .labels_gile import LabelSet

KEPT_LABEL_SETS = 16


@dataclass(frozen=True)
class _Request:
    """One document, and the labels it is scored with; none: the stored ones."""

    text: Any
    labels: Any


class LabelScoringPipeline(Pipeline):
    """Scores texts against labels given by their words, called and answering as the built-in zero-shot pipeline does.

    Each set of candidate labels is encoded once and remembered (a `LabelSet` also spares making one of thousands of
    names at every call); a text then costs one pass of the text encoder and an
    inner product for each label, whatever their number.

    Example::

        pipe = pipeline("zero-shot-classification", model="path-or-hub-id", trust_remote_code=True)
        pipe("Breast milk lowers the risk of infection.", candidate_labels=["Milk, Human", "Heart Failure"])
        pipe(texts, candidate_labels={"Milk, Human": "breast milk; colostrum"}, top_k=5)
        pipe(texts, top_k=5)  # the label set stored with the model
    """

    _load_processor = True
    _load_tokenizer = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._kept: OrderedDict[Any, Tensor] = OrderedDict()
        super().__init__(*args, **kwargs)
        if self.processor is None:
            raise ValueError(
                "the label-scoring pipeline needs the processor saved with the model; save it beside the model with "
                "processor.save_pretrained(folder), or pass processor=GileProcessor(...)"
            )
        self.processor.check_fits(self.model.config)
        self.model.eval()

    def __call__(self, inputs: Any, candidate_labels: Any = None, **kwargs: Any) -> Any:
        """Scores texts.

        Args:
            inputs: A text, a list of texts, or a generator or dataset of texts (answered as a stream). An empty text
                is scored as a document without words.
            candidate_labels: A list of label names or `Label`s, names with descriptions `{name: description}`, a
                `LabelSet`, or one text of names separated by commas; or a list of such, one for each text. By default
                the label set stored with the model.
            kwargs: `multi_label` (each label on its own, by a sigmoid; else one label, by a softmax over the
                candidates; by default as the model was trained), `top_k` (that many best labels; by default all),
                `threshold` (only labels with at least this probability), `language` (of the texts, in a model of
                several languages), `label_language` (of the labels, if it is another), `batch_size`.

        Returns:
            For each text `{"sequence": text, "labels": [names, best first], "scores": [probabilities]}`.

        Raises:
            ValueError: No texts, no labels, duplicate or empty labels, another number of label lists than of texts,
                or a model that cannot score other labels than its own.
        """
        if isinstance(inputs, Sequence) and not isinstance(inputs, str):
            inputs = list(inputs)
        elif hasattr(inputs, "tolist"):  # numpy and pandas
            inputs = inputs.tolist()
        if isinstance(inputs, list) and not inputs:
            raise ValueError("no texts to score: pass at least one")
        if _one_set_for_each_text(candidate_labels):
            texts = [inputs] if isinstance(inputs, str) else inputs
            if not isinstance(texts, list):
                raise ValueError(f"label lists for each text go with a list of texts, got {type(texts).__name__}")
            if len(texts) != len(candidate_labels):
                raise ValueError(
                    f"candidate_labels holds {len(candidate_labels)} label lists, one for each text, but there are "
                    f"{len(texts)} texts"
                )
            requests = [
                _Request(text, _as_label_set(labels)) for text, labels in zip(texts, candidate_labels, strict=True)
            ]
            answers = super().__call__(requests, **kwargs)
            return answers[0] if isinstance(inputs, str) else answers
        return super().__call__(inputs, candidate_labels=candidate_labels, **kwargs)

    def _sanitize_parameters(
        self,
        candidate_labels: Any = None,
        multi_label: bool | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
        language: str | None = None,
        label_language: str | None = None,
        **unknown: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if unknown:
            raise ValueError(
                f"the label-scoring pipeline has no option {sorted(unknown)[0]!r}; "
                "it has candidate_labels, multi_label, top_k, threshold, language, label_language and batch_size"
            )
        for name, given in {"language": language, "label_language": label_language}.items():
            if given is not None and not isinstance(given, str):
                raise ValueError(f"{name} must be the name of one language, got {given!r}; call once for each language")
        if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
            raise ValueError(f"top_k must be a whole number, at least 1, got {top_k!r}")
        if threshold is not None and (not isinstance(threshold, int | float) or not 0 <= threshold <= 1):
            raise ValueError(f"threshold is a probability between 0 and 1, got {threshold!r}")
        preprocess = {} if candidate_labels is None else {"labels": _as_label_set(candidate_labels)}
        languages = {"language": language, "label_language": label_language}
        options = {"multi_label": multi_label, "top_k": top_k, "threshold": threshold}
        forward, postprocess = (
            {name: value for name, value in given.items() if value is not None} for given in (languages, options)
        )
        return preprocess, forward, postprocess

    def preprocess(self, inputs: Any, labels: LabelSet | None = None) -> dict[str, Any]:
        """Wraps a text: words are made of whole batches, in `_forward`."""
        return {"request": inputs if hasattr(inputs, "labels") else _Request(inputs, labels)}

    def _forward(
        self, model_inputs: dict[str, Any], language: str | None = None, label_language: str | None = None
    ) -> dict[str, Any]:
        batched = isinstance(model_inputs["request"], list)
        requests: list[_Request] = model_inputs["request"] if batched else [model_inputs["request"]]
        words = self.processor(text=[request.text for request in requests], language=language, return_tensors="pt")
        text_codes = self.model.gile.get_text_features(**words.to(self.device), language=language)
        by_labels: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            by_labels.setdefault(id(request.labels), []).append(place)
        logits: list[Any] = [None] * len(requests)
        for places in by_labels.values():
            labels = requests[places[0]].labels
            codes = self._label_codes(labels, language, label_language or language)
            scores = self.model.gile.score(text_codes[places], codes, language)
            if labels is None:
                scores = self.model.mask_other_languages(scores, label_language or language)
            for place, row in zip(places, scores, strict=True):
                logits[place] = row
        answer = {"request": requests, "logits": logits}
        return answer if batched else {name: values[0] for name, values in answer.items()}

    def postprocess(
        self,
        model_outputs: dict[str, Any],
        multi_label: bool | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
    ) -> dict[str, Any]:
        """Turns one document's logits into names and probabilities, best first."""
        request, logits = model_outputs["request"], model_outputs["logits"].flatten().float()
        if multi_label is None:
            multi_label = self.model.config.problem_type != "single_label_classification"
        scores = logits.sigmoid() if multi_label else logits.softmax(-1)
        order = torch.argsort(logits, descending=True, stable=True)[:top_k]
        order = order[logits[order] > -torch.inf]  # not the stored labels of other languages
        if threshold is not None:
            order = order[scores[order] >= threshold]
        names = self.model.config.id2label if request.labels is None else request.labels.names
        return {
            "sequence": request.text,
            "labels": [names[column] for column in order.tolist()],
            "scores": scores[order].tolist(),
        }

    def _label_codes(self, labels: LabelSet | None, language: str | None, label_language: str | None) -> Tensor:
        if labels is None:
            return self.model.get_stored_label_features(language=language)
        gile = self.model.gile
        if self.model.config.output_layer == "linear":
            return gile.get_label_features()  # refuses, and says why
        # A label that names its own language is read in that.
        languages = tuple(label.language or label_language for label in labels) if gile.config.languages else None
        texts = tuple(labels.texts)
        key = (texts, language, languages, gile.label_state())
        if key not in self._kept:
            if languages is not None and None in languages:
                languages = None  # said by the processor, if it must be said
            words = self.processor(label_text=texts, label_language=languages, return_tensors="pt").to(self.device)
            self._kept[key] = gile.get_label_features(**words, language=language, label_language=languages)
            while len(self._kept) > KEPT_LABEL_SETS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def _as_label_set(labels: Any) -> LabelSet:
    if hasattr(labels, "texts") and hasattr(labels, "names"):
        return labels
    if isinstance(labels, str):  # as the built-in pipeline reads it
        labels = [name.strip() for name in labels.split(",") if name.strip()]
    if not isinstance(labels, Mapping | Iterable):
        raise ValueError(f"candidate_labels must be names, names with descriptions or a LabelSet, got {labels!r}")
    if not isinstance(labels, Mapping):
        labels = list(labels)
        if labels and all(hasattr(label, "text") for label in labels):
            return LabelSet(labels)
    return LabelSet.from_names(labels)


def _one_set_for_each_text(labels: Any) -> bool:
    return isinstance(labels, list | tuple) and any(
        isinstance(one, list | tuple | Mapping) or hasattr(one, "texts") for one in labels
    )


__all__ = ["LabelScoringPipeline"]
