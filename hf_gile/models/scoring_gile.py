"""From document and label vectors to scores, term by term.

The score is that of a linear unit, or the sum of the joint embedding, cosines, rows of stored labels, and words. All
terms except words are inner products of a text code and a label code.

Shapes: B documents, L labels, R texts of T tokens, D word-embedding size, H document size, J joint size.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .languages_gile import per_language, select_module
from .lexical_gile import WordWeights
from .mixture_gile import WORD_TERMS, Rows
from .text_encoders_gile import rms_normalized


class ZeroEmbedding(nn.Embedding):
    """An embedding table initialized with zeros."""


class Neighbours(ZeroEmbedding):
    """Centred unit vectors of N training documents, and their mean in the last row: `(N + 1, H)`."""

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Returns the numbers of the 50 nearest documents and their shares ~ cos^6, `(B, 50)` each."""
        h = functional.normalize(functional.normalize(h.to(self.weight), dim=-1) - self.weight[-1], dim=-1)
        cosines, nearest = (h @ self.weight[:-1].T).topk(min(50, len(self.weight) - 1))
        return nearest, functional.normalize(cosines.clamp(min=0).pow(6), p=1, dim=1)


Parts = dict[str, Tensor]
"""Named parts of vectors or codes, which are concatenated."""

CODE_PARTS = ("joint", "encoder", "constant")
"""Parts of a code, in order."""


class ScoreTerm(nn.Module):
    """A term of the score: the inner product of parts of the text code and parts of the label code.

    The inputs are the vectors of documents or labels, "vector"; "row" and "row_bias" are r and b_l of labels, if there
    are rows. The results are named parts of codes. Parts of a label code with the same name are added.
    """

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """Computes the parts of text codes, `(B, width)` each."""
        raise NotImplementedError

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """Computes the parts of label codes, `(L, width)` each."""
        raise NotImplementedError


def _times(code: Tensor, weight: Tensor | float) -> Tensor:
    """Multiplies `(L, J)` codes with a weight, or with `(L,)` weights."""
    return code * (weight if isinstance(weight, float) else weight[:, None])


class CosineScale(nn.Module):
    """The factor c of the cosine, initially `config.cosine_scale`."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self) -> Tensor:
        """Returns the factor, `(1,)`."""
        return self.scale


class CosineTerm(ScoreTerm):
    """c cos(h, e) of vectors of equal sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = CosineScale()

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """Computes the part of text codes; see `ScoreTerm`."""
        return {"encoder": rms_normalized(text["vector"])}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """Computes the part of label codes."""
        vectors = label["vector"]
        return {"encoder": rms_normalized(vectors) * (self.factor() / vectors.shape[1])}


class RowTerm(ScoreTerm):
    """r . h + b_l for a label with a row; h is scaled to a root mean square of 1."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """Computes the parts of text codes; the part "constant" is 1 and is multiplied by b_l."""
        vectors = text["vector"]
        return {"encoder": rms_normalized(vectors), "constant": torch.ones_like(vectors[:, :1])}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """Returns rows as parts of label codes; zeros for labels without a row."""
        zeros = label["vector"].new_zeros(len(label["vector"]), 1)
        row = label.get("row")
        if row is None or not row.shape[1]:
            row = zeros.expand(-1, self.size)
        return {"encoder": row, "constant": label.get("row_bias", zeros[:, 0])[:, None]}


class ClassificationUnit(nn.Module):
    """The weights before the logit, which are parts of codes: w and b of a joint space, or W and b of labels.

    This is not an `nn.Linear`, because adapters such as LoRA change its `forward`, which codes do not use.
    """

    def __init__(self, size: int, rows: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, size))
        self.bias = nn.Parameter(torch.zeros(rows))

    def forward(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns `(C, size)` weights and `(C,)` biases of these `(C,)` rows, by default all."""
        return (self.weight, self.bias) if rows is None else (self.weight[rows], self.bias[rows])


class BiasUnit(nn.Module):
    """The bias b of a bilinear unit, which has no w; without b, all initial probabilities would be 0.5."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self) -> tuple[None, Tensor]:
        """Returns None instead of w, and b, `(1,)`."""
        return None, self.bias


PROJECTIONS = {
    # which sides are projected: labels, documents
    "gile": (True, True),
    "only_label": (True, False),
    "only_input": (False, True),
    "bilinear": (False, True),
    "bilinear_yh15": (True, True),
}


class JointInputLabelEmbedding(ScoreTerm):
    """Scores documents against any labels in a joint input-label space, and by further terms.

    | `config.output_layer` | score(h, e) | |
    | --- | --- | --- |
    | `"gile"` | w . (act(U e + b_u) * act(V h + b_v)) + b | section 3, Eq. 7-14 |
    | `"only_label"` | w . (act(U e + b_u) * h) + b | Eq. 6a |
    | `"only_input"` | w . (e * act(V h + b_v)) + b | Eq. 6b |
    | `"bilinear"` | e . V h + b | Eq. 5, [N16] of Table 2 |
    | `"bilinear_yh15"` | act(U e) . V h + b | [YH15] of Table 2 |

    No parameter depends on the number of labels, so labels unseen in training are scored the same way. It is computed
    as a matrix product, `(act(V h + b_v) * w) @ act(U e + b_u).T + b`; `recipes/papers/literal.py` has the formula as
    printed.

    U and b_u are `label_projection`, V and b_v are `input_projection`, w and b are `classifier`. The paper writes
    e U where nn.Linear computes U e, with U transposed. With `config.joint_layers` above 1, further layers
    x + act(W x + b) follow U and V.

    If configured, `cosine` and `rows` are further terms. The score is the sum of all terms that `config.mixture`
    weights. Terms that compare words are not inner products, and are added by `Postings`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.config = config
        labels, documents = PROJECTIONS[config.output_layer]
        bilinear = config.output_layer.startswith("bilinear")
        if labels and documents:
            size = config.joint_size
        elif documents:
            size = config.label_size
        else:
            size = config.document_size

        def projection(inputs: int, bias: bool) -> nn.Module:
            return per_language(config, config.share_joint_space, lambda: nn.Linear(inputs, size, bias=bias))

        self.label_projection = projection(config.label_size, not bilinear) if labels else None
        self.input_projection = projection(config.document_size, not bilinear) if documents else None
        self.classifier = per_language(config, False, BiasUnit if bilinear else lambda: ClassificationUnit(size))
        self.activation = ACT2FN[config.joint_act]
        self.input_activation = ACT2FN["linear" if bilinear else config.joint_act]
        self.dropout = nn.Dropout(config.joint_dropout)
        # If other terms multiply h as well, V is applied to e: codes then have half the size, with one part for h.
        text = config.text_config
        other_terms = config.cosine_score or config.label_rows
        is_scaled = text.text_encoder_type in ("nn", "transformer", "static") or text.encoder_cell == "none"
        is_plain = not config.joint_dropout and config.joint_layers == 1
        self.projects_labels = config.output_layer == "bilinear" and other_terms and is_scaled and is_plain
        self.label_layers, self.input_layers = (
            nn.ModuleList(projection(size, True) for _ in range(config.joint_layers - 1)) for _ in range(2)
        )
        self.cosine = CosineTerm() if config.cosine_score else None
        self.rows = RowTerm(config.document_size) if config.label_rows else None
        self.lexical: Any = WordWeights() if config.lexical else None

    def projected_text(self, vectors: Tensor, language: str | None) -> Tensor:
        """Computes `(B, J)` projected documents, Eq. 8, from `(B, H)` vectors h."""
        return self._project(vectors, self.input_projection, self.input_activation, self.input_layers, language)

    def projected_label(self, vectors: Tensor, language: str | None) -> Tensor:
        """Computes `(L, J)` projected labels, Eq. 7, from `(L, D)` vectors e."""
        return self._project(vectors, self.label_projection, self.activation, self.label_layers, language)

    def _project(
        self,
        vectors: Tensor,
        projection: nn.Module | None,
        activation: nn.Module,
        layers: nn.ModuleList,
        language: str | None,
    ) -> Tensor:
        """Applies a projection, if any, and its residual layers to vectors."""
        if projection is None:
            return vectors
        codes = activation(select_module(projection, language)(self.dropout(vectors)))
        for layer in layers:
            codes = codes + self.activation(select_module(layer, language)(self.dropout(codes)))
        return codes

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """Computes the part of text codes of the joint term, which includes the weights w of Eq. 11."""
        if self.projects_labels:
            return {"encoder": rms_normalized(text["vector"])}
        weight = select_module(self.classifier, language)()[0]
        projected = self.projected_text(text["vector"], language)
        return {"joint": projected if weight is None else projected * weight[0]}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """Computes the part of label codes of the joint term; see `ScoreTerm`."""
        vectors = label["vector"]
        if self.projects_labels:
            identity = torch.eye(self.config.document_size).to(vectors)
            return {"encoder": rms_normalized(vectors) @ self.projected_text(identity, language).T}
        return {"joint": self.projected_label(vectors, language)}

    def bias(self, language: str | None = None) -> Tensor:
        """Returns the bias b of the score for documents of a language, `(1,)`."""
        return select_module(self.classifier, language)()[1]

    @property
    def terms(self) -> dict[str, ScoreTerm]:
        """Terms that are inner products of codes, by name."""
        terms = {"joint": self, "cosine": self.cosine, "rows": self.rows}
        return {name: term for name, term in terms.items() if term is not None}

    @property
    def counts_words(self) -> bool:
        """Whether any term that compares words has a weight other than zero."""
        return self.config.mixture.uses(*WORD_TERMS)

    def word_weights(self, number: int, rows: Rows | None = None) -> Tensor:
        """Returns `(5, L)` weights of `WORD_TERMS` for a `number` L of labels."""
        zeros = torch.zeros(number, device=self.lexical().device)
        return torch.stack([zeros + self.config.mixture.of_rows(term, rows) for term in WORD_TERMS])

    @property
    def _has_constant(self) -> bool:
        """Whether label codes include an additive constant."""
        return self.rows is not None or self.config.mixture.sets("offset")

    def project_labels(
        self, label_embeds: Tensor, language: str | None = None, label_rows: Rows | None = None
    ) -> Tensor:
        """Computes `(L, J)` codes of `(L, D)` label vectors, Eq. 7, for documents of a language.

        A code is act(U e + b_u), followed by the parts of the other terms, each times the weight of its term.
        """
        codes: Parts = {}
        mixture = self.config.mixture
        label = self.split_parts(label_embeds, label_rows)
        ones = label_embeds.new_ones(len(label_embeds), 1)
        for name, term in self.terms.items():
            weight = mixture.of_rows(name, label_rows)
            for part, code in term.label_part(label, language).items():
                codes[part] = codes.get(part, 0) + _times(code, weight)
        if self._has_constant:
            codes["constant"] = codes.get("constant", 0) + _times(ones, mixture.of_rows("offset", label_rows))
        return torch.cat([codes[part] for part in CODE_PARTS if part in codes], -1)

    def split_parts(self, vectors: Tensor, label_rows: Rows | None = None) -> Parts:
        """Returns vectors h or e, and the rows of labels, if any, as inputs of the terms."""
        parts = {"vector": vectors}
        if label_rows is not None:
            parts |= {"row": label_rows.weight, "row_bias": label_rows.bias}
        return parts

    def project_texts(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """Computes `(B, J)` codes of `(B, H)` document vectors, Eq. 8.

        A code is w * act(V h + b_v), followed by the parts of the other terms; only h if V is applied to labels.
        """
        codes: Parts = {}
        text = self.split_parts(text_embeds)
        for term in self.terms.values():
            codes |= term.text_part(text, language)
        if self._has_constant:
            codes["constant"] = torch.ones_like(text["vector"][:, :1])
        return torch.cat([codes[part] for part in CODE_PARTS if part in codes], -1)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: str | None = None) -> Tensor:
        """Computes `(B, L)` scores of text codes and label codes, Eq. 12."""
        return functional.linear(text_codes, label_codes) + self.bias(language)


class LinearOutput(nn.Module):
    """The typical linear unit `W h + b`, with a row of W and a bias for each label (Eq. 3).

    It scores only the labels it was trained on, without further terms. Each language has a separate unit.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        size = config.document_size
        sizes = config.language_labels
        units = {language: ClassificationUnit(size, sizes[language]) for language in config.languages or ()}
        self.classifier: nn.Module = nn.ModuleDict(units) if units else ClassificationUnit(size, config.num_labels)

    counts_words = False

    def label_codes(self, columns: Tensor | None = None, language: str | None = None) -> Tensor:
        """Returns `(C, H + 1)` learned codes: rows of W and b; `columns` are indices into labels of the language."""
        weight, bias = select_module(self.classifier, language)(columns)
        return torch.cat([weight, bias[:, None]], -1)

    def project_texts(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """Appends a 1 to `(B, H)` document vectors, which is multiplied by b; `language` has no effect."""
        return functional.pad(text_embeds, (0, 1), value=1.0)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: str | None = None) -> Tensor:
        """Computes `(B, L)` logits of `(B, H + 1)` text codes and `(L, H + 1)` label codes."""
        return functional.linear(text_codes, label_codes)
