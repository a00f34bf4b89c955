"""What the stock `Trainer` needs beside a model: encoded datasets, a collator, label sampling."""

from .collator import GileDataCollator
from .encoding import encode_dataset
from .label_sampling import EpochCallback, LabelSampler
from .multilingual import MultilingualDataset
from .thresholds import ThresholdTuner, paper_threshold, tune_threshold

__all__ = [
    "EpochCallback",
    "GileDataCollator",
    "LabelSampler",
    "MultilingualDataset",
    "ThresholdTuner",
    "encode_dataset",
    "paper_threshold",
    "tune_threshold",
]
