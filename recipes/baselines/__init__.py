"""Rows of the paper's tables that are not GILE: what they need beside the fields of `units.py`."""

from collections.abc import Callable
from typing import Any

from baselines.learned_labels import AiTextML, LearnedLabels
from baselines.ranking_losses import hinge, warp
from hf_gile import GileForSequenceClassification

MODELS: dict[str, type[GileForSequenceClassification]] = {
    "wsabie": LearnedLabels,
    "aitextml": AiTextML,
    "gile_learned": LearnedLabels,
    "wsabie_cross_entropy": LearnedLabels,
}
"""The models of units that are not a `GileForSequenceClassification`."""

RANKING: dict[str, Callable[..., Any]] = {"hinge": hinge, "wsabie": warp, "aitextml": warp, "gile_warp": warp}
"""Losses of units that are trained by a ranking loss, which needs the scores of all labels at once."""

__all__ = ["MODELS", "RANKING", "AiTextML", "LearnedLabels", "hinge", "warp"]
