"""Scores synthetic rows with two Ray actors, kills an actor, and prints which processes scored.

python on_ray.py MODEL FOLDER
"""

import json
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

    score_ray.GileScorer = Mortal
    ray.init(num_cpus=3, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
    (folder / "texts").mkdir()
    for start in range(0, ROWS, 10):
        lines = [json.dumps({"id": number, "body": TEXTS[number % 3]}) for number in range(start, start + 10)]
        (folder / "texts" / f"{start}.jsonl").write_text("\n".join(lines))
    words = [model, str(folder / "texts"), "--format", "json", "--text", "body", "--actors", "2", "--top_k", "2"]
    sys.argv = ["score_ray.py", *words, "--output", str(folder / "scored")]
    score_ray.main()


if __name__ == "__main__":
    main()
