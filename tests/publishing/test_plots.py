"""Figures of model cards."""

import numpy as np
from PIL import Image

from hf_gile.publishing import plots

BINS = [
    {"low": low, "high": low + 0.1, "probability": low + 0.05, "frequency": (low + 0.05) ** 2, "count": 100}
    for low in np.arange(0, 1, 0.1)
]
RELIABILITY = {"seen": {"before": BINS, "after": BINS}, "unseen": {"before": BINS[:3], "after": BINS[:3]}}


def test_calibration_plots_are_small_and_transparent(tmp_path):
    assert plots.calibration_plot(RELIABILITY, tmp_path / "figures" / "calibration.png")
    path = tmp_path / "figures" / "calibration.png"
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGBA"))
    assert path.stat().st_size < 100_000
    assert pixels[0, 0, 3] == 0
    assert pixels.shape[1] > 900  # sharp on wide pages
    assert [file.name for file in path.parent.iterdir()] == ["calibration.png"]


def test_bins_with_few_scores_are_not_drawn(tmp_path):
    few = [{**entry, "count": plots.MIN_SCORES - 1} for entry in BINS]
    assert not plots.calibration_plot({"seen": {"before": few}}, tmp_path / "calibration.png")
    assert not plots.calibration_plot({}, tmp_path / "calibration.png")
    assert list(tmp_path.iterdir()) == []
