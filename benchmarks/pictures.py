"""Draws the pictures of the home page and other pages from results files: `python benchmarks/pictures.py`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from machine import RESULTS
from matplotlib import pyplot
from matplotlib.figure import Figure
from obvious import DESCRIBED, columns_of, compared, mean_of, members
from obvious_sets import LANGUAGES, NUMBERS
from obvious_systems import SYSTEMS

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"

OURS = "hf_gile"

Bars = dict[str, dict[str, float]]
"""Of each group of bars, the value in percent of each system."""

UNTRAINED = {
    "clinc150": "utterances, 150 intents",
    "sib200_english": "sentences, 7 topics",
    "pubmed_mesh": "MEDLINE abstracts, all headings",
    "pubmed_mesh, 40 headings": "MEDLINE abstracts, 40 headings",
    "tibkat_english": "library records",
}
"""Names of the sets of the general scorer."""


def home(results: Mapping[str, Any]) -> Bars:
    """Returns average precision of seen and unseen labels, beside the best other system of each."""
    bars: Bars = {}
    for family, sets in members(results["obvious"]).items():
        for group in ("seen AvgPr", "unseen AvgPr", "AvgPr"):
            both = family in DESCRIBED and compared(results["obvious"], sets, columns_of(family)[group])
            is_all = group == "AvgPr"
            if both and not (is_all and f"{DESCRIBED[family]}\nseen labels" in bars):
                name = DESCRIBED[family] + ("" if is_all else f"\n{group.split()[0]} labels")
                bars[name] = {OURS: both[0], "best other system": both[1]}
    return bars


def score(results: Mapping[str, Any]) -> Bars:
    """Returns average precision of the general scorer and of the cosine with label names."""
    (encoder, *_) = results["general_scorer"]["encoders"].values()
    return {
        UNTRAINED.get(name, name): {
            OURS: 100 * figures["centred"]["average_precision"],
            "cosine of MiniLM": 100 * figures["cosine"]["average_precision"],
        }
        for name, figures in encoder["sets"].items()
    }


def train(results: Mapping[str, Any]) -> Bars:
    """Returns the accuracy for 150 intents by the number of training texts of each."""
    systems = ("ours", "minilm_logistic", "tfidf_svc", "minilm_cosine")
    return {
        f"{number} of each label": _of_systems(results, f"few_clinc150_{number}", systems, "precision_at_1")
        for number in NUMBERS
    }


def thesaurus(results: Mapping[str, Any]) -> Bars:
    """Returns average precision of seen and unseen subjects of library records."""
    systems = ("ours", "parabel", "minilm_mixture", "tfidf_cosine")
    groups = {
        "with training records": "seen_average_precision",
        "without training records": "unseen_average_precision",
    }
    return {name: _of_systems(results, "tibkat_en", systems, figure) for name, figure in groups.items()}


def newsroom(results: Mapping[str, Any]) -> Bars:
    """Returns the accuracy for seven topics in eight languages."""
    systems = ("ours", "e5_logistic", "tfidf_svc")
    return {name: _of_systems(results, f"sib200_{name}", systems, "precision_at_1") for name in LANGUAGES}


def _of_systems(results: Mapping[str, Any], name: str, systems: tuple[str, ...], figure: str) -> dict[str, float]:
    means = {key: mean_of(results["obvious"][name].get(key, {}), figure) for key in systems}
    names = {key: OURS if key == "ours" else SYSTEMS[key].name for key in systems}
    return {names[key]: 100 * mean for key, mean in means.items() if mean is not None}


def speed(results: Mapping[str, Any]) -> Bars:
    """Returns the speed of systems, in documents a CPU second, and their average precision, on the first draw."""
    points: Bars = {}
    for key, name in SPEED_SYSTEMS.items():
        run = {"1": results["obvious"]["clinc150_unseen"][key]["1"]}
        points[name] = {"speed": mean_of(run, "documents_per_cpu_second") or 0.0}
        for group in GROUPS:
            value = mean_of(run, f"{group}_average_precision")
            if value is not None:
                points[name][group] = 100 * value
    return points


SPEED_SYSTEMS = {
    "ours": OURS,
    "static": f"{OURS}, --text_encoder static",
    "ours_words": f"{OURS}, --text_encoder words",
} | {key: SYSTEMS[key].name for key in ("minilm_logistic", "tfidf_svc", "chars_svc", "minilm_cosine", "tfidf_cosine")}
"""Names of the systems in the picture of speeds."""

GROUPS = {"seen": "100 intents with training texts", "unseen": "50 intents without"}
"""Groups of labels, and the titles of their panels in the picture of speeds."""

PICTURES = {
    home: "Average precision, percent",
    score: "Average precision without training, percent",
    train: "Correct of 150 intents after training on a few texts, percent",
    thesaurus: "Average precision of 26,000 subjects, percent",
    newsroom: "Correct of 7 topics, percent",
    speed: "Utterances: quality and speed",
}
"""Title of each picture, which is named after its function."""


def draw(name: str, title: str, bars: Bars) -> None:
    """Draws a picture, and stores its values in the file."""
    figure = draw_points(bars) if name == speed.__name__ else draw_bars(bars)
    figure.suptitle(title)
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=110, metadata={"Description": written(bars)})
    pyplot.close(figure)


def draw_points(points: Bars) -> Figure:
    """Draws a point for each system in a panel for each group of labels."""
    figure, axes = pyplot.subplots(1, len(GROUPS), figsize=(9, 4.5), layout="constrained")
    for axis, (group, title) in zip(axes, GROUPS.items(), strict=True):
        for row, (name, values) in enumerate(points.items()):
            shape = (
                {"marker": "os^"[row], "color": "#00796b"} if name.startswith(OURS) else {"marker": "PXDvd"[row - 3]}
            )
            axis.scatter(values["speed"], values.get(group, float("nan")), 60, label=name, **shape)
        axis.set_xscale("log")
        axis.grid(alpha=0.3)
        axis.set_title(title, fontsize=10)
    axes[0].set_ylabel("average precision, percent")
    figure.supxlabel("documents a CPU second", fontsize=10)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return figure


def draw_bars(bars: Bars) -> Figure:
    """Draws horizontal bars in groups."""
    systems = list(dict.fromkeys(system for group in bars.values() for system in group))
    height = 0.8 / len(systems)
    figure, axis = pyplot.subplots(figsize=(8, 0.8 + 0.22 * len(bars) * (len(systems) + 1)), layout="constrained")
    for row, system in enumerate(systems):
        places = [place + row * height for place, group in enumerate(bars.values()) if system in group]
        values = [group[system] for group in bars.values() if system in group]
        colour = "#00796b" if system == OURS else f"{0.6 + 0.1 * row:.1f}"
        drawn = axis.barh(places, values, height * 0.9, label=system, color=colour)
        axis.bar_label(drawn, fmt=" %.1f", fontsize=8)
    axis.set_yticks([place + 0.4 - height / 2 for place in range(len(bars))], list(bars))
    axis.invert_yaxis()
    axis.set_xlim(0, 105)
    axis.set_xticks([])
    axis.spines[["top", "right", "bottom"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def written(bars: Bars) -> str:
    """Returns the values of bars as a picture stores them."""
    return json.dumps({name: {key: round(value, 1) for key, value in group.items()} for name, group in bars.items()})


def read_results() -> dict[str, Any]:
    """Reads the results files that pictures are drawn from."""
    names = ("obvious", "general_scorer")
    return {name: json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in names}


def draw_all() -> None:
    """Draws all pictures."""
    results = read_results()
    for read, title in PICTURES.items():
        draw(read.__name__, title, read(results))


if __name__ == "__main__":
    draw_all()
