"""Makes the general scorer the default model of `pipeline("label-scoring")`; it is created on demand."""

from copy import copy
from typing import Any

from transformers import AutoModelForSequenceClassification
from transformers.pipelines import PIPELINE_REGISTRY

from .models import LabelScoringPipeline
from .models.stored_labels_gile import LabelCache

_LABELS = 300
"""Maximum number of labels of a set whose language is detected."""


class DefaultPipeline(LabelScoringPipeline):
    """A `LabelScoringPipeline` that reads each text with the encoder for its language, if the model is the default.

    `text_encoders` chooses the encoder from the text and the names of its labels. Another encoder than that of the
    model is loaded when a text needs it. Any other model reads all texts itself.

    Args:
        args: Arguments of `LabelScoringPipeline`.
        chooses_encoder: Whether the model is the general scorer, and texts choose its encoder; by default if it is the
            default model of `pipeline("label-scoring")`.
        kwargs: Arguments of `LabelScoringPipeline`.
    """

    def __init__(self, *args: Any, chooses_encoder: bool | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if chooses_encoder is None:
            from .training.general import is_default_model

            chooses_encoder = is_default_model(self.model.name_or_path)
        self.chooses_encoder = chooses_encoder
        self._by_encoder: dict[str, LabelScoringPipeline] = {}

    def _forward(self, model_inputs: dict[str, Any], labels: object = None, **chosen: Any) -> dict[str, Any]:
        if not self.chooses_encoder:
            return super()._forward(model_inputs, labels, **chosen)
        batched = isinstance(model_inputs["text"], list)
        texts = model_inputs["text"] if batched else [model_inputs["text"]]
        by_reader: dict[LabelScoringPipeline, list[int]] = {}
        for position, (text,) in enumerate(texts):
            by_reader.setdefault(self._reader_of(text, labels), []).append(position)
        columns: dict[str, list[Any]] = {}
        for reader, positions in by_reader.items():
            read = {"text": [texts[position] for position in positions]}
            for name, values in LabelScoringPipeline._forward(reader, read, labels, **chosen).items():
                column = columns.setdefault(name, [None] * len(texts))
                for position, value in zip(positions, values, strict=True):
                    column[position] = value
        return columns if batched else {name: values[0] for name, values in columns.items()}

    def _reader_of(self, text: str, labels: Any) -> LabelScoringPipeline:
        """Returns a pipeline with the encoder for a text: this or another."""
        from .training.encoders import best_text_encoder
        from .training.general import scorer_over

        if labels is None or hasattr(labels, "model_fingerprint"):  # the codes of an index are those of this model
            return self
        names = self._cache.fact(labels, "first names", None, lambda: labels.names[:_LABELS])
        encoder = best_text_encoder([text], names)
        if encoder is None or encoder.name == self.model.config.text_config.text_encoder_config._name_or_path:
            return self
        if encoder.name not in self._by_encoder:
            other = copy(self)
            model, other.processor = scorer_over(encoder)
            other.model = model.to(self.device, self.model.dtype)
            other._cache = LabelCache(self._cache.max_bytes)
            self._by_encoder[encoder.name] = other
        return self._by_encoder[encoder.name]


class _GeneralScorer(dict[str, str]):
    """Default of a task as Transformers looks it up: a model name and its revision."""

    def __getitem__(self, name: str) -> tuple[str, str]:  # type: ignore[override]
        from .training.general import default_model

        return default_model(), "main"


PIPELINE_REGISTRY.supported_tasks["label-scoring"] = {
    "impl": DefaultPipeline,
    "pt": (AutoModelForSequenceClassification,),
    "type": "text",
    "default": _GeneralScorer(model=""),
}
