"""Registers the models with the Auto classes of Transformers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoProcessor

from ..writing import new_files
from .configuration_gile import GileConfig
from .modeling_gile import GileForSequenceClassification, GileModel
from .processing_gile import GileProcessor
from .published_gile import PublishedGileConfig, PublishedGileForSequenceClassification, PublishedGileModel
from .saving_gile import SavedTogether

Scorer = GileModel | GileForSequenceClassification
"""Models with label codes: both towers, alone or with stored labels."""


def unwrapped(model: object) -> Any:
    """Removes a wrapper such as `DistributedDataParallel` from a model.

    Args:
        model: A model, or a wrapper with the model as its `module`.
    """
    return getattr(model, "module", model)


def get_towers(model: object) -> GileModel:
    """Returns the `GileModel` of a classifier or of any wrapper.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`, wrapped or not.

    Raises:
        ValueError: If it is another kind of model.
    """
    model = unwrapped(model)
    gile: Any = getattr(model, "gile", model)
    if not hasattr(gile, "label_parameters"):
        raise ValueError(f"model must be a GileModel or a GileForSequenceClassification, got {type(model).__name__}")
    return gile


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Puts a model in evaluation mode for a while.

    Args:
        model: The model, which then returns to its mode.
    """
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


CLASSES: list[tuple[Any, Any, Any]] = [
    (GileConfig, GileModel, GileForSequenceClassification),
    (PublishedGileConfig, PublishedGileModel, PublishedGileForSequenceClassification),
]
for config, model, classifier in CLASSES:
    AutoConfig.register(config.model_type, config, exist_ok=True)
    AutoModel.register(config, model, exist_ok=True)
    AutoModelForSequenceClassification.register(config, classifier, exist_ok=True)
    AutoProcessor.register(config, GileProcessor, exist_ok=True)

# Models and processors are saved with their code.
GileModel.register_for_auto_class("AutoModel")
GileForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
GileProcessor.register_for_auto_class("AutoProcessor")

# The code of a model refuses a save that was interrupted; with this, `hf-gile repair` can also complete it.
SavedTogether.new_files = staticmethod(new_files)
