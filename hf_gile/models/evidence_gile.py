"""Where a model looked: the words of a text as they are written there, with the weights that attention gave them."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from torch import Tensor


def check_attends(config: Any) -> None:
    """Refuses models that read all words alike, of which there is no evidence.

    Args:
        config: A `GileConfig`.

    Raises:
        ValueError: The text encoder has no attention over words or windows; the message says what to do.
    """
    kind, pooling = config.text_encoder_type, config.pooling
    # The published graph, and the windows of a long document, always have attention.
    if kind in ("han_published", "hierarchical_transformer"):
        return
    if kind in ("nn", "hnn"):
        raise ValueError(
            f"text_encoder_type {kind!r} averages words and has no attention to show as evidence: train a 'wan' or a "
            "'han' for that"
        )
    if pooling != "attention":
        raise ValueError(
            f"this model has no attention to show as evidence, its pooling is {pooling!r}: train one with "
            "pooling='attention' for that"
        )


def evidence_of(pieces: Sequence[list[Any]], attentions: Sequence[Sequence[Tensor]]) -> dict[str, Any]:
    """Puts the words of a document and their weights together, without padding and special tokens.

    Args:
        pieces: What is written in the document, from `GileProcessor.pieces(..., written=True)`: one piece, or those in
            which a long text was read.
        attentions: For each piece what the model returned for it: the weights of words `(W,)`; or those of the words of
            each sentence `(S, W)` and of the sentences `(S,)`.

    Returns:
        `{"sentences": [{"weight": w, "words": [[word, weight], ...]}, ...]}`: the weight of a sentence in the document
        and of a word in its sentence, each as the model had it; that of a word of several tokens is their sum. A
        document that is not cut into sentences is one. Pieces count alike, so the weights of their sentences are
        divided by the number of pieces.

    Example:
        >>> import torch
        >>> evidence_of([[(0, "Breast"), (1, "milk")]], [[torch.tensor([0.25, 0.75, 0.0])]])
        {'sentences': [{'weight': 1.0, 'words': [['Breast', 0.25], ['milk', 0.75]]}]}
    """
    sentences = []
    for piece, (of_words, *of_sentences) in zip(pieces, attentions, strict=True):
        rows = piece if of_sentences else [piece]
        row_weights = of_words.float().tolist() if of_sentences else [of_words.float().tolist()]
        shares = of_sentences[0].float().tolist() if of_sentences else [1.0]
        for row, weights, share in zip(rows, row_weights, shares, strict=False):
            weighted = zip(row, weights, strict=False)
            of_places = groupby(weighted, key=lambda one: one[0])
            words = [[found[1], sum(weight for _, weight in own)] for found, own in of_places if found is not None]
            if words:
                sentences.append({"weight": share / len(pieces), "words": words})
    return {"sentences": sentences}


__all__ = ["check_attends", "evidence_of"]
