"""Draws the pictures of the home page and the tutorials from results files: `python benchmarks/pictures.py`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from machine import RESULTS
from matplotlib import pyplot
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


PICTURES = {
    home: "Average precision, percent",
    score: "Average precision without training, percent",
    train: "Correct of 150 intents after training on a few texts, percent",
    thesaurus: "Average precision of 26,000 subjects, percent",
    newsroom: "Correct of 7 topics, percent",
}
"""Title of each picture, which is named after its function."""


def draw(name: str, title: str, bars: Bars) -> None:
    """Draws horizontal bars in groups, and stores their values in the file."""
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
    axis.set_title(title)
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=110, metadata={"Description": written(bars)})
    pyplot.close(figure)


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
