"""Streaming multi-label metrics equal to scikit-learn, in memory below documents x labels."""

from .calibration import CalibrationMetrics
from .classification import F1Metrics
from .label_metrics import LabelMetrics
from .ranking import RankingMetrics, propensities, ranking_metrics

__all__ = [
    "CalibrationMetrics",
    "F1Metrics",
    "LabelMetrics",
    "RankingMetrics",
    "propensities",
    "ranking_metrics",
]
