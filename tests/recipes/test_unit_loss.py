"""Options of the loss of units that no model supports are refused; other tests are in tests/models."""

import pytest
from papers.unit_loss import UnitLoss

from hf_gile import GileConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refresh_steps": -1}, "refresh_steps must not be negative, got -1"),
        ({"row_dropout": 1}, "row_dropout must be at least 0 and below 1, got 1"),
        ({"refresh_steps": 2}, "refresh_steps needs labels read by a pretrained encoder, .* got 'mean'"),
        ({"row_dropout": 0.5}, "row_dropout needs config.label_rows"),
    ],
    ids=str,
)
def test_unsupported_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UnitLoss(**options).check_fits(GileConfig(vocab_size=11))
