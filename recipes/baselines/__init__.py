"""Rows of the paper's tables that are not GILE: what they need beside the fields of `units.py`."""

from baselines.learned_labels import AiTextML, LearnedLabels
from hf_gile import GileForSequenceClassification

MODELS: dict[str, type[GileForSequenceClassification]] = {
    "wsabie": LearnedLabels,
    "aitextml": AiTextML,
    "gile_learned": LearnedLabels,
    "wsabie_cross_entropy": LearnedLabels,
}
"""The models of units that are not a `GileForSequenceClassification`."""

__all__ = ["MODELS", "AiTextML", "LearnedLabels"]
