"""The label-scoring pipeline: `pipeline("zero-shot-classification", model=..., trust_remote_code=True)`."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Pipeline

from .label_index_gile import LabelIndex, bias_of, encode_labels
from .labels_gile import LabelSet
from .languages_gile import check_language, own_columns

KEPT_LABEL_SETS = 16

# Of what pipelines keep. Not theirs, so that they can be copied and pickled, and never held while labels are encoded.
_LOCK = threading.Lock()


@dataclass(frozen=True)
class _Request:
    """One document, and the labels it is scored with; none: the stored ones."""

    text: Any
    labels: Any


class LabelScoringPipeline(Pipeline):
    """Scores texts against labels given by their words, called and answering as the built-in zero-shot pipeline does.

    Each set of candidate labels is encoded once and remembered (a `LabelSet` also spares making one of thousands of
    names at every call, and a `LabelIndex` encoding them at all); a text then costs one pass of the text encoder and an
    inner product for each label, whatever their number. With `top_k`, only the scores of the best labels are kept.

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
        self._kept: OrderedDict[Any, LabelIndex] = OrderedDict()
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
                `LabelSet`, a `LabelIndex` made by this model for texts in this language, or one text of names separated
                by commas; or a list of such, one for each text. By default the label set stored with the model.
            kwargs: `multi_label` (each label on its own, by a sigmoid; else one label, by a softmax over the
                candidates; by default as the model was trained), `top_k` (that many best labels; by default all),
                `threshold` (only labels with at least this probability), `language` (of the texts, in a model of
                several languages), `label_language` (of the labels, if it is another), `batch_size`.

        Returns:
            For each text `{"sequence": text, "labels": [names, best first], "scores": [probabilities]}`.

        Raises:
            ValueError: No texts, no labels, duplicate or empty labels, another number of label lists than of texts,
                a `LabelIndex` of another model or language, or a model that cannot score other labels than its own.
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
        if top_k is not None and (not hasattr(top_k, "__index__") or top_k < 1):
            raise ValueError(f"top_k must be a whole number, at least 1, got {top_k!r}")
        if threshold is not None and (not isinstance(threshold, int | float) or not 0 <= threshold <= 1):
            raise ValueError(f"threshold is a probability between 0 and 1, got {threshold!r}")
        preprocess = {} if candidate_labels is None else {"labels": _as_label_set(candidate_labels)}
        in_forward = {
            "language": language,
            "label_language": label_language,
            "multi_label": multi_label,
            "top_k": top_k,
        }
        in_postprocess = {"multi_label": multi_label, "threshold": threshold}
        forward, postprocess = (
            {name: value for name, value in given.items() if value is not None}
            for given in (in_forward, in_postprocess)
        )
        return preprocess, forward, postprocess

    def preprocess(self, inputs: Any, labels: LabelSet | None = None) -> dict[str, Any]:
        """Wraps a text: words are made of whole batches, in `_forward`."""
        return {"request": inputs if hasattr(inputs, "labels") else _Request(inputs, labels)}

    def _forward(
        self,
        model_inputs: dict[str, Any],
        language: str | None = None,
        label_language: str | None = None,
        multi_label: bool | None = None,
        top_k: int | None = None,
    ) -> dict[str, Any]:
        batched = isinstance(model_inputs["request"], list)
        requests: list[_Request] = model_inputs["request"] if batched else [model_inputs["request"]]
        words = self.processor(text=[request.text for request in requests], language=language, return_tensors="pt")
        text_codes = self.model.gile.get_text_features(**words.to(self.device), language=language)
        by_labels: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            by_labels.setdefault(id(request.labels), []).append(place)
        found: list[Any] = [None] * len(requests)
        for places in by_labels.values():
            index, first = self._index(requests[places[0]].labels, language, label_language)
            own, total = text_codes[places], None
            if top_k is None:
                scores = index.scores(own)
                columns = torch.arange(scores.shape[1]).expand(scores.shape)
            else:
                scores, columns = index.top_k(own, top_k)
            if not self._each_on_its_own(multi_label):
                total = (scores.logsumexp(-1) if top_k is None else index.log_sum_exp(own))[:, None]
            for row, place in enumerate(places):
                found[place] = (scores[row], columns[row] + first, None if total is None else total[row])
        answer = {"request": requests, "found": found}
        return answer if batched else {name: values[0] for name, values in answer.items()}

    def postprocess(
        self, model_outputs: dict[str, Any], multi_label: bool | None = None, threshold: float | None = None
    ) -> dict[str, Any]:
        """Turns one document's logits into names and probabilities, best first."""
        request = model_outputs["request"]
        logits, columns, total = model_outputs["found"]
        scores = logits.sigmoid() if total is None else (logits - total).exp()
        if threshold is not None:
            kept = scores >= threshold
            logits, columns, scores = logits[kept], columns[kept], scores[kept]
        order = torch.argsort(logits, descending=True, stable=True)
        names = self.model.config.id2label
        if request.labels is not None:
            label_set = getattr(request.labels, "label_set", request.labels)
            names = {column: label_set[column].name for column in columns.tolist()}
        return {
            "sequence": request.text,
            "labels": [names[column] for column in columns[order].tolist()],
            "scores": scores[order].tolist(),
        }

    def _each_on_its_own(self, multi_label: bool | None) -> bool:
        if multi_label is None:
            return self.model.config.problem_type != "single_label_classification"
        return multi_label

    def _index(self, labels: Any, language: str | None, label_language: str | None) -> tuple[LabelIndex, int]:
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
            codes = self.model.get_stored_label_features(language=language)[own]
            places: Any = range(len(codes))  # in the place of labels: their names come from the configuration
            return LabelIndex(places, codes, bias, language, ""), own.start
        if config.output_layer == "linear":
            gile.get_label_features()  # refuses, and says why
        where = (language, label_language, gile.label_state())
        with _LOCK:
            key = next((key for key, kept in self._kept.items() if kept.label_set is labels and key[1:] == where), None)
        if key is None:  # not the same set as before, but maybe the same texts
            # What is learned of single labels goes by their ids.
            ids = gile.label_tables and self.model.label_set is not None
            key = (tuple((label.id if ids else "", label.text, label.language) for label in labels), *where)
        kept = self._kept.get(key)
        codes = kept.codes if kept else encode_labels(self.model, self.processor, labels, language, label_language)
        index = LabelIndex(labels, codes, bias, language, "")
        with _LOCK:
            for stale in [other for other in self._kept if other[-1] != where[-1]]:
                del self._kept[stale]
            self._kept[key] = index
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT_LABEL_SETS:
                self._kept.popitem(last=False)
        return index, 0


def _as_label_set(labels: Any) -> LabelSet:
    if hasattr(labels, "check_fits") or (hasattr(labels, "texts") and hasattr(labels, "names")):
        return labels
    if isinstance(labels, str):  # as the built-in pipeline reads it
        labels = [name.strip() for name in labels.split(",") if name.strip()]
    if not isinstance(labels, Mapping | Iterable):
        raise ValueError(
            f"candidate_labels must be names, names with descriptions, a LabelSet or a LabelIndex, got {labels!r}"
        )
    if not isinstance(labels, Mapping):
        labels = list(labels)
        if labels and all(hasattr(label, "text") for label in labels):
            return LabelSet(labels)
    return LabelSet.from_names(labels)


def _one_set_for_each_text(labels: Any) -> bool:
    return isinstance(labels, list | tuple) and any(
        isinstance(one, list | tuple | Mapping) or hasattr(one, "texts") or hasattr(one, "check_fits") for one in labels
    )


__all__ = ["LabelScoringPipeline"]
