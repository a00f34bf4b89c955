r"""Convert published pickles of word vectors to `.npz`, which `load_word_vectors` and `hf-gile train` read.

    python recipes/unpickle_vectors.py english.pkl.gz english.npz
    hf-gile train --train_files notes.csv --text_encoder words --word_vectors english.npz

`papers/pickled_vectors.py` describes the format. Nothing in the pickle is executed.
"""

import argparse

import numpy as np
from papers.pickled_vectors import load_pickled_vectors

from hf_gile.writing import whole_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pickle", help="File of pickled words and vectors.")
    parser.add_argument("npz", help="File to write.")
    arguments = parser.parse_args()
    table = load_pickled_vectors(arguments.pickle)
    with whole_file(arguments.npz) as temporary, temporary.open("wb") as file:
        np.savez(file, words=table.words, vectors=table.vectors)
    print(f"{len(table.words):,} words, {table.vectors.shape[1]} numbers each: {arguments.npz}")


if __name__ == "__main__":
    main()
