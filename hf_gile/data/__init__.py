"""Readers of the data that hf_gile trains on, one source per file."""

from .bioasq import read_bioasq
from .deutsche_welle import LOW_RESOURCE_LEVELS, DWCorpus, JointCorpus, load_dw, low_resource
from .medline import demo_file, read_medline
from .records import load_records, read_records
from .report import ReadReport
from .schema import Record
from .word_vectors import WordVectors, load_word_vectors
from .zero_shot import ZeroShotSplit, held_out_labels, split_of, zero_shot_split

__all__ = [
    "LOW_RESOURCE_LEVELS",
    "DWCorpus",
    "JointCorpus",
    "ReadReport",
    "Record",
    "WordVectors",
    "ZeroShotSplit",
    "demo_file",
    "held_out_labels",
    "load_dw",
    "load_records",
    "load_word_vectors",
    "low_resource",
    "read_bioasq",
    "read_medline",
    "read_records",
    "split_of",
    "zero_shot_split",
]
