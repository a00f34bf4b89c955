"""Publishes models: evaluation reports, model cards, saving with all parts, and upload to the Hub."""

from .card import CardInfo, make_card, read_card_fields, write_card
from .folder import save
from .hub import PlannedFile, Publication, push_folder
from .report import Report, make_report

__all__ = [
    "CardInfo",
    "PlannedFile",
    "Publication",
    "Report",
    "make_card",
    "make_report",
    "push_folder",
    "read_card_fields",
    "save",
    "write_card",
]
