"""Scores texts on a cluster of Ray: each actor loads the model, and Ray Data distributes the rows.

    python recipes/score_ray.py MODEL texts/ --text title abstract --output scored/ --actors 8 [--gpus 1]

Reads Parquet, or lines of JSON with `--format json`, and writes Parquet: the input columns, and `labels`,
`scores` and `note`. MODEL, texts and output must be on a disk shared by all machines; texts and output may also be in a
bucket. Runs on the cluster at the address in RAY_ADDRESS, or else on this machine. Ray restarts failed actors, and
scores their rows again.
"""

import argparse
from typing import Any

from hf_gile.extras import needs_extra
from hf_gile.scoring import GileScorer

with needs_extra("ray", "scoring on Ray"):
    import ray
    from ray.data import ActorPoolStrategy, Dataset

BATCH_SIZE = 4096  # rows, which the scorer sorts by length


def add_scores(rows: Dataset, model: str, actors: int, gpus: float = 0, **options: Any) -> Dataset:
    """Adds the columns of `GileScorer` to a dataset; Ray computes them when rows are read.

    Args:
        rows: Rows with the columns of the text.
        model: The folder of a model.
        actors: Number of actors; each takes a core and loads the model. The cluster needs more cores than actors.
        gpus: Number of GPUs per actor; may be fractional.
        options: Options of `GileScorer`.

    Raises:
        ValueError: If actors would take all cores: Ray would wait forever for a core for reading and writing.
    """
    cores = ray.cluster_resources().get("CPU", 0)
    if actors >= cores:
        raise ValueError(
            f"{actors} actors take all {cores:g} cores of the cluster: leave at least one for reading and writing"
        )
    return rows.map_batches(
        GileScorer,
        fn_constructor_args=(model,),
        fn_constructor_kwargs=options,
        batch_size=BATCH_SIZE,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=actors),
        num_cpus=1,
        num_gpus=gpus,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("texts", nargs="+", help="files or folders with texts")
    parser.add_argument("--output", required=True, help="output folder")
    parser.add_argument("--format", choices=["parquet", "json"], default="parquet")
    parser.add_argument("--text", nargs="+", default=["text"], help="columns of the text")
    parser.add_argument("--actors", type=int, default=1, help="number of actors, fewer than the cores of the cluster")
    parser.add_argument("--gpus", type=float, default=0, help="number of GPUs per actor, which may be fractional")
    parser.add_argument("--top_k", type=int, default=10)
    options = parser.parse_args()
    rows = {"parquet": ray.data.read_parquet, "json": ray.data.read_json}[options.format](options.texts)
    scores = add_scores(rows, options.model, options.actors, options.gpus, text=options.text, top_k=options.top_k)
    scores.write_parquet(options.output)


if __name__ == "__main__":
    main()
