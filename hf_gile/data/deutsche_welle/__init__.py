"""News of Deutsche Welle: the published word ids, and the way to them from the published lists of addresses."""

from .crawl import CrawlSummary, crawl_dw
from .ids import LOW_RESOURCE_LEVELS, DWCorpus, JointCorpus, load_dw, low_resource
from .pages import DWArticle, parse_dw_page
from .texts import DWTexts, load_dw_pages, write_dw

__all__ = [
    "LOW_RESOURCE_LEVELS",
    "CrawlSummary",
    "DWArticle",
    "DWCorpus",
    "DWTexts",
    "JointCorpus",
    "crawl_dw",
    "load_dw",
    "load_dw_pages",
    "low_resource",
    "parse_dw_page",
    "write_dw",
]
