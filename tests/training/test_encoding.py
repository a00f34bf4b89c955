"""Documents are encoded in batches of similar length, and a long phase is announced."""

import numpy as np
import pytest

from hf_gile.training import encoding
from hf_gile.training.encoding import Progress, batches_by_length


def test_batches_have_documents_of_similar_length_in_random_order():
    lengths = np.random.default_rng(0).permutation(101).tolist()
    batches = list(batches_by_length(lengths, 7))
    assert sorted(row for rows in batches for row in rows) == list(range(101))
    spans = [sorted(lengths[row] for row in rows) for rows in batches]
    assert all(span[-1] - span[0] == len(span) - 1 for span in spans)
    starts = [span[0] for span in spans]
    assert starts != sorted(starts)
    assert list(batches_by_length([], 7)) == []


@pytest.mark.parametrize(
    ("total", "is_even", "line"),
    [
        (23_260, True, "  reading: about 14 minutes: 23,260 documents at 27 a second\n"),
        (1_800, True, "  reading: about 1 minute: 1,800 documents at 27 a second\n"),
        (135, True, ""),
        (23_260, False, ""),
    ],
)
def test_a_long_phase_of_even_steps_says_how_long_it_takes(monkeypatch, capsys, total, is_even, line):
    clock = iter([0.0, 1.0, 4.0, 5.0])
    monkeypatch.setattr(encoding.time, "perf_counter", lambda: next(clock))
    progress = Progress("reading", total, is_even=is_even)
    progress.count(27)
    progress.count(81)
    progress.count(27)
    assert capsys.readouterr().out == line
