"""Training with the stock `Trainer`: data, label sampling, pretrained encoders, calibration and thresholds."""

from typing import TYPE_CHECKING

from ..extras import import_on_demand

if TYPE_CHECKING:
    from .calibration import calibrate
    from .collator import EpochCallback, GileDataCollator, LabelSampler
    from .convex import fit_convex
    from .distillation import attach_teacher, distill, teach
    from .encoders import best_text_encoder
    from .encoding import encode_dataset
    from .fit import fit_labels
    from .general import general_scorer
    from .losses import GileLoss
    from .pretrained import add_pooled_embeds, parameter_groups
    from .starting import (
        latent_word_vectors,
        model_from_text_encoder,
        processor_from_text_encoder,
        set_lexical_weights,
        set_word_vectors,
    )

__all__ = [
    "EpochCallback",
    "GileDataCollator",
    "GileLoss",
    "LabelSampler",
    "add_pooled_embeds",
    "attach_teacher",
    "best_text_encoder",
    "calibrate",
    "distill",
    "encode_dataset",
    "fit_convex",
    "fit_labels",
    "general_scorer",
    "latent_word_vectors",
    "model_from_text_encoder",
    "parameter_groups",
    "processor_from_text_encoder",
    "set_lexical_weights",
    "set_word_vectors",
    "teach",
]

_MODULES = (
    "calibration",
    "collator",
    "distillation",
    "encoders",
    "encoding",
    "general",
    "losses",
    "starting",
    "convex",
    "pretrained",
    "fit",
)

import_on_demand(__name__, _MODULES)
