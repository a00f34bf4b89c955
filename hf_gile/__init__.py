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
from .models.saving_gile import SavedTogether as _SavedTogether
from .tokenizing import build_tokenizer
from .writing import new_files as _new_files

__version__ = "0.1.0"

_register_default()
# The code of a model refuses a save that was interrupted; with this, `hf-gile repair` can also complete it.
_SavedTogether.new_files = staticmethod(_new_files)

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
