"""Evidence for labels: the words of a text without which their scores fall.

Shapes: B texts, C labels.
"""

import re
from collections.abc import Callable

from torch import Tensor

PARTS = 24
"""Maximum number of parts of a text, so that evidence takes as long as 24 texts."""


def find_evidence(score: Callable[[list[str]], Tensor], text: str, scores: Tensor) -> list[list[tuple[str, float]]]:
    """Returns for each label the parts of a text that raise its score, strongest first.

    A part is a word, or several words in a row of a text of more than `PARTS` words. Its weight is how far the score
    of the label falls if the part is left out. This works for any model, unlike attention.

    Args:
        score: Maps B texts to their `(B, C)` logits for C labels.
        text: The text.
        scores: `(C,)` logits of the text.

    Returns:
        For each label, pairs of a part and its weight, above zero.
    """
    words = list(re.finditer(r"\S+", text))
    size = max(1, -(-len(words) // PARTS))
    groups = [words[start : start + size] for start in range(0, len(words), size)]
    spans = [(group[0].start(), group[-1].end()) for group in groups]
    without = [text[:start] + text[end:] for start, end in spans]
    if not without:
        return [[] for _ in scores]
    falls = (scores - score(without)).T.tolist()
    parts = [text[start:end] for start, end in spans]
    return [
        sorted(((part, fall) for part, fall in zip(parts, row, strict=True) if fall > 0), key=lambda pair: -pair[1])
        for row in falls
    ]
