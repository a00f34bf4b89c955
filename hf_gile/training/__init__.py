"""What the stock `Trainer` needs beside a model: encoded datasets, a collator, label sampling, hard negatives."""

from .collator import GileDataCollator
from .encoding import encode_dataset
from .hard_negatives import HardNegatives
from .label_sampling import EpochCallback, LabelSampler
from .multilingual import MultilingualDataset
from .thresholds import ThresholdTuner, paper_threshold, tune_threshold

__all__ = [
    "EpochCallback",
    "GileDataCollator",
    "HardNegatives",
    "LabelSampler",
    "MultilingualDataset",
    "ThresholdTuner",
    "encode_dataset",
    "paper_threshold",
    "tune_threshold",
]
