"""Random scores and gold labels, as the metrics take them."""

import numpy as np

FEW = np.array([-3.0, -0.0, 0.0, 0.5, 4.0])


def batch(seed, documents=23, num_labels=17, ties=True, gold_share=0.3):
    random = np.random.default_rng(seed)
    shape = (documents, num_labels)
    scores = random.choice(FEW, shape) if ties else random.normal(size=shape)
    return scores, random.random(shape) < gold_share


def sparse(gold, seed=0):
    """Returns shuffled columns with padding at random positions."""
    random = np.random.default_rng(seed)
    width = int(gold.sum(axis=1).max()) + 3
    columns = np.full((len(gold), width), -100)
    for row, chosen in zip(columns, gold, strict=True):
        row[random.permutation(width)[: chosen.sum()]] = random.permutation(chosen.nonzero()[0])
    return columns
