"""Scoring at scale: batches of columns in any engine, and runs that can be continued after an interruption."""

from .parts import Reading, ScoringRun, start_run
from .scorer import GileScorer
from .workers import number_of_workers, score_parts

__all__ = ["GileScorer", "Reading", "ScoringRun", "number_of_workers", "score_parts", "start_run"]
