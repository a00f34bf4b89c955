"""From document and label vectors to scores: the terms of a score, and the layers that they belong to.

The layers are the joint embedding of the paper, its ablations, the bilinear units and the linear unit. Beside the joint
embedding stand lexical overlap, similarity, and a row for each stored label. Each term is an inner product of something
of the document and something of the label, so a document has one code and a label one, whose inner product, plus a
constant, is the score. Label codes can therefore be computed once and kept.

Shapes: B documents, L labels, R texts of T tokens, D word-embedding size, H document size, J joint size.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .configuration_gile import LEXICAL_HASHES
from .languages_gile import of_language, per_language
from .text_encoders_gile import rms_normalized, rows_of


class ZeroEmbedding(nn.Embedding):
    """A table of numbers that start at zero; a class of its own because of that."""


class BagEmbedding(nn.Embedding):
    """The token vectors of a bag; a class of its own because they start random and of length 1 on average."""


class TokenBag(nn.Module):
    """A text as the weighted sum of the vectors of its distinct tokens, scaled to a root mean square of 1.

        bag(text) = sum_t exp(weight_t) (1 + log count_t) vector_t, normalised

    Vectors start random, so they are nearly orthogonal, and the inner product of two bags starts as the cosine of their
    tf-idf vectors (a random projection of it), if the weights start at the logarithm of the idf; training goes on
    from there.

    Args:
        config: A `GileConfig` with a `bag_size`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.vocab_size = config.text_config.vocab_size
        self.vectors = BagEmbedding(config.text_config.vocab_size, config.bag_size)
        self.log_weights = ZeroEmbedding(config.text_config.vocab_size, 1)

    def forward(self, input_ids: Tensor, mask: Tensor, sparse: bool = False) -> Tensor:
        """Encodes texts.

        Args:
            input_ids: `(R, T)` token ids, documents or labels.
            mask: `(R, T)` booleans, true where there is a token.
            sparse: Whether gradients of the tables are sparse tensors, for who adds up those of many calls.

        Returns:
            `(R, bag_size)` vectors; zero for a text without tokens.
        """
        rows = torch.arange(input_ids.shape[0], device=input_ids.device)[:, None] * self.vocab_size
        distinct, counts = torch.unique((rows + input_ids)[mask], return_counts=True)
        tokens = distinct % self.vocab_size
        starts = torch.searchsorted(distinct, rows[:, 0].contiguous())
        words, places = torch.unique(tokens, return_inverse=True)
        weights = rows_of(self.log_weights, words, sparse).squeeze(-1).exp()[places]
        weights = weights * (1 + counts.to(weights.dtype).log())
        vectors = rows_of(self.vectors, words, sparse)
        total = functional.embedding_bag(places, vectors, starts, mode="sum", per_sample_weights=weights)
        return rms_normalized(total)


class LexicalOverlap(nn.Module):
    """The tf-idf vector of a text as a code of fixed size, whose inner product is nearly the cosine.

        code(text) = sum_f idf_f (1 + log count_f) hash(f), scaled to length 1

    The features f are tokens, and pairs of tokens side by side, as a word that a tokenizer cuts into pieces is rather
    its pairs than its pieces. Each has `hashes` places in the code, with signs, and an idf by its bucket. Nothing of it
    is trained: labels of training documents would teach the model to do without it, and labels never seen need it.

    Args:
        config: A `GileConfig` with a `lexical_size`.
    """

    buckets = 1 << 18
    hashes = LEXICAL_HASHES

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.size = config.lexical_size
        # A parameter, for buffers of a module without any are not initialised; it never requires a gradient.
        self.idf = nn.Parameter(torch.ones(self.buckets), requires_grad=False)
        self.config = config

    @property
    def calibration(self) -> tuple[float, float, float]:
        """For labels without a row: the factors of the other terms and of the cosine, and what is added."""
        return self.config.unseen_scale, self.config.lexical_scale, self.config.unseen_offset

    def features(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The distinct features of each text, in the order of the texts.

        Args:
            input_ids: `(R, T)` token ids.
            mask: `(R, T)` booleans, true where there is a token.

        Returns:
            `(F,)` rows of the texts, `(F,)` features, numbers below `buckets`, and `(F,)` how often each occurs.
        """
        mask = mask & (self.idf[input_ids % self.buckets] > 0)
        rows = torch.arange(len(input_ids), device=input_ids.device)[:, None] * self.buckets
        pairs = _mixed(input_ids[:, :-1] * 0x10001 + input_ids[:, 1:] + self.buckets) % self.buckets
        keys = torch.cat([(rows + input_ids % self.buckets)[mask], (rows + pairs)[mask[:, :-1] & mask[:, 1:]]])
        keys, counts = torch.unique(keys, return_counts=True)
        return keys // self.buckets, keys % self.buckets, counts

    @torch.no_grad()
    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Encodes texts.

        Args:
            input_ids: `(R, T)` token ids, documents or labels.
            mask: `(R, T)` booleans, true where there is a token.

        Returns:
            `(R, lexical_size)` codes of length about 1, in float32; zero for a text without tokens of any weight.
        """
        rows, features, counts = self.features(input_ids, mask)
        weights = self.idf.float()[features] * (1 + counts.float().log())
        squares = weights.new_zeros(len(input_ids)).index_add_(0, rows, weights.square())
        weights = weights / squares.sqrt()[rows].clamp(min=1e-9) / self.hashes**0.5
        block = self.size // self.hashes
        numbers = torch.arange(self.hashes, device=rows.device)
        code = weights.new_zeros(len(input_ids) * self.size)
        for part in range(0, len(rows), 1 << 16):  # of a long batch, not all places at once
            here = slice(part, part + (1 << 16))
            mixed = _mixed(features[here, None] * self.hashes + numbers)  # (F, hashes)
            places = rows[here, None] * self.size + numbers * block + (mixed >> 1) % block
            code.index_add_(0, places.flatten(), (weights[here, None] * (1 - 2 * (mixed & 1))).flatten())
        return code.view(len(input_ids), self.size)


def _mixed(numbers: Tensor) -> Tensor:
    """A hash of whole numbers to others that are not negative (the finaliser of SplitMix64: Steele et al., 2014)."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        numbers = (numbers ^ ((numbers >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (numbers ^ ((numbers >> 31) & ((1 << 33) - 1))) & ((1 << 62) - 1)


class CosineScale(nn.Module):
    """The factors c of the cosines, one for each part of the vectors; they start at `config.cosine_scale`."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(parts))

    def forward(self, part: int) -> Tensor:
        """The factor of a part, a scalar."""
        return self.scale[part]


class DirectScore(nn.Module):
    """Terms of the score that compare h with e, and with a row of the label's own, without a joint space.

        sum over the parts of h and e of c cos(h_part, e_part)  +  r . h + b_l

    The parts are what the encoder made and the bag. `r` and `b_l` are the row of a stored label (`label_rows`),
    which others do not have; h stands there with a root mean square of 1 in each part.

    Args:
        config: A `GileConfig` with `cosine_score` or `label_rows`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.text_sizes = [config.text_config.encoder_size, config.bag_size]
        self.label_sizes = [config.label_size - config.bag_size, config.bag_size]
        self.has_rows = config.label_rows
        self.cosine = CosineScale(len(self.text_sizes)) if config.cosine_score else None

    def project_texts(self, text_embeds: Tensor) -> Tensor:
        """The documents' side.

        Args:
            text_embeds: `(B, H)` document vectors h.

        Returns:
            `(B, H)` numbers, `(B, H + 1)` if labels have rows.
        """
        parts = text_embeds.split(self.text_sizes, dim=-1)
        code = torch.cat([rms_normalized(part) for part in parts], dim=-1)
        return functional.pad(code, (0, 1), value=1.0) if self.has_rows else code

    def project_labels(self, label_embeds: Tensor, label_rows: Tensor | None = None) -> Tensor:
        """The labels' side.

        Args:
            label_embeds: `(L, D)` label vectors e.
            label_rows: `(L, H + 1)` rows of the labels, r with b behind it; by default none has one.

        Returns:
            `(L, H)` numbers, `(L, H + 1)` if labels have rows.
        """
        parts = []
        for place, part in enumerate(label_embeds.split(self.label_sizes, dim=-1)):
            size = self.text_sizes[place]
            if self.cosine is None or part.shape[-1] != size:
                parts.append(part.new_zeros(len(part), size))
            else:
                parts.append(rms_normalized(part) * (self.cosine(place) / max(size, 1)))
        code = torch.cat(parts, dim=-1)
        if not self.has_rows:
            return code
        code = functional.pad(code, (0, 1))
        return code if label_rows is None else code + label_rows

    def literal_scores(self, text_embeds: Tensor, label_embeds: Tensor, label_rows: Tensor | None = None) -> Tensor:
        """The formula, term by term: for tests and for readers.

        Args:
            text_embeds: `(B, H)` document vectors h.
            label_embeds: `(L, D)` label vectors e.
            label_rows: `(L, H + 1)` rows of the labels.

        Returns:
            `(B, L)` numbers to add to the logits.
        """
        scores = text_embeds.new_zeros(len(text_embeds), len(label_embeds))
        texts, labels = text_embeds.split(self.text_sizes, dim=-1), label_embeds.split(self.label_sizes, dim=-1)
        for place, (text, label) in enumerate(zip(texts, labels, strict=True)):
            if self.cosine is not None and text.shape[-1] == label.shape[-1] > 0:
                cosines = functional.cosine_similarity(text[:, None], label[None], dim=-1)
                scores = scores + self.cosine(place) * cosines
        if label_rows is not None:
            parts = [part / part.square().mean(-1, keepdim=True).sqrt() for part in texts if part.shape[-1]]
            scores = scores + torch.cat(parts, dim=-1) @ label_rows[:, :-1].T + label_rows[:, -1]
        return scores


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
    "BagEmbedding",
    "BiasUnit",
    "ClassificationUnit",
    "CosineScale",
    "DirectScore",
    "JointInputLabelEmbedding",
    "LexicalOverlap",
    "LinearOutput",
    "TokenBag",
    "ZeroEmbedding",
]
