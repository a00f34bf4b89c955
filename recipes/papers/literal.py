"""Reference implementation of the score, literally as in the paper, term by term, for tests and readers.

Shapes: B documents, L labels, D label size, H document size, J joint size.
"""

from torch import Tensor
from torch.nn import functional

from hf_gile.models.languages_gile import select_module
from hf_gile.models.mixture_gile import Rows
from hf_gile.models.scoring_gile import CosineTerm, JointInputLabelEmbedding, LinearOutput, Parts, RowTerm, ScoreTerm


def literal_scores(
    layer: JointInputLabelEmbedding | LinearOutput,
    text_embeds: Tensor,
    label_embeds: Tensor | None = None,
    language: str | None = None,
    label_rows: Rows | None = None,
) -> Tensor:
    """Computes the scores of documents and labels step by step. A joint embedding needs `(B, L, J)` memory.

    Args:
        layer: The `output_layer` of a `GileModel`.
        text_embeds: `(B, H)` document vectors h.
        label_embeds: `(L, D)` label vectors e; not used by a linear unit.
        language: Language of the documents.
        label_rows: Rows of labels, as in `project_labels`.

    Returns:
        `(B, L)` logits, of Eq. 12 or Eq. 3.
    """
    if isinstance(layer, LinearOutput):
        weight, bias = select_module(layer.classifier, language)()
        return text_embeds @ weight.T + bias
    assert label_embeds is not None
    text = layer.split_parts(text_embeds)
    label = layer.split_parts(label_embeds, label_rows)
    scores = text["vector"].new_zeros(len(text_embeds), len(label_embeds)) + layer.bias(language)
    for name, term in layer.terms.items():
        scores = scores + _weights(layer, name, label_rows) * literal_term(term, text, label, language)
    return scores + _weights(layer, "offset", label_rows)


def _weights(layer: JointInputLabelEmbedding, term: str, rows: Rows | None) -> Tensor | float:
    """Returns the weight of a term for each label: of rare and seen labels if it has a row, else of unseen labels."""
    seen, rare, unseen = (layer.config.mixture.of_group(group, term) for group in ("seen", "rare", "unseen"))
    if rows is None:
        return float(unseen)
    numbers = zip(rows.rarity.tolist(), rows.seen.tolist(), strict=True)
    return rows.weight.new_tensor([rarity * rare + (1 - rarity) * seen if has else unseen for rarity, has in numbers])


def literal_term(term: ScoreTerm, text: Parts, label: Parts, language: str | None = None) -> Tensor:
    """Computes the `(B, L)` contribution of a term to the logits.

    Args:
        term: A term of `JointInputLabelEmbedding.terms`.
        text: Document vectors.
        label: Label vectors and their rows.
        language: Language of the documents.
    """
    if isinstance(term, CosineTerm):
        return _cosines(term, text, label)
    if isinstance(term, RowTerm):
        return _rows(text, label)
    assert isinstance(term, JointInputLabelEmbedding)
    joint = term.projected_text(text["vector"], language)[:, None]
    joint = joint * term.projected_label(label["vector"], language)  # Eq. 10
    weight = select_module(term.classifier, language)()[0]
    return joint.sum(-1) if weight is None else joint @ weight[0]  # Eq. 11; b of Eq. 12 belongs to the whole score


def _cosines(term: CosineTerm, text: Parts, label: Parts) -> Tensor:
    """Computes c cos(h, e)."""
    return term.factor() * functional.cosine_similarity(text["vector"][:, None], label["vector"][None], dim=-1)


def _rows(text: Parts, label: Parts) -> Tensor:
    """Computes r . h + b_l from rows (r, b_l) of labels; zeros without rows."""
    if "row" not in label:
        return text["vector"].new_zeros(len(text["vector"]), len(label["vector"]))
    h = text["vector"] / text["vector"].square().mean(-1, keepdim=True).sqrt()
    return h @ label["row"].T + label["row_bias"]
