"""GILE label scoring as a Transformers plugin; `import hf_gile` registers the models with the Auto classes."""

from .data import load_labels
from .default_pipeline import register as _register_default
from .label_index import LabelIndex
from .models import (
    GileConfig,
    GileForSequenceClassification,
    GileModel,
    GileModelOutput,
    GileProcessor,
    GileTextConfig,
    Label,
    LabelScoringPipeline,
    LabelSet,
)
from .tokenizing import build_tokenizer

__version__ = "0.1.0"

_register_default()

__all__ = [
    "GileConfig",
    "GileForSequenceClassification",
    "GileModel",
    "GileModelOutput",
    "GileProcessor",
    "GileTextConfig",
    "Label",
    "LabelIndex",
    "LabelScoringPipeline",
    "LabelSet",
    "build_tokenizer",
    "load_labels",
]
