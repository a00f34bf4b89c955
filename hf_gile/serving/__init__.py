"""Serves a model over HTTP, by the REST API of Annif."""

from .guard import Connection, Limits
from .learning import Correction, Learner
from .messages import Project, Suggestion, describe
from .service import make_app
from .suggesting import Suggester, Wanted

__all__ = [
    "Connection",
    "Correction",
    "Learner",
    "Limits",
    "Project",
    "Suggester",
    "Suggestion",
    "Wanted",
    "describe",
    "make_app",
]
