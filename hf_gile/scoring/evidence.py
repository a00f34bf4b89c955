"""Evidence for labels: the words of a text without which their scores fall.

Shapes: B texts, L labels, C labels to explain, P parts of a text.
"""

import re
from collections.abc import Callable, Sequence

from torch import Tensor

PARTS = 24
"""Maximum number of parts of a text, so that evidence takes as long as 25 texts."""


def find_evidence(
    score: Callable[[list[str]], Tensor], text: str, columns: Sequence[int]
) -> list[list[tuple[str, float]]]:
    """Returns for each label the parts of a text that raise its score, strongest first.

    A part is a word, or several words in a row of a text of more than `PARTS` words. Its weight is how far the score
    of the label falls if the part is left out. This works for any model, unlike attention.

    Args:
        score: Maps B texts to their `(B, L)` logits.
        text: The text.
        columns: Indices of the C labels.

    Returns:
        For each label, pairs of a part and its weight, above zero.
    """
    words = list(re.finditer(r"\S+", text))
    size = max(1, -(-len(words) // PARTS))
    groups = [words[start : start + size] for start in range(0, len(words), size)]
    spans = [(group[0].start(), group[-1].end()) for group in groups]
    without = [text[:start] + text[end:] for start, end in spans]
    scores = score([text, *without])[:, list(columns)].float()
    falls = (scores[0] - scores[1:]).T.tolist()
    parts = [text[start:end] for start, end in spans]
    return [
        sorted(((part, fall) for part, fall in zip(parts, row, strict=True) if fall > 0), key=lambda pair: -pair[1])
        for row in falls
    ]
