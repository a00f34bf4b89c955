"""From document and label vectors to scores, term by term.

The score is that of a linear unit, or the sum of the joint embedding, cosines, rows of stored labels, and words. All
terms but words are inner products, so that documents and labels have a code each.

Shapes: B documents, L labels, R texts of T tokens, D word-embedding size, H document size, J joint size.
"""

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .configuration_gile import GROUPS, TERMS
from .labels_gile import Label
from .languages_gile import of_language, per_language
from .processing_gile import LEXICAL_BUCKETS, lexical_features
from .text_encoders_gile import rms_normalized


class ZeroEmbedding(nn.Embedding):
    """A table of numbers that start at zero."""


class Neighbours(ZeroEmbedding):
    """The vectors of N training documents, centred and of length 1, with their mean in the last row: `(N + 1, H)`."""

    def forward(self, h: Tensor) -> Tensor:
        """Returns the 50 nearest of N documents n as `(B, 50)` ids -2 - (4096 n + 4095 share), shares of cos^2."""
        h = functional.normalize(functional.normalize(h.to(self.weight), dim=-1) - self.weight[-1], dim=-1)
        cosines, nearest = (h @ self.weight[:-1].T).topk(min(50, len(self.weight) - 1))
        squares = cosines.clamp(min=0).square()
        shares = squares / squares.sum(1, keepdim=True).clamp(min=1e-9)
        return -2 - (4096 * nearest + (4095 * shares).round().long())


class BagEmbedding(nn.Embedding):
    """The token vectors of a bag; a class of its own because they start random and of length 1 on average."""


class TokenBag(nn.Module):
    """A text as the weighted sum of the vectors of its distinct tokens, scaled to a root mean square of 1.

        bag(text) = sum_t exp(weight_t) (1 + log count_t) vector_t, normalised

    Vectors start random and nearly orthogonal: with log idf as weights, inner products start as cosines of tf-idf.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.vocab_size = config.text_config.vocab_size
        self.vectors = BagEmbedding(config.text_config.vocab_size, config.bag_size)
        self.log_weights = ZeroEmbedding(config.text_config.vocab_size, 1)

    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Encodes `(R, T)` tokens of documents or labels: `(R, bag_size)` vectors, zero for a text without tokens."""
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

WORD_TERMS = ("match", "coverage", "words")
"""The terms that compare words, in their order in `Postings`."""

CODE_PARTS = ("joint", "encoder", "bag", "constant")
"""The parts of a code, in their order."""


class ScoreTerm(nn.Module):
    """A term of the score: the inner product of a part of the text code and a part of the label code.

    Terms read document and label vectors, "vector", and their parts: "encoder", what the encoder made, and "bag". "row"
    is the row of labels, where they have such. Terms write parts of codes by their names. Where several write the same
    part of a label code, it is the sum.
    """

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """The documents' side, `(B, width)` of each part of a text code."""
        raise NotImplementedError

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """The labels' side, `(L, width)` of each part of a label code."""
        raise NotImplementedError


class WordWeights(nn.Module):
    """The idf of lexical features, fitted on training documents: labels that these have would teach to do without."""

    def __init__(self) -> None:
        super().__init__()
        # A parameter, for buffers of a module without any are not initialised; it never requires a gradient.
        self.idf = nn.Parameter(torch.ones(LEXICAL_BUCKETS), requires_grad=False)

    def forward(self) -> Tensor:
        """All of them."""
        return self.idf


class WordRows(nn.Module):
    """Of each stored label the words that tell of it, and what each adds to its share of documents, row after row."""

    def __init__(self, sizes: Tensor, ids: Tensor, weight: Tensor) -> None:
        super().__init__()
        self.sizes, self.ids = (nn.Parameter(one.int(), requires_grad=False) for one in (sizes, ids))
        self.weight = nn.Parameter(weight.float(), requires_grad=False)

    def forward(self, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Lexical ids in the rows of `(C,)` labels, which of these each is of, and weights; none of a column -1."""
        if bool((self.sizes < 0).any()) or int(self.sizes.sum()) != len(self.ids):
            raise ValueError(f"sizes of rows of words do not add up to their {len(self.ids)} words: a damaged model")
        chosen = columns.clamp(min=0).to(self.ids.device)
        sizes = self.sizes[chosen].long() * (columns >= 0).to(chosen.device)
        words = _runs((self.sizes.cumsum(0) - self.sizes)[chosen], sizes)
        places = torch.arange(len(chosen), device=chosen.device).repeat_interleave(sizes)
        return self.ids[words], places, self.weight[words]


class Postings(NamedTuple):
    """In which texts of labels each word stands: the terms of a score that compare words, exact and sparse.

        match(d, l) = max_t share_t sum_f s_f idf_f^2 / (sum_f idf_f^2)^0.6,  s_f = count_f / (count_f + 1)
        coverage(d, l) = 1 if all words of a name of l stand in d, else 0
        words(d, l) = log(1 + 200 max(0, sum_f s_f w_f / |s| + sum_n share_n w_n)), w the row of l, if any (`WordRows`)

    The texts t of a label are its name, each synonym, and its description, of which words alone count, at a share of
    0.6. f are lexical features of both d and t, without those of less than a tenth of the weight of the text's
    heaviest; counts end at 2,048. n are `Neighbours` of d. Below 50 words, match and coverage shrink with the length.

    Args:
        features: `(F,)` lexical features of any text, ascending, each once.
        starts: `(F + 1,)` where the entries of each begin, and where the last ones end.
        texts: `(E,)` a text that has it, entry by entry.
        values: `(E,)` what it adds to match there, of a document that is full of it; or w_f of a row.
        labels: `(T,)` the label of each text.
        words: `(T,)` the number of words that coverage asks for; 0 of descriptions, never covered; -1 of rows.
        weights: `(3, L)` what match, coverage and rows of words count for each label.
    """

    features: Tensor
    starts: Tensor
    texts: Tensor
    values: Tensor
    labels: Tensor
    words: Tensor
    weights: Tensor

    @classmethod
    def build(
        cls, labels: Iterable[Label], idf: Tensor, weights: Tensor, word_rows: tuple[Tensor, ...] | None = None
    ) -> "Postings":
        """Makes the postings of L labels, with the idf of a `WordWeights` and what a `WordRows` says of them."""
        entered: list[tuple[frozenset[int], int, float]] = []
        for column, label in enumerate(labels):
            names = {frozenset(lexical_features(name)): 1.0 for name in (label.name, *label.synonyms)}
            described = frozenset(number for number in lexical_features(label.description) if number % 2 == 0)
            entered += [(text, column, share) for text, share in ({described: 0.6} | names).items() if text]
        texts = [text for text, *_ in entered]
        owners, shares = [column for _, column, _ in entered], [share for *_, share in entered]
        rows = torch.arange(len(texts)).repeat_interleave(torch.tensor(list(map(len, texts)), dtype=torch.long))
        features = torch.tensor(list(chain.from_iterable(texts)), dtype=torch.long)
        squares, of_text = idf.detach().cpu().float().square()[features], torch.tensor(shares)
        total = torch.zeros(len(texts)).index_add_(0, rows, squares).clamp(min=1e-9)
        heaviest = torch.zeros(len(texts)).scatter_reduce_(0, rows, squares, "amax")
        values = squares * (of_text / total**0.6)[rows]
        counts = squares >= 0.1 * heaviest[rows]
        is_word = counts & (features % 2 == 0) & (of_text == 1)[rows]
        words = torch.bincount(rows[is_word], minlength=len(texts)).int()
        owner = torch.tensor(owners, dtype=torch.long)
        entries: tuple[Tensor, ...] = features[counts], rows[counts], values[counts]
        if word_rows is not None:
            numbers, columns, amounts = (table.detach().cpu() for table in word_rows)
            added, row = columns.unique(return_inverse=True)
            more = numbers.long(), row + len(owner), amounts.float()
            entries = tuple(map(torch.cat, zip(entries, more, strict=True)))
            owner, words = torch.cat([owner, added]), torch.cat([words, words.new_full((len(added),), -1)])
        return cls.of_entries(*(one.to(weights.device) for one in (*entries, owner, words, weights)))

    @classmethod
    def of_entries(cls, features: Tensor, texts: Tensor, values: Tensor, *of_texts: Tensor) -> "Postings":
        """Sorts entries, each with its `(E,)` feature; `of_texts` are the other fields."""
        order = features.argsort(stable=True)
        distinct, sizes = torch.unique_consecutive(features[order], return_counts=True)
        starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        return cls(distinct.int(), starts, texts[order].int(), values[order], *of_texts)

    @torch.compiler.disable
    @torch.no_grad()
    def scores(self, ids: Tensor | None, number: int | None = None) -> Tensor:
        """What shared words add to the scores of documents, `(B, L)`, of their lexical ids, padded with -1, `(B, F)`.

        Raises:
            ValueError: These are not the ids of B documents, where that `number` is said.
        """
        if not torch.is_tensor(ids) or number not in (None, len(ids)):
            raise ValueError(
                "scores count words that texts share with labels: pass lexical_ids, (B, F), which the processor makes "
                "with return_tensors='pt'; pipeline 'text-classification' does with tokenizer=<this processor>"
            )
        return self.terms(ids.to(self.labels.device)).mul_(self.weights[:, None]).sum(0)

    @torch.no_grad()
    def terms(self, ids: Tensor) -> Tensor:
        """Match, coverage and words of documents with all labels, `(3, B, L)`; `ids` as in `scores`."""
        terms = self.values.new_zeros(3, len(ids), self.weights.shape[1])
        match, coverage, words = terms
        row_texts = (self.words < 0).nonzero()[:, 0]
        for row, padded in enumerate(ids):
            own, near = padded[padded >= 0], -2 - padded[padded < -1]
            asked, counts = own % LEXICAL_BUCKETS, own // LEXICAL_BUCKETS + 1
            shares, is_word = counts / (counts + 1), asked % 2 == 0
            share, length = (counts[is_word].sum() / 50).clamp(max=1), shares.square().sum().sqrt().clamp(min=1e-9)
            shares = torch.cat([shares, length * (near % 4096) / 4095])
            asked = torch.cat([asked, LEXICAL_BUCKETS + near // 4096]).int()
            is_word = functional.pad(is_word, (0, len(near)))
            start, end = (self.starts[torch.searchsorted(self.features, asked, right=right)] for right in (False, True))
            entries = _runs(start, sizes := end - start)
            values = self.values.index_select(0, entries) * shares.repeat_interleave(sizes)
            texts = self.texts.index_select(0, entries).long()
            of_texts = values.new_zeros(len(self.labels)).scatter_add_(0, texts, values)
            words[row, self.labels[row_texts]] = of_texts[row_texts] / length
            of_texts[row_texts] = 0.0
            match[row].scatter_reduce_(0, self.labels, of_texts, "amax")
            texts = self.texts.index_select(0, _runs(start[is_word], sizes[is_word])).long()
            number = torch.zeros_like(self.words).scatter_add_(0, texts, texts.new_ones(len(texts)).to(self.words))
            needed = self.words[texts]
            coverage[row, self.labels[texts[(needed > 0) & (number[texts] >= needed)]]] = 1.0
            match[row] *= share
            coverage[row] *= share
        word_evidence(words)
        return terms


def word_evidence(shares: Tensor) -> Tensor:
    """The term "words", log(1 + 200 max(0, share)), of what rows of words sum up to; in place."""
    return shares.clamp_(min=0).mul_(200).log1p_()


def _runs(starts: Tensor, sizes: Tensor) -> Tensor:
    """The numbers from each start on, as many as its size says."""
    numbers = (starts - sizes.cumsum(0) + sizes).repeat_interleave(sizes)
    return numbers.add_(torch.arange(len(numbers), device=numbers.device))


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
    """c cos(h_part, e_part), summed over the parts, that of the encoder and that of the bag, which have one size."""

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


class RowTerm(ScoreTerm):
    """r . h + b_l of a label with a row, which is r with b_l behind it; h has a root mean square of 1 in each part."""

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
        encoder, bag = self.sizes
        names = ("encoder", "bag", "constant")
        return dict(zip(names, rows.tensor_split((encoder, encoder + bag), dim=1), strict=True))


class ClassificationUnit(nn.Module):
    """The last weights before the logit: w and b of a joint space, or W and b of labels, which are parts of codes.

    This is not an `nn.Linear`: an adapter such as LoRA would change its product without effect.
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
    """The score of the paper, in a joint input-label space; a part of `JointInputLabelEmbedding`, which says more."""

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

    def projected_text(self, text: Parts, language: str | None) -> Tensor:
        """`(B, J)` numbers h', Eq. 8."""
        if self.input_projection is None:
            return text["vector"]
        h = self.input_activation(of_language(self.input_projection, language)(self.dropout(text["vector"])))
        return self._deeper(h, self.input_layers, language)

    def projected_label(self, label: Parts, language: str | None) -> Tensor:
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
        projected = self.projected_text(text, language)
        return {"joint": projected if weight is None else projected * weight[0]}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """See `ScoreTerm`."""
        return {"joint": self.projected_label(label, language)}

    def bias(self, language: str | None = None) -> Tensor:
        """`(1,)`, the b of the score, for documents of a language."""
        return of_language(self.classifier, language)()[1]


class JointInputLabelEmbedding(JointTerm):
    """Scores any label of a document in a joint input-label space, and by the terms that stand beside it.

    | `config.output_layer` | score(h, e) | |
    | --- | --- | --- |
    | `"gile"` | w . (act(U e + b_u) * act(V h + b_v)) + b | section 3, Eq. 7-14 |
    | `"only_label"` | w . (act(U e + b_u) * h) + b | Eq. 6a |
    | `"only_input"` | w . (e * act(V h + b_v)) + b | Eq. 6b |
    | `"bilinear"` | e . V h + b | Eq. 5, [N16] of Table 2 |
    | `"bilinear_yh15"` | act(U e) . V h + b | [YH15] of Table 2 |

    No parameter depends on the number of labels, so labels unseen in training are scored the same way. Computed as one
    matrix product, `(act(V h + b_v) * w) @ act(U e + b_u).T + b`; `hf_gile.literal` has the formula as printed.

    U and b_u are `label_projection`, V and b_v are `input_projection`, w and b are `classifier`. The paper writes
    e U where nn.Linear computes U e, with U transposed. With `config.joint_layers` above 1 there are further layers
    behind U and V, x + act(W x + b).

    Beside it stand `cosine` and `rows`, where the configuration has them. The score is the sum of all, each times its
    weight in `config.term_weights` for a label of its group: seen labels have a row, others have none. Terms that
    compare words are no inner product of codes, and are added to it: `Postings`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self.config = config
        self.cosine = CosineTerm(config) if config.cosine_score else None
        self.rows = RowTerm(config) if config.label_rows else None
        self.lexical = WordWeights() if config.lexical else None
        self.bag_size = config.bag_size

    @property
    def terms(self) -> dict[str, ScoreTerm]:
        """The terms of codes, by their names."""
        terms = {"joint": self, "cosine": self.cosine, "rows": self.rows}
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
    def counts_words(self) -> bool:
        """Whether scores have terms that compare words, and any of them counts."""
        groups, chosen = GROUPS if self.rows is not None else ("unseen",), self.config.term_weights
        terms = [(term, group) for term in WORD_TERMS for group in groups]
        return self.lexical is not None and any(
            chosen.get(group, {}).get(term, TERMS[term].get(group, 0.0)) for term, group in terms
        )

    def word_weights(self, number: int, label_rows: Tensor | None = None) -> Tensor:
        """`(3, L)` what match, coverage and words count for L labels, of which rows may be known."""
        assert self.lexical is not None
        some = torch.zeros(number, 1, device=self.lexical().device)
        label = {"vector": some} if label_rows is None else {"vector": some, "row": label_rows}
        columns = [torch.zeros_like(some) + self.weights(term, label) for term in WORD_TERMS]
        return torch.cat(columns, 1).T.contiguous()

    @property
    def _has_constant(self) -> bool:
        """Whether labels differ in what is added to their scores."""
        return self.rows is not None or any("offset" in weights for weights in self.config.term_weights.values())

    def project_labels(
        self, label_embeds: Tensor, language: str | None = None, label_rows: Tensor | None = None
    ) -> Tensor:
        """The labels' side of the score, Eq. 7: `(L, J)` codes of `(L, D)` label vectors, for documents of a language.

        They are act(U e + b_u), and behind it the labels' side of the other terms; `label_rows` are `(L, H + 1)`.
        """
        codes: Parts = {}
        label = self.parts_of(label_embeds, label_rows)
        for name, term in self.terms.items():
            weight = self.weights(name, label)
            for part, code in term.label_part(label, language).items():
                weighted = code if isinstance(weight, float) and weight == 1 else code * weight
                codes[part] = codes[part] + weighted if part in codes else weighted
        if self._has_constant:
            offset = self.weights("offset", label) + label["vector"].new_zeros(len(label["vector"]), 1)
            codes["constant"] = codes.get("constant", 0) + offset
        return torch.cat([codes[part] for part in CODE_PARTS if part in codes], -1)

    def parts_of(self, vectors: Tensor, label_rows: Tensor | None = None) -> Parts:
        """Vectors, h or e, their parts, and the rows of labels that have such."""
        encoder = vectors.shape[1] - self.bag_size
        parts = {"vector": vectors, "encoder": vectors[:, :encoder], "bag": vectors[:, encoder:]}
        return parts if label_rows is None else parts | {"row": label_rows}

    def project_texts(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """The documents' side of the score, Eq. 8: `(B, J)` codes of `(B, H)` document vectors.

        They are w * act(V h + b_v), and behind it the documents' side of the other terms of the score.
        """
        codes: Parts = {}
        text = self.parts_of(text_embeds)
        for term in self.terms.values():
            codes |= term.text_part(text, language)
        if self._has_constant:
            codes["constant"] = torch.ones_like(text["vector"][:, :1])
        return torch.cat([codes[part] for part in CODE_PARTS if part in codes], -1)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: str | None = None) -> Tensor:
        """The `(B, L)` scores of documents and labels by their codes, Eq. 12."""
        return functional.linear(text_codes, label_codes) + self.bias(language)


class LinearOutput(nn.Module):
    """The typical linear unit: `W h + b`, one row of W and one number of b for each label (Eq. 3).

    It scores only the labels it was trained on, without further terms. Each language has a unit for its labels.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        size, sizes = config.document_size, config.language_labels
        units = {language: ClassificationUnit(size, sizes[language]) for language in config.languages or ()}
        self.classifier: nn.Module = nn.ModuleDict(units) if units else ClassificationUnit(size, config.num_labels)

    counts_words = False

    def label_codes(self, columns: Tensor | None = None, language: str | None = None) -> Tensor:
        """`(C, H + 1)` rows of W with b behind them, learned codes; `columns` count in those of the language."""
        weight, bias = of_language(self.classifier, language)(columns)
        return torch.cat([weight, bias[:, None]], -1)

    def project_texts(self, text_embeds: Tensor, language: str | None = None) -> Tensor:
        """The `(B, H)` document vectors with a one behind them, which picks up b; languages differ in their labels."""
        return functional.pad(text_embeds, (0, 1), value=1.0)

    def score(self, text_codes: Tensor, label_codes: Tensor, language: str | None = None) -> Tensor:
        """The `(B, L)` logits of `(B, H + 1)` text codes and `(L, H + 1)` label codes."""
        return functional.linear(text_codes, label_codes)
