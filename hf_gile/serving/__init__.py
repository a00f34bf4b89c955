"""Serves a model over HTTP, by the REST API of Annif."""

from .guard import Connection, Limits
from .learning import Correction, Learner
from .messages import Project, Question, Suggestion, describe
from .service import make_app
from .suggesting import Suggester

__all__ = [
    "Connection",
    "Correction",
    "Learner",
    "Limits",
    "Project",
    "Question",
    "Suggester",
    "Suggestion",
    "describe",
    "make_app",
]
