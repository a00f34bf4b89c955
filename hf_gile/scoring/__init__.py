"""Scoring on a large scale: batches of columns in any engine, and folders of parts that a kill does not spoil."""

from .parts import Reading, ScoringRun, start_run
from .scorer import GileScorer
from .workers import number_of_workers, score_parts

__all__ = ["GileScorer", "Reading", "ScoringRun", "number_of_workers", "score_parts", "start_run"]
