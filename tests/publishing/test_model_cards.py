"""The model cards in model_cards/."""

import ast
import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from PIL import Image

FOLDER = Path(__file__).parents[2] / "model_cards"
CARDS = sorted(path for path in FOLDER.glob("*/README.md"))


def test_the_list_of_cards_is_complete():
    linked = re.findall(r"\]\(([\w./-]+/README\.md)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert linked
    assert {FOLDER / link for link in linked} == set(CARDS)


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.parent.name)
def test_a_card_has_metrics_and_no_third_party_files(path):
    card = ModelCard.load(path)
    assert card.data.library_name == "transformers"
    assert "gile" in card.data.tags
    assert card.data.eval_results
    assert all(0 <= result.metric_value <= 1 for result in card.data.eval_results)
    figures = set(re.findall(r"\]\((figures/\w+\.png)\)", card.text))
    assert {figure.relative_to(path.parent).as_posix() for figure in path.parent.rglob("*.png")} == figures
    for figure in figures:
        with Image.open(path.parent / figure) as image:
            image.verify()
    names = {file.name for file in path.parent.rglob("*") if file.suffix not in (".md", ".png") and file.is_file()}
    assert names <= {"card.yaml", "SHA256SUMS"}
    assert not re.search(r"\]\((?!https?://|figures/)", card.text)
    assert "/tmp/" not in card.text
    for code in re.findall(r"```python\n(.*?)```", card.text, re.DOTALL):
        ast.parse(code)
