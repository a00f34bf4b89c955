"""The files that travel to the Hub with every saved model, and their registration with Transformers.

They import each other as flat siblings, and besides only torch and what transformers always brings: this folder is
copied as it is, and runs where hf_gile is not installed.
"""

from typing import Any

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoProcessor
from transformers.pipelines import PIPELINE_REGISTRY

from .configuration_gile import GileConfig, GileTextConfig
from .labels_gile import Label, LabelSet
from .modeling_gile import GileForSequenceClassification, GileModel, GileModelOutput
from .pipeline_gile import LabelScoringPipeline
from .processing_gile import GileProcessor
from .published_gile import PublishedGileConfig, PublishedGileForSequenceClassification, PublishedGileModel

Scorer = GileModel | GileForSequenceClassification
"""What has label codes: both towers, alone or with stored labels."""


def unwrapped(model: object) -> Any:
    """The model itself, of one in a wrapper such as `DistributedDataParallel`.

    Args:
        model: A model, or a wrapper that has it as its `module`.
    """
    return getattr(model, "module", model)


def towers_of(model: object) -> GileModel:
    """The `GileModel` of a classifier, or that itself, out of any wrapper.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`, wrapped or not.

    Raises:
        ValueError: It is something else.
    """
    model = unwrapped(model)
    gile: Any = getattr(model, "gile", model)
    if not hasattr(gile, "label_parameters"):
        raise ValueError(f"model must be a GileModel or a GileForSequenceClassification, got {type(model).__name__}")
    return gile


CLASSES: list[tuple[Any, Any, Any]] = [
    (GileConfig, GileModel, GileForSequenceClassification),
    (PublishedGileConfig, PublishedGileModel, PublishedGileForSequenceClassification),
]
for config, model, classifier in CLASSES:
    AutoConfig.register(config.model_type, config, exist_ok=True)
    AutoModel.register(config, model, exist_ok=True)
    AutoModelForSequenceClassification.register(config, classifier, exist_ok=True)
    AutoProcessor.register(config, GileProcessor, exist_ok=True)

# Without this, a saved model would name its code in config.json and not carry it.
GileConfig.register_for_auto_class()
GileModel.register_for_auto_class("AutoModel")
GileForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
GileProcessor.register_for_auto_class("AutoProcessor")

# For those who have the package: this task needs no trust_remote_code.
PIPELINE_REGISTRY.register_pipeline(
    "label-scoring", pipeline_class=LabelScoringPipeline, pt_model=AutoModelForSequenceClassification, type="text"
)

__all__ = [
    "GileConfig",
    "GileForSequenceClassification",
    "GileModel",
    "GileModelOutput",
    "GileProcessor",
    "GileTextConfig",
    "Label",
    "LabelScoringPipeline",
    "LabelSet",
    "Scorer",
]
