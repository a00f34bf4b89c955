"""The report of a run is a single file for a browser."""

import re

import pytest
import torch

from hf_gile import LabelSet
from hf_gile.publishing import Report
from hf_gile.publishing.run_report import PAGE_FILE, Mistake, Run, worst_mistakes, write_page

pytest.importorskip("jinja2")

LABELS = LabelSet.from_names(["<Heart>", "Milk", "Iron"])
BINS = [{"probability": 0.25, "frequency": 0.5, "count": 20}, {"probability": 0.75, "frequency": 0.9, "count": 19}]
RUN = Run(
    title="Records & notes",
    said=["chosen: <words>, since 3 > 2"],
    table={"svm": {"accuracy": 0.5, "micro f1": 0.75}, "auto": {"accuracy": 0.625}},
    curves={"training loss": [(5, 3.0), (10, 2.0)], "validation AvgPr": [(5, 0.5)]},
    next_steps=["Add documents to Milk"],
)


def figures(label_id, f1, support):
    return {"id": label_id, "count": 3, "support": support, "precision": None, "recall": f1, "f1": f1}


REPORT = Report(
    metrics={},
    labels=[figures("<Heart>", 1.0, 5), figures("Milk", 0.25, 4), figures("Iron", None, 0)],
    reliability={"seen": {"before": BINS, "after": BINS}},
    documents=9,
)


@pytest.fixture
def page(tmp_path):
    mistakes = [Mistake("<script>alert(1)</script> " * 40, ["Milk"], "<Heart>", 0.75, 0.25, ["<b>beats</b>"])]
    write_page(tmp_path, RUN, REPORT, LABELS, mistakes)
    return (tmp_path / PAGE_FILE).read_text(encoding="utf-8")


def test_all_texts_are_escaped(page):
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;Heart&gt;" in page
    assert "&lt;b&gt;beats" in page
    assert "Records &amp; notes" in page
    assert not re.search("<script|<Heart|<b>beats", page)


def test_the_page_loads_nothing(page):
    assert re.findall(r"https?:|url\(|@import|<link(?! rel=\"icon\" href=\"data:,\")|src=", page) == []
    assert "default-src 'none'" in page
    assert len(page) < 10_000


def test_labels_with_test_documents_are_ordered_from_the_worst(page):
    labels = page.split("<h2>Labels</h2>")[1].split("<h2>")[0]
    assert labels.index("Milk") < labels.index("&lt;Heart&gt;")
    assert "Iron" not in labels
    assert "width: 25.0%" in labels


def test_of_many_labels_the_most_frequent_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_gile.publishing.run_report._MOST_LABELS", 1)
    write_page(tmp_path, RUN, REPORT, LABELS, [])
    page = (tmp_path / PAGE_FILE).read_text(encoding="utf-8")
    assert "the 1 most frequent of 2 labels" in page
    assert "&lt;Heart&gt;" in page
    assert "<td>Milk" not in page


def test_the_best_of_a_column_is_marked_and_missing_figures_are_dashes(page):
    rows = re.sub(r"\s+", " ", page.split("</tr>", 1)[1].split("</table>")[0])
    assert '<td class="number best">62.5</td> <td class="number">-</td>' in rows
    assert '<td class="number">50.0</td> <td class="number best">75.0</td>' in rows


def count_words(texts):
    """Scores three labels by the number of their words."""
    return torch.tensor([[float(text.count(word)) for word in ("heart", "milk", "iron")] for text in texts])


def test_mistakes_are_led_by_the_most_certain():
    texts = ["heart heart milk", "iron iron iron milk", "milk", "heart", "heart"]
    gold = [[1], [1], [1], [], [0]]

    def probabilities(positions):
        return count_words([texts[position] for position in positions]) / 3

    mistakes = worst_mistakes(probabilities, gold, [0, 1, 2], count_words, texts, LABELS, batch_size=2)
    assert [mistake.predicted for mistake in mistakes] == ["Iron", "<Heart>"]
    assert mistakes[0].evidence == ["iron"] * 3
    assert (mistakes[0].probability, mistakes[0].gold) == (1.0, ["Milk"])
    assert mistakes[0].gold_probability == pytest.approx(1 / 3)
    assert worst_mistakes(probabilities, gold, [0, 1], count_words, texts, LABELS)[0].predicted == "<Heart>"
