"""From document and label vectors to scores, term by term.

A score is that of the linear unit, or that of the joint embedding of the paper, its ablations and the bilinear units,
beside which may stand cosines, a row for each stored label, and lexical overlap. Each term is an inner product of
something of the document and something of the label, so a document has one code and a label one, whose inner product,
plus a constant, is the score. Label codes can therefore be computed once and kept.

Shapes: B documents, L labels, R texts of T tokens, D word-embedding size, H document size, J joint size.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .configuration_gile import LEXICAL_HASHES, TERMS
from .languages_gile import of_language, per_language
from .text_encoders_gile import rms_normalized


class ZeroEmbedding(nn.Embedding):
    """A table of numbers that start at zero."""


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

    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Encodes texts.

        Args:
            input_ids: `(R, T)` token ids, documents or labels.
            mask: `(R, T)` booleans, true where there is a token.

        Returns:
            `(R, bag_size)` vectors; zero for a text without tokens.
        """
        rows = torch.arange(input_ids.shape[0], device=input_ids.device)[:, None] * self.vocab_size
        distinct, counts = torch.unique((rows + input_ids)[mask], return_counts=True)
        tokens = distinct % self.vocab_size
        starts = torch.searchsorted(distinct, rows[:, 0].contiguous())
        words, places = torch.unique(tokens, return_inverse=True)
        weights = self.log_weights(words).squeeze(-1).exp()[places]
        weights = weights * (1 + counts.to(weights.dtype).log())
        vectors = self.vectors(words)
        total = functional.embedding_bag(places, vectors, starts, mode="sum", per_sample_weights=weights)
        return rms_normalized(total)


Parts = dict[str, Tensor]
"""Parts of vectors or of codes that stand side by side, by their names."""

CODE_PARTS = ("joint", "encoder", "bag", "constant", "lexical")
"""The parts of a code, in their order."""


def parts_of(rows: Tensor, sizes: tuple[int, int], rest: str) -> Parts:
    """Names the parts of `(R, C)` rows: of the encoder, of the bag, which have these sizes, and what is behind them."""
    encoder, bag = sizes
    return dict(zip(("encoder", "bag", rest), rows.tensor_split((encoder, encoder + bag), dim=1), strict=True))


class ScoreTerm(nn.Module):
    """A term of the score: the inner product of a part of the text code and a part of the label code.

    Terms read document and label vectors, "vector", and their parts: "encoder", what the encoder made; "bag"; and
    "lexical", the lexical code, empty where it does not count. "row" is the row of labels, where they have such. Terms
    write parts of codes by their names. Where several write the same part of a label code, it is the sum.
    """

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """The documents' side, `(B, width)` of each part of a text code."""
        raise NotImplementedError

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """The labels' side, `(L, width)` of each part of a label code."""
        raise NotImplementedError

    def literal(self, text: Parts, label: Parts, language: str | None) -> Tensor:
        """The formula as printed, for tests and for readers: `(B, L)` numbers to add to the logits."""
        raise NotImplementedError


class LexicalOverlap(ScoreTerm):
    """The tf-idf vector of a text as a code of fixed size, whose inner product is nearly the cosine.

        code(text) = sum_f idf_f (1 + log count_f) hash(f), scaled to length 1

    The features f are tokens, and pairs of tokens side by side, as a word that a tokenizer cuts into pieces is rather
    its pairs than its pieces. Each has `hashes` places in the code, with signs, and an idf by its bucket. Nothing of it
    is trained: labels of training documents would teach the model to do without it, and labels never seen need it.
    """

    buckets = 1 << 18
    hashes = LEXICAL_HASHES

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.size = config.lexical_size
        # A parameter, for buffers of a module without any are not initialised; it never requires a gradient.
        self.idf = nn.Parameter(torch.ones(self.buckets), requires_grad=False)

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`."""
        return {"lexical": text["lexical"].to(text["vector"].dtype)}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`."""
        return {"lexical": label["lexical"].to(label["vector"].dtype)}

    def literal(self, text: Parts, label: Parts, language: str | None) -> Tensor:
        """See `ScoreTerm`."""
        return text["lexical"] @ label["lexical"].T

    def features(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The distinct features of texts: `(F,)` rows of the texts, numbers below `buckets`, and their counts."""
        mask = mask & (self.idf[input_ids % self.buckets] > 0)
        rows = torch.arange(len(input_ids), device=input_ids.device)[:, None] * self.buckets
        pairs = _mixed(input_ids[:, :-1] * 0x10001 + input_ids[:, 1:] + self.buckets) % self.buckets
        keys = torch.cat([(rows + input_ids % self.buckets)[mask], (rows + pairs)[mask[:, :-1] & mask[:, 1:]]])
        keys, counts = torch.unique(keys, return_counts=True)
        return keys // self.buckets, keys % self.buckets, counts

    @torch.no_grad()
    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Codes of texts, `(R, lexical_size)`, of length about 1; zero for a text without tokens."""
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


def _scaled(text: Parts) -> Parts:
    """The parts of h, each with a root mean square of 1: what cosines and rows meet."""
    return {name: rms_normalized(text[name]) for name in ("encoder", "bag")}


class CosineScale(nn.Module):
    """The factors c of the cosines, one for each part of the vectors; they start at `config.cosine_scale`."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(parts))

    def forward(self, part: int) -> Tensor:
        """The factor of a part, a scalar."""
        return self.scale[part]


class CosineTerm(ScoreTerm):
    """c cos(h_part, e_part), summed over the parts, that of the encoder and that of the bag, which have one size.

    Args:
        config: A `GileConfig` with `cosine_score`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.widths = {"encoder": config.text_config.encoder_size, "bag": config.bag_size}
        self.factors = CosineScale(len(self.widths))

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`."""
        return _scaled(text)

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`; of a part of e that cannot be compared, zeros."""
        parts = {}
        for place, (name, width) in enumerate(self.widths.items()):
            part = label[name]
            if part.shape[1] == width:
                parts[name] = rms_normalized(part) * (self.factors(place) / max(width, 1))
            else:
                parts[name] = part.new_zeros(len(part), width)
        return parts

    def literal(self, text: Parts, label: Parts, language: str | None) -> Tensor:
        """See `ScoreTerm`."""
        scores = text["vector"].new_zeros(len(text["vector"]), len(label["vector"]))
        for place, name in enumerate(self.widths):
            if text[name].shape[1] == label[name].shape[1] > 0:
                cosines = functional.cosine_similarity(text[name][:, None], label[name][None], dim=-1)
                scores = scores + self.factors(place) * cosines
        return scores


class RowTerm(ScoreTerm):
    """r . h + b_l of a label with a row, which is r with b_l behind it; h has a root mean square of 1 in each part.

    Args:
        config: A `GileConfig` with `label_rows`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.sizes = (config.text_config.encoder_size, config.bag_size)

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`; b_l is of the part "constant", a one of every text."""
        return _scaled(text) | {"constant": torch.ones_like(text["vector"][:, :1])}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`; zeros of labels without rows."""
        vectors = label["vector"]
        rows = label["row"] if "row" in label else vectors.new_zeros(len(vectors), sum(self.sizes) + 1)
        return parts_of(rows, self.sizes, "constant")

    def literal(self, text: Parts, label: Parts, language: str | None) -> Tensor:
        """See `ScoreTerm`."""
        if "row" not in label:
            return text["vector"].new_zeros(len(text["vector"]), len(label["vector"]))
        parts = [text[name] for name in ("encoder", "bag") if text[name].shape[1]]
        h = torch.cat([part / part.square().mean(-1, keepdim=True).sqrt() for part in parts], -1)
        return h @ label["row"][:, :-1].T + label["row"][:, -1]


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

    def forward(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`(C, size)` weights and `(C,)` numbers b of the `(C,)` rows wanted, by default of all."""
        return (self.weight, self.bias) if rows is None else (self.weight[rows], self.bias[rows])


class BiasUnit(nn.Module):
    """The b of a bilinear unit, which has no w: without it, every label would start at a probability of a half."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self) -> tuple[None, Tensor]:
        """No w, and b, `(1,)`."""
        return None, self.bias


PROJECTIONS = {
    # which sides are projected: labels, documents
    "gile": (True, True),
    "only_label": (True, False),
    "only_input": (False, True),
    "bilinear": (False, True),
    "bilinear_yh15": (True, True),
}


class JointTerm(ScoreTerm):
    """The score of the paper, in a joint input-label space; see `JointInputLabelEmbedding`, of which it is a part.

    Args:
        config: A `GileConfig`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        labels, documents = PROJECTIONS[config.output_layer]
        bilinear = config.output_layer.startswith("bilinear")
        # What is not projected sets the size of the space.
        size = config.joint_size if labels and documents else config.label_size if documents else config.document_size

        def projection(inputs: int, bias: bool) -> nn.Module:
            return per_language(config, config.share_joint_space, lambda: nn.Linear(inputs, size, bias=bias))

        self.label_projection = projection(config.label_size, not bilinear) if labels else None
        self.input_projection = projection(config.document_size, not bilinear) if documents else None
        self.classifier = per_language(config, False, BiasUnit if bilinear else lambda: ClassificationUnit(size))
        self.activation = ACT2FN[config.joint_act]
        self.input_activation = ACT2FN["linear" if bilinear else config.joint_act]
        self.dropout = nn.Dropout(config.joint_dropout)
        self.label_layers, self.input_layers = (
            nn.ModuleList(projection(size, True) for _ in range(config.joint_layers - 1)) for _ in range(2)
        )

    def _projected_text(self, text: Parts, language: str | None) -> Tensor:
        """`(B, J)` numbers h', Eq. 8."""
        if self.input_projection is None:
            return text["vector"]
        h = self.input_activation(of_language(self.input_projection, language)(self.dropout(text["vector"])))
        return self._deeper(h, self.input_layers, language)

    def _projected_label(self, label: Parts, language: str | None) -> Tensor:
        """`(L, J)` numbers e', Eq. 7."""
        if self.label_projection is None:
            return label["vector"]
        e = self.activation(of_language(self.label_projection, language)(self.dropout(label["vector"])))
        return self._deeper(e, self.label_layers, language)

    def _deeper(self, codes: Tensor, layers: Iterable[nn.Module], language: str | None) -> Tensor:
        for layer in layers:
            codes = codes + self.activation(of_language(layer, language)(self.dropout(codes)))
        return codes

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`; the weights w of Eq. 11 are applied here."""
        weight = of_language(self.classifier, language)()[0]
        projected = self._projected_text(text, language)
        return {"joint": projected if weight is None else projected * weight[0]}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`."""
        return {"joint": self._projected_label(label, language)}

    def bias(self, language: str | None = None) -> Tensor:
        """`(1,)`, the b of the score, for documents of a language."""
        return of_language(self.classifier, language)()[1]

    def literal(self, text: Parts, label: Parts, language: str | None) -> Tensor:
        """See `ScoreTerm`; it holds (B, L, J)."""
        joint = self._projected_text(text, language)[:, None] * self._projected_label(label, language)  # Eq. 10
        weight = of_language(self.classifier, language)()[0]
        return joint.sum(-1) if weight is None else joint @ weight[0]  # Eq. 11; b of Eq. 12 is of the whole score


class JointInputLabelEmbedding(JointTerm):
    """Scores any label of a document in a joint input-label space, and by the terms that stand beside it.

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
    there are further layers behind U and V, x + act(W x + b).

    Beside it stand `cosine`, `rows` and `lexical`, where the configuration has them. The score is the sum of all,
    each times its weight in `config.term_weights` for a label of its group: seen labels have a row, others have none.

    Args:
        config: A `GileConfig`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self.config = config
        self.cosine = CosineTerm(config) if config.cosine_score else None
        self.rows = RowTerm(config) if config.label_rows else None
        self.lexical = LexicalOverlap(config) if config.lexical_size else None
        self.text_sizes = (config.text_config.encoder_size, config.bag_size)
        self.label_sizes = (config.label_size - config.bag_size, config.bag_size)

    def _terms(self, parts: Parts) -> dict[str, ScoreTerm]:
        """The terms that count, by their names; the lexical one only where its codes are."""
        lexical = self.lexical if parts["lexical"].shape[1] else None
        terms = {"joint": self, "cosine": self.cosine, "rows": self.rows, "lexical": lexical}
        return {name: term for name, term in terms.items() if term is not None}

    def weights(self, term: str, label: Parts) -> Tensor | float:
        """What a term is multiplied with, `(L, 1)`, or a number that is the weight for all labels."""
        chosen = self.config.term_weights
        seen, unseen = (chosen.get(group, {}).get(term, TERMS[term].get(group, 0.0)) for group in ("seen", "unseen"))
        if term == "rows" or "row" not in label or seen == unseen:
            return float(seen if term == "rows" else unseen)
        numbers = label["vector"].new_tensor([unseen, seen])
        return numbers[label["row"].any(-1).long()][:, None]

    @property
    def _has_constant(self) -> bool:
        """Whether labels differ in what is added to their scores."""
        return self.rows is not None or any("offset" in weights for weights in self.config.term_weights.values())

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
        codes: Parts = {}
        label = self._label(label_embeds, label_rows)
        for name, term in self._terms(label).items():
            weight = self.weights(name, label)
            for part, code in term.label_part(label, language).items():
                weighted = code if isinstance(weight, float) and weight == 1 else code * weight
                codes[part] = codes[part] + weighted if part in codes else weighted
        if self._has_constant:
            offset = self.weights("offset", label) + label["vector"].new_zeros(len(label["vector"]), 1)
            codes["constant"] = codes.get("constant", 0) + offset
        return torch.cat([codes[part] for part in CODE_PARTS if part in codes], -1)

    def _text(self, text_embeds: Tensor) -> Parts:
        return parts_of(text_embeds, self.text_sizes, "lexical") | {"vector": text_embeds[:, : sum(self.text_sizes)]}

    def _label(self, label_embeds: Tensor, label_rows: Tensor | None) -> Parts:
        label = parts_of(label_embeds, self.label_sizes, "lexical") | {
            "vector": label_embeds[:, : sum(self.label_sizes)]
        }
        return label if label_rows is None else label | {"row": label_rows}

    def project_texts(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """The documents' side of the score, Eq. 8, with the weights w of Eq. 11 already applied.

        Args:
            text_embeds: `(B, H)` document vectors h; with their lexical codes behind them, `(B, H + lexical_size)`,
                where these are to count.
            language: The language of the documents.

        Returns:
            `(B, J)` text codes, w * act(V h + b_v), and behind it the documents' side of the other terms of the score.
        """
        codes: Parts = {}
        text = self._text(text_embeds)
        for term in self._terms(text).values():
            codes |= term.text_part(text, language)
        if self._has_constant:
            codes["constant"] = torch.ones_like(text["vector"][:, :1])
        return torch.cat([codes[part] for part in CODE_PARTS if part in codes], -1)

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
        text, label = self._text(text_embeds), self._label(label_embeds, label_rows)
        scores = text["vector"].new_zeros(len(text_embeds), len(label_embeds)) + self.bias(language)
        some = label["vector"][:, :1]
        columns = {name: (torch.zeros_like(some) + self.weights(name, label)).T for name in TERMS}  # (1, L)
        for name, term in self._terms(text).items():
            scores = scores + columns[name] * term.literal(text, label, language)
        return scores + columns["offset"]


class LinearOutput(nn.Module):
    """The typical linear unit: `W h + b`, one row of W and one number of b for each label (Eq. 3).

    It has no use for what a label says, so it scores the labels it was trained on and no others. Of several languages
    each has a unit of its own, for the labels of its own. It is the only term of its score.

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
        """The rows of W with b behind them: a label's code is learned, not made of its words.

        Args:
            columns: `(C,)` labels wanted; all of them by default.
            language: The language whose labels are wanted; columns count in these.

        Returns:
            `(C, H + 1)` label codes.
        """
        weight, bias = of_language(self.classifier, language)(columns)
        return torch.cat([weight, bias[:, None]], -1)

    def project_texts(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """The `(B, H)` document vectors with a one behind them, which picks up b; languages differ in their labels."""
        return functional.pad(text_embeds, (0, 1), value=1.0)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: str | None = None) -> Tensor:
        """The `(B, L)` logits of `(B, H + 1)` text codes and `(L, H + 1)` label codes."""
        return functional.linear(text_codes, label_codes)

    def literal_scores(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """Eq. 3 as printed: `(B, L)` logits of `(B, H)` document vectors with the labels of a language."""
        weight, bias = of_language(self.classifier, language)()
        return text_embeds @ weight.T + bias


__all__ = [
    "BagEmbedding",
    "BiasUnit",
    "ClassificationUnit",
    "CosineScale",
    "JointInputLabelEmbedding",
    "LexicalOverlap",
    "LinearOutput",
    "TokenBag",
    "ZeroEmbedding",
]
