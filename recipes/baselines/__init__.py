"""Defines the baselines in the paper's tables, in addition to the units of `papers.units`."""

from papers.units import Unit

from baselines.learned_labels import AiTextML, LearnedLabels
from baselines.ranking_losses import hinge, warp

_WORDS = {"text_encoder_type": "nn", "output_layer": "bilinear"}

BASELINES: dict[str, Unit] = {
    # [N16], as described by the GILE paper.
    "wsabie": Unit(_WORDS, LearnedLabels, warp),
    "aitextml": Unit(_WORDS, AiTextML, warp),
    # From "our preliminary experiments" (note 5).
    "hinge": Unit({"output_layer": "linear"}, loss=hinge),
    # Not in the paper.
    "wsabie_cross_entropy": Unit(_WORDS, LearnedLabels),
    "gile_learned": Unit({"output_layer": "gile"}, LearnedLabels),
    "gile_warp": Unit({"output_layer": "gile"}, loss=warp),
}
"""The units, by name."""

__all__ = ["BASELINES", "AiTextML", "LearnedLabels", "hinge", "warp"]
