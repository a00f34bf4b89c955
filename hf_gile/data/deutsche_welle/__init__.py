"""News of Deutsche Welle: reads the published word ids, and recreates them from the published lists of addresses."""

from .crawl import crawl_dw
from .ids import LOW_RESOURCE_LEVELS, DWCorpus, JointCorpus, load_dw, low_resource, write_dw
from .pages import load_dw_pages

__all__ = [
    "LOW_RESOURCE_LEVELS",
    "DWCorpus",
    "JointCorpus",
    "crawl_dw",
    "load_dw",
    "load_dw_pages",
    "low_resource",
    "write_dw",
]
