"""Probabilities and thresholds that documents held out of training confirm."""

from .fitting import Calibration, calibrate, fit, fit_promise
from .thresholds import ThresholdTuner, paper_threshold, tune_threshold
from .unseen import fit_unseen_weights

__all__ = [
    "Calibration",
    "ThresholdTuner",
    "calibrate",
    "fit",
    "fit_promise",
    "fit_unseen_weights",
    "paper_threshold",
    "tune_threshold",
]
