"""Scores texts on a cluster of Ray: each actor holds the model, and Ray Data shares the rows among them.

    python recipes/score_ray.py MODEL texts/ --text title abstract --output scored/ --actors 8 [--gpus 1]

Reads Parquet, or lines of JSON with `--format json`, and writes Parquet: the columns that were read, and `labels`,
`scores` and `note`. MODEL, texts and output are on a disk that all machines see (or texts and output in a bucket).
With the address of a cluster in RAY_ADDRESS it runs there, else on this machine. Ray starts an actor again that has
died, and its rows are scored again.
"""

import argparse
from typing import Any

from hf_gile.extras import needs_extra
from hf_gile.scoring import GileScorer

with needs_extra("ray", "scoring on Ray"):
    import ray
    from ray.data import ActorPoolStrategy, Dataset

ROWS = 4096  # of a batch, which the scorer sorts by length


def scored(rows: Dataset, model: str, actors: int, gpus: float = 0, **options: Any) -> Dataset:
    """Adds the columns of `GileScorer` to rows; Ray runs it when they are read.

    Args:
        rows: With the columns of the text.
        model: The folder of a model.
        actors: Number of actors; each takes a core, and holds the model. The cluster needs more cores than that.
        gpus: What each takes of a GPU.
        options: Those of `GileScorer`.

    Raises:
        ValueError: The actors would take all cores, and Ray would wait forever for one to read and write with.
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
        batch_size=ROWS,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=actors),
        num_cpus=1,
        num_gpus=gpus,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("texts", nargs="+", help="files or folders")
    parser.add_argument("--output", required=True, help="folder of the parts")
    parser.add_argument("--format", choices=["parquet", "json"], default="parquet")
    parser.add_argument("--text", nargs="+", default=["text"], help="columns")
    parser.add_argument("--actors", type=int, default=1, help="fewer than the cluster has cores")
    parser.add_argument("--gpus", type=float, default=0, help="of each actor")
    parser.add_argument("--top_k", type=int, default=10)
    options = parser.parse_args()
    rows = {"parquet": ray.data.read_parquet, "json": ray.data.read_json}[options.format](options.texts)
    scores = scored(rows, options.model, options.actors, options.gpus, text=options.text, top_k=options.top_k)
    scores.write_parquet(options.output)


if __name__ == "__main__":
    main()
