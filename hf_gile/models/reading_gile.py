"""Texts to text codes, what a model reads first of them or all of it, and where it looked.

Shapes: B texts, P pieces of a text, J joint size.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .evidence_gile import check_attends, evidence_of

LONG_TEXTS = ("cut", "max", "mean")
"""What can be done with texts that are longer than a model reads."""

_PIECES_AT_ONCE = 32
"""Pieces of long texts that are encoded at once; as many as there are texts, if these are more."""


class ReadTexts(NamedTuple):
    """What a model made of texts.

    Args:
        codes: `(B, J)` text codes, of what the model reads first of each text.
        pieces: `(P, J)` codes of the pieces of those texts that are longer, by their places.
        evidence: What `evidence_of` says of each text, if it was asked for.
        known: Whether each text, as far as it was read, holds a word that the model knows.
    """

    codes: Tensor
    pieces: dict[int, Tensor]
    evidence: list[dict[str, Any]] | None
    known: list[bool]


def read_texts(
    gile: Any,
    processor: Any,
    texts: Sequence[Any],
    language: str | None = None,
    whole: bool = False,
    with_evidence: bool = False,
) -> ReadTexts:
    """Encodes texts.

    What is read first of all texts is one batch, with or without `whole`: the code of a text that fits is the same to
    the last bit.

    Args:
        gile: A `GileModel` in evaluation mode.
        processor: Its `GileProcessor`.
        texts: B documents, as the processor takes them.
        language: Their language, in a model of several.
        whole: Whether to read all of them, in pieces.
        with_evidence: Whether to say where the model looked.

    Raises:
        ValueError: Something that is not a text, an unknown language, or evidence of a model that has no attention.
    """
    if with_evidence:
        check_attends(gile.config)
    documents = processor(texts, language=language)["input_ids"]
    codes, attentions = _encoded(gile, processor, documents, language, with_evidence)
    looked: list[list[Sequence[Tensor]]] = [[one] for one in attentions]
    pieces: dict[int, Tensor] = {}
    known = list(map(processor.knows, documents))
    if whole:
        of_texts = processor.pieces(texts, language)
        known = [any(map(processor.knows, own)) for own in of_texts]
        rest = [
            (place, piece)
            for place, (own, document) in enumerate(zip(of_texts, documents, strict=True))
            for piece in (own[1:] if own[0] == document else own)
        ]
        found: dict[int, list[Tensor]] = {}
        size = max(_PIECES_AT_ONCE, len(texts))
        for start in range(0, len(rest), size):
            some = rest[start : start + size]
            more, attentions = _encoded(gile, processor, [piece for _, piece in some], language, with_evidence)
            for row, (place, _) in enumerate(some):
                if place not in found:
                    is_first = of_texts[place][0] == documents[place]
                    found[place] = [codes[place]] if is_first else []
                    looked[place] = looked[place] if is_first else []
                found[place].append(more[row])
                looked[place] += attentions[row : row + 1]
        pieces = {place: torch.stack(own) for place, own in found.items()}
    evidence = None
    if with_evidence:
        written = processor.pieces(texts, language, whole=whole, written=True)
        evidence = [evidence_of(*one) for one in zip(written, looked, strict=True)]
    return ReadTexts(codes, pieces, evidence, known)


def _encoded(
    gile: Any, processor: Any, documents: list[Any], language: str | None, with_attention: bool
) -> tuple[Tensor, list[Sequence[Tensor]]]:
    """`(B, J)` text codes of documents of ids, and for each its attention, if it is wanted."""
    inputs = {name: tensor.to(gile.device) for name, tensor in processor.pad_documents(documents).items()}
    text_embeds, attentions = gile.embed_texts(**inputs, language=language)
    codes = gile.project_texts(text_embeds=text_embeds, language=language)
    weights = [one.cpu() for one in attentions] if with_attention else []
    return codes, [[one[row] for one in weights] for row in range(len(documents))]


__all__ = ["LONG_TEXTS", "ReadTexts", "read_texts"]
