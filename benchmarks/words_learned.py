"""Measures how output layers learn words after training: rank and likelihood of 500 words unseen in training.

    python benchmarks/words_learned.py --data FOLDER

Runs recipes/new_words.py on the abstracts of pubmed_mesh and the English word vectors of dw_format. No setting was
chosen on the 500 words.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from machine import write_results

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "recipes"))

import new_words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that contains pubmed_mesh and dw_format")
    parser.add_argument("recipe", nargs="*", help="arguments for the recipe, after --")
    arguments = parser.parse_args()
    texts, vectors = arguments.data / "pubmed_mesh", arguments.data / "dw_format" / "word_vectors" / "english.pkl.gz"
    with tempfile.TemporaryDirectory() as folder:
        files = {"texts": texts / "train.jsonl.gz", "test": texts / "test.jsonl.gz", "word_vectors": vectors}
        flags = [word for name, path in files.items() for word in (f"--{name}", str(path))]
        options = new_words.parse([*flags, "--output_dir", folder, *arguments.recipe])
        started = time.process_time()
        results = new_words.run(options)
    skipped = {"texts", "test", "word_vectors", "output_dir", "choose", "seed"}
    setting = {name: value for name, value in vars(options).items() if name not in skipped}
    for figures in results["runs"].values():
        figures.pop("written", None)  # words of abstracts
    write_results(
        "new_words", {"setting": setting, "cpu_seconds": time.process_time() - started, **results}, options.seed
    )


if __name__ == "__main__":
    main()
