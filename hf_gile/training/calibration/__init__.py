"""Calibration of probabilities and thresholds on held-out documents."""

from .calibrating import calibrate
from .fitting import Calibration, fit

__all__ = ["Calibration", "calibrate", "fit"]
