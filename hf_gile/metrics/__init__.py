"""Streaming multi-label metrics equal to scikit-learn, in memory below documents x labels."""

from .calibration import CalibrationMetrics
from .classification import F1Metrics
from .evaluation import evaluate_index
from .label_metrics import LabelMetrics
from .ranking import RankingMetrics, propensities, ranking_metrics

__all__ = [
    "CalibrationMetrics",
    "F1Metrics",
    "LabelMetrics",
    "RankingMetrics",
    "evaluate_index",
    "propensities",
    "ranking_metrics",
]
