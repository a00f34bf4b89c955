"""Serves a model over HTTP, by the REST API of Annif."""

from .guard import Connection, Limits
from .learning import Learner
from .messages import Project, Suggestion, describe
from .service import make_app
from .suggesting import Suggester

__all__ = ["Connection", "Learner", "Limits", "Project", "Suggester", "Suggestion", "describe", "make_app"]
