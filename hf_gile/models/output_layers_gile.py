"""From document and label vectors to scores: the joint embedding of the paper and what it is compared with.

That is its ablations, the bilinear units and the linear unit. All give a document a code and a label a code whose
inner product, plus a constant, is the score. Label codes can therefore be computed once and kept.

Shapes: B documents, L labels, D word-embedding size, H document size, J joint size.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .languages_gile import of_language, per_language
from .score_terms_gile import DirectScore, LexicalOverlap


class ClassificationUnit(nn.Module):
    """The last weights before the logit: w and b of a joint space, or the rows of W and the numbers b of labels.

    They stand in the codes of texts and labels, and no vector is multiplied by them here; so this is no `nn.Linear`,
    whose product an adapter such as LoRA would change in vain.

    Args:
        size: Size of a row.
        rows: Number of rows.
    """

    def __init__(self, size: int, rows: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, size))
        self.bias = nn.Parameter(torch.zeros(rows))

    def forward(self, rows: Tensor | None) -> Tensor:
        """The weights, with b as a last column.

        Args:
            rows: `(C,)` rows wanted; None for all of them.

        Returns:
            `(C, size + 1)` numbers.
        """
        weight, bias = (self.weight, self.bias) if rows is None else (self.weight[rows], self.bias[rows])
        return torch.cat([weight, bias[:, None]], dim=-1)


class BiasUnit(nn.Module):
    """The b of a bilinear unit, which has no w: without it, every label would start at a probability of a half."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, rows: Tensor | None) -> Tensor:
        """The b as `(1, 1)`, as a `ClassificationUnit` of size 0 would give it."""
        return self.bias[:, None]


PROJECTIONS = {
    # which sides are projected: labels, documents
    "gile": (True, True),
    "only_label": (True, False),
    "only_input": (False, True),
    "bilinear": (False, True),
    "bilinear_yh15": (True, True),
}


class JointInputLabelEmbedding(nn.Module):
    """Scores any label of a document in a joint input-label space.

    | `config.output_layer` | score(h, e) | |
    | --- | --- | --- |
    | `"gile"` | w . (act(U e + b_u) * act(V h + b_v)) + b | section 3, Eq. 7-14 |
    | `"only_label"` | w . (act(U e + b_u) * h) + b | Eq. 6a |
    | `"only_input"` | w . (e * act(V h + b_v)) + b | Eq. 6b |
    | `"bilinear"` | e . V h + b | Eq. 5, [N16] of Table 2 |
    | `"bilinear_yh15"` | act(U e) . V h + b | [YH15] of Table 2 |

    No parameter depends on the number of labels, so labels unseen in training are scored the same way. Computed as
    one matrix product, `(act(V h + b_v) * w) @ act(U e + b_u).T + b`; `literal_scores` is the formula as printed, and
    tests hold the two together.

    U and b_u are `label_projection`, V and b_v are `input_projection`, w and b are `classifier`. The paper writes
    e U where nn.Linear computes U e, with U transposed. Of several languages each has a w and a b of its own, and a
    U, V, b_u and b_v of its own unless `config.share_joint_space` (section 3.3). With `config.joint_layers` above 1
    there are further layers behind U and V, x + act(W x + b); `direct` has the other terms of the score, if any.

    Args:
        config: A `GileConfig`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        labels, documents = PROJECTIONS[config.output_layer]
        bilinear = config.output_layer.startswith("bilinear")
        # What is not projected sets the size of the space.
        size = config.joint_size if labels and documents else config.label_size if documents else config.document_size
        self.label_projection = self.input_projection = None
        if labels:
            self.label_projection = per_language(
                config, config.share_joint_space, lambda: nn.Linear(config.label_size, size, bias=not bilinear)
            )
        if documents:
            self.input_projection = per_language(
                config, config.share_joint_space, lambda: nn.Linear(config.document_size, size, bias=not bilinear)
            )
        self.classifier = per_language(config, False, BiasUnit if bilinear else lambda: ClassificationUnit(size))
        self.activation = ACT2FN[config.joint_act]
        self.input_activation = ACT2FN["linear" if bilinear else config.joint_act]
        self.dropout = nn.Dropout(config.joint_dropout)
        self.label_layers, self.input_layers = (
            nn.ModuleList(
                per_language(config, config.share_joint_space, lambda: nn.Linear(size, size))
                for _ in range(config.joint_layers - 1)
            )
            for _ in range(2)
        )
        self.direct = DirectScore(config) if config.cosine_score or config.label_rows else None
        self.lexical = LexicalOverlap(config) if config.lexical_size else None
        self.text_size, self.label_size = config.document_size, config.label_size

    def project_labels(
        self, label_embeds: Tensor, language: str | None = None, label_rows: Tensor | None = None
    ) -> Tensor:
        """The labels' side of the score, Eq. 7.

        Args:
            label_embeds: `(L, D)` label vectors e; with their lexical codes behind them, `(L, D + lexical_size)`, where
                these are to count.
            language: The language of the documents to score.
            label_rows: `(L, H + 1)` rows of labels that have some of their own (`config.label_rows`).

        Returns:
            `(L, J)` label codes, act(U e + b_u), and behind it the labels' side of the other terms of the score.
        """
        lexical = label_embeds[:, self.label_size :]
        codes = label_embeds = label_embeds[:, : self.label_size]
        if self.label_projection is not None:
            codes = self.activation(of_language(self.label_projection, language)(self.dropout(codes)))
            codes = self._deeper(codes, self.label_layers, language)
        parts = [codes]
        if self.direct is not None:
            parts.append(self.direct.project_labels(label_embeds, label_rows))
        if self.lexical is None or not lexical.shape[1]:
            return torch.cat(parts, -1)
        # What was trained has a row, and its words would only disturb.
        own, words, offset = self.lexical.calibration
        unseen = torch.ones_like(codes[:, :1]) if label_rows is None else (~label_rows.any(-1, keepdim=True)).to(codes)
        parts = [part * (1 + unseen * (own - 1)) for part in parts]
        if self.direct is not None and self.direct.has_rows:  # behind a row stands what meets the one of the texts
            parts[-1][:, -1:] += unseen * (offset + (own - 1) * self.bias(language))
        parts.append(lexical.to(codes.dtype) * words * unseen)
        return torch.cat(parts, -1)

    def _deeper(self, codes: Tensor, layers: Iterable[nn.Module], language: str | None) -> Tensor:
        for layer in layers:
            codes = codes + self.activation(of_language(layer, language)(self.dropout(codes)))
        return codes

    def project_texts(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """The documents' side of the score, Eq. 8, with the weights w of Eq. 11 already applied.

        Args:
            text_embeds: `(B, H)` document vectors h; with their lexical codes behind them, `(B, H + lexical_size)`,
                where these are to count.
            language: The language of the documents.

        Returns:
            `(B, J)` text codes, w * act(V h + b_v), and behind it the documents' side of the other terms of the score.
        """
        lexical = text_embeds[:, self.text_size :]
        codes = text_embeds = text_embeds[:, : self.text_size]
        if self.input_projection is not None:
            codes = self.input_activation(of_language(self.input_projection, language)(self.dropout(codes)))
            codes = self._deeper(codes, self.input_layers, language)
        weight = of_language(self.classifier, language)(None)[0, :-1]
        parts = [codes * weight if len(weight) else codes]
        if self.direct is not None:
            parts.append(self.direct.project_texts(text_embeds))
        if self.lexical is not None and lexical.shape[1]:
            parts.append(lexical.to(codes.dtype))
        return torch.cat(parts, -1)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: str | None = None) -> Tensor:
        """The score of every document with every label, Eq. 12.

        Args:
            text_codes: `(B, J)` from `project_texts`.
            label_codes: `(L, J)` from `project_labels`.
            language: The language of the documents.

        Returns:
            `(B, L)` logits.
        """
        return functional.linear(text_codes, label_codes) + self.bias(language)

    def bias(self, language: str | None = None) -> Tensor:
        """`(1,)`, the b of the score, for documents of a language."""
        return of_language(self.classifier, language)(None)[0, -1:]

    def literal_scores(
        self,
        text_embeds: Tensor,
        label_embeds: Tensor,
        language: str | None = None,
        label_rows: Tensor | None = None,
    ) -> Tensor:
        """The paper's formula, step by step: for tests and for readers; it holds (B, L, J).

        Args:
            text_embeds: `(B, H)` document vectors h.
            label_embeds: `(L, D)` label vectors e.
            language: The language of the documents.
            label_rows: `(L, H + 1)` rows of labels that have some of their own.

        Returns:
            `(B, L)` logits.
        """
        texts, text_words = text_embeds[:, : self.text_size], text_embeds[:, self.text_size :]
        labels, label_words = label_embeds[:, : self.label_size], label_embeds[:, self.label_size :]
        text_embeds, label_embeds = texts, labels
        if self.label_projection is not None:
            labels = self.activation(of_language(self.label_projection, language)(label_embeds))  # e', Eq. 7
            labels = self._deeper(labels, self.label_layers, language)
        if self.input_projection is not None:
            texts = self.input_activation(of_language(self.input_projection, language)(text_embeds))  # h', Eq. 8
            texts = self._deeper(texts, self.input_layers, language)
        joint = texts[:, None, :] * labels[None, :, :]  # g_joint (B, L, J), Eq. 10
        weight = of_language(self.classifier, language)(None)[0, :-1]
        scores = (joint @ weight if len(weight) else joint.sum(-1)) + self.bias(language)  # Eq. 11-12
        if self.direct is not None:
            scores = scores + self.direct.literal_scores(text_embeds, label_embeds, label_rows)
        if self.lexical is not None and text_words.shape[1]:
            own, words, offset = self.lexical.calibration
            has_rows = self.direct is not None and self.direct.has_rows
            constant = 0.0 if has_rows else self.bias(language)
            unseen = own * (scores - constant) + constant + words * (text_words @ label_words.T)
            unseen = unseen + offset if has_rows else unseen
            scores = unseen if label_rows is None else torch.where(label_rows.any(-1), scores, unseen)
        return scores


class LinearOutput(nn.Module):
    """The typical linear unit: `W h + b`, one row of W and one number of b for each label (Eq. 3).

    It has no use for what a label says, so it scores the labels it was trained on and no others. Of several languages
    each has a unit of its own, for the labels of its own.

    Args:
        config: A `GileConfig`; `config.num_labels` gives L, `config.language_labels` that of each language.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.classifier: nn.Module
        if config.languages:
            sizes = config.language_labels
            self.classifier = nn.ModuleDict(
                {language: ClassificationUnit(config.document_size, sizes[language]) for language in config.languages}
            )
        else:
            self.classifier = ClassificationUnit(config.document_size, config.num_labels)

    def label_codes(self, columns: Tensor | None = None, language: str | None = None) -> Tensor:
        """The rows of W with b as a last column: a label's code is learned, not made of its words.

        Args:
            columns: `(C,)` labels wanted; all of them by default.
            language: The language whose labels are wanted; columns count in these.

        Returns:
            `(C, H + 1)` label codes.
        """
        return of_language(self.classifier, language)(columns)

    def project_texts(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """The document vector with a one behind it, which picks up b.

        Args:
            text_embeds: `(B, H)` document vectors h.
            language: Not used: the languages differ in their labels.

        Returns:
            `(B, H + 1)` text codes.
        """
        return functional.pad(text_embeds, (0, 1), value=1.0)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: str | None = None) -> Tensor:
        """The score of every document with every label.

        Args:
            text_codes: `(B, H + 1)` from `project_texts`.
            label_codes: `(L, H + 1)` from `label_codes`.
            language: Not used: the languages differ in their labels.

        Returns:
            `(B, L)` logits.
        """
        return functional.linear(text_codes, label_codes)


__all__ = [
    "BiasUnit",
    "ClassificationUnit",
    "JointInputLabelEmbedding",
    "LinearOutput",
]
