"""The adapters of benchmarks/leaderboards.py fit the packages of the leaderboards, where these are installed."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from leaderboards import Scorer  # noqa: E402

TEXTS = ["Infants were fed with milk.", "A short text", "The heart of a rat, and its milk, for a longer text"]
LABELS = ["milk", "heart", "milk", "rats", "infant"]


@pytest.fixture
def scorer(make_model):
    return Scorer(*make_model())


def test_scores_do_not_depend_on_the_order_of_texts_and_labels(scorer):
    scores = scorer(TEXTS, LABELS, batch_size=2)
    assert scores.shape == (3, 5)
    assert scores[:, 0].equal(scores[:, 2])  # the same name
    turned = scorer(TEXTS[::-1], LABELS[::-1], batch_size=3)
    assert torch.allclose(scores, turned.flip(0, 1), atol=1e-5)
