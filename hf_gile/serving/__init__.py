"""Serves a model over HTTP, by the REST API of Annif."""

from .service import Limits, Project, Suggestion, describe, make_app, suggest_with

__all__ = ["Limits", "Project", "Suggestion", "describe", "make_app", "suggest_with"]
