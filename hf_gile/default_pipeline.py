"""What `pipeline("label-scoring")` is where no model is named: the general scorer, made when it is asked for."""

from transformers.pipelines import PIPELINE_REGISTRY

from .models import LabelScoringPipeline  # registers the task


class _GeneralScorer(dict[str, str]):
    """The default of a task, as Transformers looks it up: the name of a model and its revision."""

    def __getitem__(self, name: str) -> tuple[str, str]:  # type: ignore[override]
        from .training.general import default_model

        return default_model(), "main"


def register() -> None:
    """Gives the task its default."""
    tasks = LabelScoringPipeline._registered_impl  # of the registry, and what a saved pipeline would name
    PIPELINE_REGISTRY.supported_tasks["label-scoring"] = tasks["label-scoring"] | {"default": _GeneralScorer(model="")}
