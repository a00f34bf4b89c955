"""Serves a model over HTTP, by the REST API of Annif."""

from .guard import Connection, Limits
from .messages import Project, Suggestion, describe
from .service import make_app, suggest_with

__all__ = ["Connection", "Limits", "Project", "Suggestion", "describe", "make_app", "suggest_with"]
