"""Makes the general scorer the default model of `pipeline("label-scoring")`; it is created on demand."""

from transformers import AutoModelForSequenceClassification
from transformers.pipelines import PIPELINE_REGISTRY

from .models import LabelScoringPipeline


class _GeneralScorer(dict[str, str]):
    """Default of a task as Transformers looks it up: a model name and its revision."""

    def __getitem__(self, name: str) -> tuple[str, str]:  # type: ignore[override]
        from .training.general import default_model

        return default_model(), "main"


def register() -> None:
    """Registers the task with its default model."""
    PIPELINE_REGISTRY.supported_tasks["label-scoring"] = {
        "impl": LabelScoringPipeline,
        "pt": (AutoModelForSequenceClassification,),
        "type": "text",
        "default": _GeneralScorer(model=""),
    }
