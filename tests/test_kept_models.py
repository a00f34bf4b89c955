"""Benchmarks of stored models, on a tiny model."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import shortlist


def test_shortlists_are_measured_for_each_group():
    scores = torch.arange(60.0).expand(2, 60)
    found = shortlist.of_lists(lambda rows: scores[rows], [[59, 0], [45]], num_seen=50)
    assert found == {
        "all_10": 0.25,
        "all_20": 0.75,
        "all_50": 0.75,
        "seen_10": 0.0,
        "seen_20": 0.5,
        "seen_50": 0.5,
        "unseen_10": 1.0,
        "unseen_20": 1.0,
        "unseen_50": 1.0,
    }
