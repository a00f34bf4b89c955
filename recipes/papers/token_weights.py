"""Initial weights of the tokens of a bag (`config.bag_size`)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hf_gile.models import Scorer, get_towers


def log_idf(
    documents: Iterable[Sequence[Any]], vocab_size: int, special_ids: Iterable[int] = ()
) -> NDArray[np.float32]:
    """Computes logarithms of inverse document frequencies of tokens, for `set_token_weights`.

        log(log((1 + N) / (1 + df)) + 1)

    Args:
        documents: Token ids of N documents, or of their windows, from `GileProcessor`.
        vocab_size: Number of tokens of the model, `config.text_config.vocab_size`.
        special_ids: Ignored tokens, such as `tokenizer.all_special_ids`, including padding.

    Returns:
        `(vocab_size,)` numbers: 0 for tokens in all documents, and minus infinity for special tokens.

    Raises:
        ValueError: If there are no documents, or a token id is out of range.

    Example:
        >>> log_idf([[3, 2], [2, 2, 1]], vocab_size=4, special_ids=[0]).round(2)
        array([-inf, 0.34, 0.  , 0.34], dtype=float32)
    """
    number = 0
    counts = np.zeros(vocab_size, np.int64)
    for document in documents:
        number += 1
        windows = document if len(document) and not np.isscalar(document[0]) else [document]
        tokens = np.unique(np.concatenate([np.asarray(window, np.int64) for window in windows]))
        if len(tokens) and not 0 <= tokens[0] <= tokens[-1] < vocab_size:
            wrong = tokens[0] if tokens[0] < 0 else tokens[-1]
            raise ValueError(f"document {number - 1} has the token {wrong}, but vocab_size is {vocab_size}")
        counts[tokens] += 1
    if number == 0:
        raise ValueError("documents is empty: token weights need training documents")
    weights = np.log(np.log((1 + number) / (1 + counts)) + 1)
    weights[list(special_ids)] = -np.inf
    return weights.astype(np.float32)


@torch.no_grad()
def set_token_weights(model: Scorer, log_weights: Tensor | ArrayLike) -> None:
    """Sets initial token weights of the bag, such as `log_idf`.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification` with a `bag_size`.
        log_weights: `(vocab_size,)` natural logarithms of the weights; minus infinity (stored as -20) for ignored
            tokens.

    Raises:
        ValueError: If the model has no bag, or weights have a wrong shape or contain NaN.
    """
    bag = get_towers(model).bag
    if bag is None:
        raise ValueError("token weights need a bag, but config.bag_size is 0")
    numbers = torch.as_tensor(log_weights, dtype=torch.float32)
    size = model.config.text_config.vocab_size
    if numbers.shape != (size,) or bool((numbers.isnan() | numbers.isposinf()).any()):
        raise ValueError(f"log_weights must be ({size},) finite numbers or -inf, got {tuple(numbers.shape)}")
    bag.log_weights.weight.copy_(numbers.clamp(min=-20)[:, None])
