"""Scores synthetic rows with two Ray actors, kills an actor, and prints which processes scored.

python on_ray.py MODEL FOLDER
"""

import os
import signal
import sys
from pathlib import Path

from hf_gile.scoring import GileScorer

TEXTS = ["Rats were fed a diet low in iron.", "The failing heart pumps less blood.", "Breast milk for infants."]
ROWS = 60


def main():
    sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))
    import ray
    import score_ray

    model, folder = sys.argv[1], Path(sys.argv[2])
    killed = folder / "killed"

    class Mortal(GileScorer):
        def __call__(self, batch):
            (folder / f"{os.getpid()}.actor").touch()
            if 31 in batch["id"].to_pylist() and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    score_ray.GileScorer, score_ray.ROWS = Mortal, 5
    ray.init(num_cpus=3, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
    rows = ray.data.from_items([{"id": number, "text": TEXTS[number % 3]} for number in range(ROWS)])
    try:
        score_ray.add_scores(rows, model, 3)
    except ValueError as error:
        assert "leave at least one for reading and writing" in str(error), error  # noqa: PT017
    else:
        raise AssertionError("actors that take all cores were not refused")
    score_ray.add_scores(rows.repartition(6), model, 2, top_k=2).write_parquet(str(folder / "scored"))
    # The unchanged recipe, with Ray already running.
    (folder / "texts.jsonl").write_text('{"title": "Rats.", "body": "Iron."}\n{"title": "Milk.", "body": null}\n')
    score_ray.GileScorer = GileScorer
    words = [model, str(folder / "texts.jsonl"), "--format", "json", "--text", "title", "body", "--actors", "1"]
    sys.argv = ["score_ray.py", *words, "--output", str(folder / "by_recipe")]
    score_ray.main()


if __name__ == "__main__":
    main()
