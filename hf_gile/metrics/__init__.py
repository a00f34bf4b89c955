"""Streaming multi-label metrics equal to scikit-learn, in memory below documents x labels; translation metrics."""

from .calibration import CalibrationMetrics
from .classification import F1Metrics
from .evaluation import evaluate_index
from .frequency import decile_figures, propensities
from .hierarchy import HierarchicalMetrics
from .label_metrics import LabelMetrics
from .ranking import RankingMetrics, ranking_metrics
from .translation import compare_translations, word_f1_by_frequency

__all__ = [
    "CalibrationMetrics",
    "F1Metrics",
    "HierarchicalMetrics",
    "LabelMetrics",
    "RankingMetrics",
    "compare_translations",
    "decile_figures",
    "evaluate_index",
    "propensities",
    "ranking_metrics",
    "word_f1_by_frequency",
]
