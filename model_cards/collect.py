"""Copies the card of a trained model, its figure and the sums of its files to this folder, and no data.

python model_cards/collect.py runs/bioasq/gile/model gile-medline
"""

import argparse
import shutil
from pathlib import Path

from hf_gile.publishing.card import FIGURE, LABEL_TABLE

SUMS = "SHA256SUMS"
"""File with the hashes of a model, which recipes/models_to_try.py writes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a saved model, with its card")
    parser.add_argument("name", help="folder to make beside this file")
    given = parser.parse_args()
    target = Path(__file__).parent / given.name
    shutil.rmtree(target / "figures", ignore_errors=True)
    (target / "figures").mkdir(parents=True)
    card = (given.model / "README.md").read_text(encoding="utf-8")
    # The table of all labels is data of others: it goes with the weights, not with this project.
    card = card.replace(f"[{LABEL_TABLE}]({LABEL_TABLE})", f"`{LABEL_TABLE}`, beside the weights")
    (target / "README.md").write_text(card, encoding="utf-8")
    if f"]({FIGURE})" in card:
        shutil.copy(given.model / FIGURE, target / FIGURE)
    if (given.model / SUMS).is_file():
        shutil.copy(given.model / SUMS, target / SUMS)


if __name__ == "__main__":
    main()
