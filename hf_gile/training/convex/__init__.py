"""Convex fits of the head over a frozen encoder."""

from .fitting import LearnWords, can_be_fitted, fit_convex, is_feasible, refit_convex
from .head import fit_head
from .stages import READ_OF_MANY, ConvexFit, Head, Regularisation

__all__ = [
    "READ_OF_MANY",
    "ConvexFit",
    "Head",
    "LearnWords",
    "Regularisation",
    "can_be_fitted",
    "fit_convex",
    "fit_head",
    "is_feasible",
    "refit_convex",
]
