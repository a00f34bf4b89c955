"""What the stock `Trainer` needs beside a model: encoded datasets, a collator, label sampling, hard negatives."""

from .collator import GileDataCollator
from .encoding import encode_dataset
from .hard_negatives import HardNegatives
from .label_sampling import EpochCallback, LabelSampler
from .label_weights import class_balanced_weights, propensity_weights
from .multilingual import MultilingualDataset
from .paraphrases import LabelParaphrases
from .thresholds import ThresholdTuner, paper_threshold, tune_threshold

__all__ = [
    "EpochCallback",
    "GileDataCollator",
    "HardNegatives",
    "LabelParaphrases",
    "LabelSampler",
    "MultilingualDataset",
    "ThresholdTuner",
    "class_balanced_weights",
    "encode_dataset",
    "paper_threshold",
    "propensity_weights",
    "tune_threshold",
]
