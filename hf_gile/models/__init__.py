"""Model code that is uploaded with every saved model.

The modules import each other as siblings, and otherwise only torch, transformers and its dependencies: this folder is
copied unchanged and runs without hf_gile. `registration`, which is not copied, registers them with Transformers.
"""

from typing import TYPE_CHECKING

from ..extras import import_on_demand

if TYPE_CHECKING:
    from .configuration_gile import GileConfig, GileTextConfig
    from .labels_gile import Label, LabelSet
    from .modeling_gile import GileForSequenceClassification, GileModel, GileModelOutput
    from .pipeline_gile import LabelScoringPipeline
    from .processing_gile import GileProcessor
    from .registration import Scorer, get_towers, unwrapped

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
    "get_towers",
    "unwrapped",
]

# Labels need no model, so that commands that only read labels do not import torch.
import_on_demand(__name__, ("labels_gile", "registration", "configuration_gile", "modeling_gile", "pipeline_gile"))
