"""GILE label scoring as a Transformers plugin; `import hf_gile` registers the models with the Auto classes.

The command imports this package to read labels and files, too. It registers the models when it first needs a model.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from .extras import import_on_demand

if TYPE_CHECKING:
    from .data import load_labels
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

import_on_demand(__name__, ("models", "tokenizing", "label_index", "data.label_files"))

if not getattr(sys.modules.get("hf_gile_cli"), "is_running", False):
    for _module in ("data", "default_pipeline", "models.registration", "tokenizing", "label_index"):
        import_module(f"{__name__}.{_module}")
