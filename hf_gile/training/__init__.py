"""What the stock `Trainer` needs beside a model: encoded datasets, a collator, label sampling."""

from .collator import GileDataCollator
from .encoding import encode_dataset
from .label_sampling import EpochCallback, LabelSampler

__all__ = ["EpochCallback", "GileDataCollator", "LabelSampler", "encode_dataset"]
