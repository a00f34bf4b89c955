"""Convex fits of the head over a frozen encoder."""

from .fitting import LearnWords, can_be_fitted, fit_convex, is_feasible, refit_convex
from .head import READ_OF_MANY, ConvexFit, Head, Regularisation, fit_head

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
