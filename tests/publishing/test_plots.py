"""Figures of model cards."""

import numpy as np
import pytest
import torch
from PIL import Image

from hf_gile import Label
from hf_gile.publishing import plots
from hf_gile.publishing.label_map import project, select_labels

BINS = [
    {"low": low, "high": low + 0.1, "probability": low + 0.05, "frequency": (low + 0.05) ** 2, "count": 100}
    for low in np.arange(0, 1, 0.1)
]
RELIABILITY = {"seen": {"before": BINS, "after": BINS}, "unseen": {"before": BINS[:3], "after": BINS[:3]}}
HISTORY = [
    row
    for epoch in (1.0, 2.0, 3.0)
    for row in (
        {"loss": 3 / epoch, "learning_rate": 1e-3, "epoch": epoch, "step": 10 * epoch},
        {"eval_loss": 4 / epoch, "eval_micro_f1": 0.2 * epoch, "eval_seen_micro_f1": 0.3, "epoch": epoch},
    )
]


def light(color):
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("color", [plots.GREY, plots.SEEN, plots.UNSEEN])
@pytest.mark.parametrize("page", ["#ffffff", "#0b0f19", "#0d1117"])
def test_colors_have_enough_contrast_on_light_and_dark_pages(color, page):
    lights = sorted((light(color), light(page)))
    assert (lights[1] + 0.05) / (lights[0] + 0.05) > 3.5  # minimum of WCAG for figures and large letters


def read(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGBA"))


def test_calibration_plots_are_small_and_transparent(tmp_path):
    assert plots.calibration_plot(RELIABILITY, tmp_path / "figures" / "calibration.png")
    path = tmp_path / "figures" / "calibration.png"
    pixels = read(path)
    assert path.stat().st_size < 100_000
    assert pixels[0, 0, 3] == 0
    assert pixels.shape[1] > 900  # sharp on wide pages
    assert [file.name for file in path.parent.iterdir()] == ["calibration.png"]


def test_bins_with_few_scores_are_not_drawn(tmp_path):
    few = [{**entry, "count": plots.MIN_SCORES - 1} for entry in BINS]
    assert not plots.calibration_plot({"seen": {"before": few}}, tmp_path / "calibration.png")
    assert not plots.calibration_plot({}, tmp_path / "calibration.png")
    assert list(tmp_path.iterdir()) == []


def test_both_groups_are_drawn_before_and_after_calibration(tmp_path):
    images = {}
    for name, reliability in {
        "single": {"seen": {"before": BINS}},
        "two": {"seen": RELIABILITY["seen"]},
        "three": RELIABILITY,
    }.items():
        plots.calibration_plot(reliability, tmp_path / name)
        images[name] = read(tmp_path / name)
    assert len({image.tobytes() for image in images.values()}) == 3
    assert images["three"].shape[1] > images["single"].shape[1]


def test_a_learning_curve_needs_at_least_two_points(tmp_path):
    assert plots.learning_curve(HISTORY, tmp_path / "curve.png")
    assert not plots.learning_curve(HISTORY[:2], tmp_path / "none.png")
    assert not plots.learning_curve([], tmp_path / "none.png")
    assert not plots.learning_curve([{"train_runtime": 3.0, "epoch": 1.0}] * 5, tmp_path / "none.png")
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


def test_a_learning_curve_without_epochs_is_drawn_by_steps(tmp_path):
    assert plots.learning_curve([{"loss": 1.0, "step": 1}, {"loss": 0.5, "step": 2}], tmp_path / "curve.png")


def test_evaluation_metrics_are_matched_for_any_dataset_name():
    series = {"eval_dev_unseen_average_precision": [], "eval_dev_average_precision": [], "eval_my_dev_loss": []}
    assert plots._evaluation_metric(series, "average_precision") == "eval_dev_average_precision"
    assert plots._evaluation_metric(series, "unseen_average_precision") == "eval_dev_unseen_average_precision"
    assert plots._evaluation_metric(series, "loss") == "eval_my_dev_loss"
    assert plots._evaluation_metric(series, "micro_f1") is None
    assert plots._evaluation_metric({"eval_seen_micro_f1": []}, "micro_f1") is None


def test_the_learning_curve_never_uses_the_test_set():
    # As written by recipes with --test_curve, with a final evaluation of validation documents for the threshold.
    series = {"eval_test_loss": [1, 1, 1], "eval_validation_loss": [1, 1, 1], "eval_loss": [1]}
    assert plots._evaluation_metric(series, "loss") == "eval_validation_loss"
    assert plots._evaluation_metric({"eval_validation_micro_f1": [1, 1], "eval_tuned_micro_f1": [1]}, "micro_f1") == (
        "eval_validation_micro_f1"
    )
    assert plots._evaluation_metric({"eval_test_loss": [1, 1]}, "loss") is None


def test_names_on_a_map_do_not_overlap(tmp_path):
    points = np.random.default_rng(0).normal(size=(211, 2)) * 0.01
    written = plots.label_map(
        points, [f"name {n}" for n in range(211)], [True, False] * 105 + [True], tmp_path / "map.png"
    )
    assert written[0] == "name 0"
    assert 1 < len(written) < 40
    both = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    assert plots.label_map(both, ["first", "second", "third"], [True] * 3, tmp_path / "map.png") == ["first", "third"]


def test_names_at_the_edge_stay_within_the_map(tmp_path):
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    names = [f"a long name of corner {n}" for n in range(4)]
    assert plots.label_map(corners, names, [True] * 4, tmp_path / "map.png") == names
    pixels = read(tmp_path / "map.png")
    assert pixels[:, [0, -1], 3].max() == 0
    assert pixels[[0, -1], :, 3].max() == 0


def test_names_without_glyphs_in_the_font_are_omitted(tmp_path):
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]])
    names = ["日本語", "لب", "$cost$ ^{x}", "Heart"]
    assert plots.label_map(points, names, [True] * 4, tmp_path / "map.png") == ["$cost$ ^{x}", "Heart"]


def test_a_map_of_many_labels_is_small(tmp_path):
    points = np.random.default_rng(0).normal(size=(1500, 2))
    seen = [n % 5 > 0 for n in range(1500)]
    plots.label_map(points, [f"Label number {n}" for n in range(1500)], seen, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size < 100_000


@pytest.mark.parametrize("number", [3, 29, 37])
def test_label_positions_are_reproducible(number):
    codes = torch.randn(number, 13, generator=torch.Generator().manual_seed(0))
    first, made_by = project(codes)
    repeated, _ = project(codes)
    assert first.shape == (number, 2)
    assert np.array_equal(first, repeated)
    assert np.isfinite(first).all()
    assert made_by == ("PCA" if number < 30 else "PCA, then t-SNE")


def test_labels_with_similar_codes_are_close():
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(3, 11, generator=generator) * 5
    codes = (centers[:, None] + torch.randn(3, 17, 11, generator=generator) * 0.1).flatten(0, 1)
    points, _ = project(codes)
    groups = points.reshape(3, 17, 2)
    middles = groups.mean(axis=1)
    spread = np.linalg.norm(groups - middles[:, None], axis=-1).max()
    apart = min(np.linalg.norm(middles[a] - middles[b]) for a, b in [(0, 1), (0, 2), (1, 2)])
    assert apart > 2 * spread


def test_the_length_of_a_code_does_not_change_its_position():
    codes = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    assert np.allclose(project(codes)[0], project(codes * torch.arange(1.0, 8.0)[:, None])[0])


@pytest.mark.parametrize("codes", [torch.zeros(31, 5), torch.ones(5, 1), torch.zeros(3, 2)])
def test_identical_codes_have_finite_positions(codes):
    assert np.isfinite(project(codes)[0]).all()


def test_a_map_needs_at_least_three_labels():
    with pytest.raises(ValueError, match="at least 3 labels, got 2"):
        project(torch.zeros(2, 5))


def test_a_map_shows_labels_of_every_frequency_and_unseen_labels():
    labels = [Label(f"L{n:03}", f"name {n}", seen=n < 400, count=max(0, 400 - n)) for n in range(500)]
    chosen = select_labels(labels, max_labels=40)
    assert len(chosen) == len(set(chosen)) == 40
    assert sum(labels[index].seen for index in chosen) == 30
    assert min(chosen) == 0
    assert max(index for index in chosen if index < 400) > 350
    reversed_labels = labels[::-1]
    assert {reversed_labels[index].id for index in select_labels(reversed_labels, max_labels=40)} == {
        labels[index].id for index in chosen
    }
    assert select_labels(labels[:11], max_labels=11) == list(range(11))
    assert len(select_labels(labels[:3] + labels[400:], max_labels=40)) == 40
