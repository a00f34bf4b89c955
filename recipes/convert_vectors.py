r"""Convert word vectors in published pickles or binary word2vec to `.npz`, which `load_word_vectors` reads.

    python recipes/convert_vectors.py english.pkl.gz english.npz
    python recipes/convert_vectors.py GoogleNews-vectors-negative300.bin.gz news.npz --max_words 400000
    hf-gile train --train_files notes.csv --text_encoder words --word_vectors english.npz

`papers/pickled_vectors.py` and `papers/binary_vectors.py` describe the formats. Nothing in a pickle is executed.
"""

import argparse

import numpy as np
from papers.binary_vectors import load_binary_vectors
from papers.pickled_vectors import load_pickled_vectors

from hf_gile.writing import whole_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", help="File of words and vectors, .pkl or .bin, compressed or not.")
    parser.add_argument("npz", help="File to write.")
    parser.add_argument("--max_words", type=int, help="Number of words to convert, from the start of a .bin file.")
    arguments = parser.parse_args()
    if arguments.vectors.lower().endswith((".bin", ".bin.gz")):
        table = load_binary_vectors(arguments.vectors, arguments.max_words)
    else:
        table = load_pickled_vectors(arguments.vectors)
    with whole_file(arguments.npz) as temporary, temporary.open("wb") as file:
        np.savez(file, words=table.words, vectors=table.vectors)
    print(f"{len(table.words):,} words, {table.vectors.shape[1]} numbers each: {arguments.npz}")


if __name__ == "__main__":
    main()
