"""Calibration of probabilities and thresholds on held-out documents."""

from .calibrating import calibrate
from .fitting import Calibration, fit
from .thresholds import ThresholdTuner

__all__ = ["Calibration", "ThresholdTuner", "calibrate", "fit"]
