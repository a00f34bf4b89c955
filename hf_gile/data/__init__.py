"""Readers of the data that hf_gile trains on, one source per file."""

from .bioasq import read_bioasq
from .medline import demo_file, read_medline
from .records import load_records, read_records
from .report import ReadReport
from .schema import Record
from .zero_shot import ZeroShotSplit, held_out_labels, split_of, zero_shot_split

__all__ = [
    "ReadReport",
    "Record",
    "ZeroShotSplit",
    "demo_file",
    "held_out_labels",
    "load_records",
    "read_bioasq",
    "read_medline",
    "read_records",
    "split_of",
    "zero_shot_split",
]
