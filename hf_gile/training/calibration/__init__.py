"""Calibration of probabilities and thresholds on held-out documents."""

from .fitting import Calibration, calibrate, fit, fit_promise
from .thresholds import ThresholdTuner, paper_threshold, tune_threshold

__all__ = [
    "Calibration",
    "ThresholdTuner",
    "calibrate",
    "fit",
    "fit_promise",
    "paper_threshold",
    "tune_threshold",
]
