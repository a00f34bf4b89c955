"""Calibration of probabilities and thresholds on held-out documents."""

from .calibrating import calibrate
from .fitting import Calibration, fit
from .thresholds import ThresholdTuner, paper_threshold, tune_threshold

__all__ = ["Calibration", "ThresholdTuner", "calibrate", "fit", "paper_threshold", "tune_threshold"]
