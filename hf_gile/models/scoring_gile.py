"""From document and label vectors to scores, term by term.

The score is that of a linear unit, or the sum of the joint embedding, cosines, rows of stored labels, and words. All
terms except words are inner products of a text code and a label code.

Shapes: B documents, L labels, R texts of T tokens, D word-embedding size, H document size, J joint size.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .labels_gile import Label
from .languages_gile import per_language, select_module
from .mixture_gile import WORD_TERMS, Mixture, Rows
from .processing_gile import LEXICAL_BUCKETS, LexicalFeatures, lexical_features
from .text_encoders_gile import rms_normalized

_DOCUMENTS_AT_ONCE, _SUMS_AT_ONCE = 64, 1 << 23
"""Maximum numbers of documents whose words are compared at once, and of their sums over label texts."""

_SMALL_TABLE = 1 << 19
"""Maximum number of shares in a table with a row for every feature of labels; a larger one is restricted."""


class ZeroEmbedding(nn.Embedding):
    """An embedding table initialized with zeros."""


class Neighbours(ZeroEmbedding):
    """Centred unit vectors of N training documents, and their mean in the last row: `(N + 1, H)`."""

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Returns the numbers of the 50 nearest documents and their shares ~ cos^6, `(B, 50)` each."""
        h = functional.normalize(functional.normalize(h.to(self.weight), dim=-1) - self.weight[-1], dim=-1)
        cosines, nearest = (h @ self.weight[:-1].T).topk(min(50, len(self.weight) - 1))
        return nearest, functional.normalize(cosines.clamp(min=0).pow(6), p=1, dim=1)


class BagEmbedding(nn.Embedding):
    """The token vectors of a bag; a separate class, as they are initialized with random vectors of length about 1."""


class TokenBag(nn.Module):
    """Encodes a text as the weighted sum of the vectors of its distinct tokens, with a root mean square of 1.

        bag(text) = sum_t exp(weight_t) (1 + log count_t) vector_t, normalised

    Random initial vectors are nearly orthogonal: with log idf as weights, inner products are initially tf-idf cosines.
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
        words, positions = torch.unique(tokens, return_inverse=True)
        weights = self.log_weights(words).squeeze(-1).exp()[positions]
        weights = weights * (1 + counts.to(weights.dtype).log())
        vectors = self.vectors(words)
        total = functional.embedding_bag(positions, vectors, starts, mode="sum", per_sample_weights=weights)
        return rms_normalized(total)


Parts = dict[str, Tensor]
"""Named parts of vectors or codes, which are concatenated."""

CODE_PARTS = ("joint", "encoder", "bag", "constant")
"""Parts of a code, in order."""


class ScoreTerm(nn.Module):
    """A term of the score: the inner product of parts of the text code and parts of the label code.

    The inputs are the vectors of documents or labels, "vector", and their parts "encoder" (the output of the encoder)
    and "bag"; "row" and "row_bias" are r and b_l of labels, if there are rows. The results are named parts of codes.
    Parts of a label code with the same name are added.
    """

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """Computes the parts of text codes, `(B, width)` each."""
        raise NotImplementedError

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """Computes the parts of label codes, `(L, width)` each."""
        raise NotImplementedError


class WordWeights(nn.Module):
    """The idf of lexical features: fitted, not trained, since seen labels do not need shared words."""

    def __init__(self) -> None:
        super().__init__()
        # A parameter, since transformers does not initialize modules that only have buffers.
        self.idf = nn.Parameter(torch.ones(LEXICAL_BUCKETS), requires_grad=False)

    def forward(self) -> Tensor:
        """Returns the idf of all features."""
        return self.idf


class WordRows(nn.Module):
    """A sparse weight matrix: for each stored label, the lexical ids of its words and their weights, row by row."""

    def __init__(self, sizes: Tensor, ids: Tensor, weight: Tensor) -> None:
        super().__init__()
        self.sizes, self.ids = (nn.Parameter(table.int(), requires_grad=False) for table in (sizes, ids))
        self.weight = nn.Parameter(weight.float(), requires_grad=False)

    def forward(self, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the lexical ids, positions in `columns` and weights of the rows of `(C,)` labels; -1 has no row."""
        if bool((self.sizes < 0).any()) or int(self.sizes.sum()) != len(self.ids):
            raise ValueError(f"sizes of word rows do not add up to their {len(self.ids)} words: the model is damaged")
        rows = columns.clamp(min=0).to(self.ids.device)
        sizes = self.sizes[rows].long() * (columns >= 0).to(rows.device)
        words = _concatenate_ranges((self.sizes.cumsum(0) - self.sizes)[rows], sizes)
        positions = torch.arange(len(rows), device=rows.device).repeat_interleave(sizes)
        return self.ids[words], positions, self.weight[words]


class Postings(NamedTuple):
    """Inverted index of label texts: computes the score terms that compare words, exactly and sparsely.

        match(d, l) = max_t share_t sum_f s_f idf_f^2 / (sum_f idf_f^2)^0.6,  s_f = count_f / (count_f + 1)
        coverage(d, l) = max_t min_f s_f if d contains all words f of a name t of l, else 0
        words(d, l) = log(1 + 200 max(0, sum_f s_f w_f / |s| + sum_n share_n w_n)), w the row of l, if any (`WordRows`)

    The texts t of a label are its name, its synonyms, and its description (words only, with share_t = 0.6). f are
    lexical features of both d and t with at least a tenth of the weight of the heaviest feature of t; counts are capped
    at 2,048. n are `Neighbours` of d. For documents below 50 words, match and coverage are scaled down by the length.

    Args:
        features: `(F,)` distinct lexical features of all texts, in ascending order.
        starts: `(T + 1,)` offsets of the first entry of each text, and the number of entries.
        positions: `(E,)` index of the feature of each entry. The first entries of a text are those of its words.
        values: `(E,)` addend of match for s_f = 1, or w_f of a row.
        labels: `(T,)` label index of each text.
        words: `(T,)` number of words that coverage requires; 0 for descriptions, which are never covered; -1 for rows.
        weights: `(3, L)` weights of match, coverage and words for each label.
    """

    features: Tensor
    starts: Tensor
    positions: Tensor
    values: Tensor
    labels: Tensor
    words: Tensor
    weights: Tensor

    @classmethod
    def build(
        cls, labels: Iterable[Label], idf: Tensor, weights: Tensor, word_rows: tuple[Tensor, ...] | None = None
    ) -> "Postings":
        """Builds the postings of L labels from the idf of `WordWeights` and the output of `WordRows` for them."""
        label_texts: list[tuple[frozenset[int], int, float]] = []
        for column, label in enumerate(labels):
            names = {frozenset(lexical_features(name)): 1.0 for name in (label.name, *label.synonyms)}
            described = frozenset(number for number in lexical_features(label.description) if number % 2 == 0)
            label_texts += [(text, column, share) for text, share in ({described: 0.6} | names).items() if text]
        texts = [text for text, *_ in label_texts]
        labels_of_texts = torch.tensor([column for _, column, _ in label_texts], dtype=torch.long)
        shares = torch.tensor([share for *_, share in label_texts])
        rows = torch.arange(len(texts)).repeat_interleave(torch.tensor(list(map(len, texts)), dtype=torch.long))
        words_first = (sorted(text, key=lambda number: number % 2) for text in texts)
        features = torch.tensor(list(chain.from_iterable(words_first)), dtype=torch.long)
        squares = idf.detach().cpu().float().square()[features]
        total = torch.zeros(len(texts)).index_add_(0, rows, squares).clamp(min=1e-9)
        heaviest = torch.zeros(len(texts)).scatter_reduce_(0, rows, squares, "amax")
        values = squares * (shares / total**0.6)[rows]
        is_used = squares >= 0.1 * heaviest[rows]
        is_word = is_used & (features % 2 == 0) & (shares == 1)[rows]
        words = torch.bincount(rows[is_word], minlength=len(texts)).int()
        features, values = features[is_used], values[is_used]
        sizes = torch.bincount(rows[is_used], minlength=len(texts))
        if word_rows is not None:
            ids, positions, row_weights = (table.detach().cpu() for table in word_rows)
            row_labels, row_sizes = positions.unique_consecutive(return_counts=True)
            features = torch.cat([features, ids.long()])
            values = torch.cat([values, row_weights.float()])
            sizes = torch.cat([sizes, row_sizes])
            labels_of_texts = torch.cat([labels_of_texts, row_labels])
            words = torch.cat([words, words.new_full((len(row_labels),), -1)])
        tensors = (features, sizes, values, labels_of_texts, words, weights)
        return cls.from_entries(*(tensor.to(weights.device) for tensor in tensors))

    @classmethod
    def from_entries(cls, features: Tensor, sizes: Tensor, values: Tensor, *other_fields: Tensor) -> "Postings":
        """Numbers the `(E,)` features of T texts with these sizes; `other_fields` are labels, words and weights."""
        distinct, positions = features.unique(return_inverse=True)
        starts = functional.pad(sizes.cumsum(0), (1, 0))
        return cls(distinct.int(), starts.int(), positions.int(), values, *other_fields)

    def expand_features(self) -> Tensor:
        """Returns the `(E,)` features of all entries."""
        return self.features[self.positions]

    def entries_of(self, texts: Tensor) -> Tensor:
        """Returns the indices of the entries of `(C,)` texts, text by text."""
        return _concatenate_ranges(self.starts[texts].long(), self.starts.diff()[texts].long())

    @torch.compiler.disable
    @torch.no_grad()
    def scores(self, features: LexicalFeatures | None, number: int | None = None) -> Tensor:
        """Computes `(B, L)` addends of scores from the features of B documents.

        Raises:
            ValueError: If `features` is None, or `number` is passed and differs from B.
        """
        if features is None or number not in (None, len(features)):
            raise ValueError(
                "scores count words that texts share with labels: pass lexical_ids and lexical_counts, (B, F), which "
                "the processor returns with return_tensors='pt', or to an index LexicalFeatures.of(inputs); "
                "pipeline('text-classification', model=folder, trust_remote_code=True) passes them"
            )
        scores = self.values.new_empty(len(features), self.weights.shape[1])
        of_match, of_coverage, of_words = self.weights[..., None]
        for rows, (match, coverage, words) in self._blocks(features):
            sums = match.mul_(of_match).addcmul_(coverage, of_coverage).addcmul_(words, of_words)
            scores[rows] = sums.T
        return scores

    @torch.no_grad()
    def terms(self, features: LexicalFeatures) -> Tensor:
        """Computes match, coverage and words of documents for all labels, `(3, B, L)`."""
        computed = self.values.new_empty(3, len(features), self.weights.shape[1])
        for rows, terms in self._blocks(features):
            for number, term in enumerate(terms):
                computed[number, rows] = term.T
        return computed

    def _blocks(self, features: LexicalFeatures) -> Iterator[tuple[slice, tuple[Tensor, Tensor, Tensor]]]:
        """Yields rows of some documents at a time, and their match, coverage and words, `(L, rows)` each."""
        size = max(1, min(_DOCUMENTS_AT_ONCE, _SUMS_AT_ONCE // max(1, len(self.labels))))
        for start in range(0, len(features), size):
            rows = slice(start, start + size)
            yield rows, self._terms(_WordCounts.read(features.take(rows).to(self.values.device)))

    def _terms(self, documents: "_WordCounts") -> tuple[Tensor, Tensor, Tensor]:
        """Computes match, coverage and words of a block of B documents for all labels, `(L, B)` each."""
        features, rows = documents.features.unique(return_inverse=True)
        # The shares of the distinct features; row 0 is that of all features that no document has.
        table = documents.shares.new_zeros(len(features) + 1, len(documents.norms))
        table.index_put_((rows + 1, documents.rows), documents.shares, accumulate=True)
        row_of_feature = torch.zeros_like(self.features)
        if len(self.features):
            positions = torch.searchsorted(self.features, features)
            positions.clamp_(max=len(self.features) - 1)
            known = (self.features[positions] == features).nonzero()[:, 0]
            row_of_feature[positions[known]] = (known + 1).to(row_of_feature)
        sums = self._sum(table, row_of_feature)
        match, coverage, words = (sums.new_zeros(self.weights.shape[1], sums.shape[1]) for _ in range(3))
        row_texts = (self.words < 0).nonzero()[:, 0]
        words[self.labels[row_texts]] = sums[row_texts].div_(documents.norms)
        word_evidence(words)
        sums[row_texts] = 0.0
        owners = self.labels[:, None].expand_as(sums)
        match.scatter_reduce_(0, owners, sums, "amax")
        match.mul_(documents.factors)
        names, least = self._cover(table, row_of_feature)
        owners = self.labels[names, None].expand_as(least)
        coverage.scatter_reduce_(0, owners, least, "amax")
        coverage.mul_(documents.factors)
        return match, coverage, words

    def _sum(self, table: Tensor, row_of_feature: Tensor) -> Tensor:
        """Computes `(T, B)` sums of values times shares: the product of a sparse matrix and a table of shares."""
        if len(row_of_feature) * table.shape[1] <= _SMALL_TABLE:
            table, rows = table.index_select(0, row_of_feature), self.positions
        else:
            rows = row_of_feature.index_select(0, self.positions)
        return functional.embedding_bag(
            rows, table, self.starts, mode="sum", per_sample_weights=self.values, include_last_offset=True
        )

    def _cover(self, table: Tensor, row_of_feature: Tensor) -> tuple[Tensor, Tensor]:
        """Returns C names that a document of the block may contain, and `(C, B)` least shares of their words."""
        names = (self.words > 0).nonzero()[:, 0]
        first = self.starts[:-1]
        for entry in (first, first + self.words - 1):  # of the first and last word
            names = names[row_of_feature[self.positions[entry[names]]] > 0]
        sizes = self.words[names].long()
        words = self.positions[_concatenate_ranges(first[names].long(), sizes)]
        shares = table[row_of_feature[words]]
        owners = torch.arange(len(names), device=names.device).repeat_interleave(sizes)
        least = table.new_ones(len(names), table.shape[1])
        return names, least.scatter_reduce_(0, owners[:, None].expand_as(shares), shares, "amin")


class _WordCounts(NamedTuple):
    """Features of B documents.

    Args:
        rows: `(M,)` document of each feature.
        features: `(M,)` lexical features, and `LEXICAL_BUCKETS` + n for the neighbour n.
        shares: `(M,)` s_f of words, and |s| share_n of neighbours.
        factors: `(B,)` factors of match and coverage, below 1 for documents of fewer than 50 words.
        norms: `(B,)` lengths |s|.
    """

    rows: Tensor
    features: Tensor
    shares: Tensor
    factors: Tensor
    norms: Tensor

    @classmethod
    def read(cls, documents: LexicalFeatures) -> "_WordCounts":
        """Reads the features and neighbours of B documents."""
        rows, columns = documents.mask.nonzero(as_tuple=True)
        features = documents.ids[rows, columns]
        counts = documents.counts[rows, columns]
        shares = counts / (counts + 1)
        zeros = shares.new_zeros(len(documents))
        lengths = zeros.index_add(0, rows, (counts * (features % 2 == 0)).to(zeros))
        norms = zeros.index_add(0, rows, shares.square()).sqrt().clamp(min=1e-9)
        near = torch.arange(len(documents), device=rows.device).repeat_interleave(documents.neighbours.shape[1])
        return cls(
            torch.cat([rows, near]),
            torch.cat([features, LEXICAL_BUCKETS + documents.neighbours.flatten()]).int(),
            torch.cat([shares, norms[near] * documents.shares.flatten()]),
            (lengths / 50).clamp(max=1),
            norms,
        )


def word_evidence(shares: Tensor) -> Tensor:
    """Computes the term "words", log(1 + 200 max(0, share)), in place from the weighted sums of word rows."""
    return shares.clamp_(min=0).mul_(200).log1p_()


def _concatenate_ranges(starts: Tensor, sizes: Tensor) -> Tensor:
    """Concatenates ranges of integers with these starts and sizes."""
    numbers = (starts - sizes.cumsum(0) + sizes).repeat_interleave(sizes)
    return numbers.add_(torch.arange(len(numbers), device=numbers.device))


def _normalize_parts(text: Parts) -> Parts:
    """Scales the parts of h to a root mean square of 1, for cosines and rows."""
    return {name: rms_normalized(text[name]) for name in ("encoder", "bag")}


def _times(code: Tensor, weight: Tensor | float) -> Tensor:
    """Multiplies `(L, J)` codes with a weight, or with `(L,)` weights."""
    if isinstance(weight, float):
        return code if weight == 1 else code * weight
    return code * weight[:, None]


class CosineScale(nn.Module):
    """The factors c of the cosines, a factor for each part of the vectors, initially `config.cosine_scale`."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(parts))

    def forward(self, part: int) -> Tensor:
        """Returns the factor of a part, a scalar."""
        return self.scale[part]


class CosineTerm(ScoreTerm):
    """c cos(h_part, e_part), summed over the parts, encoder and bag, in which h and e must have equal sizes."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.widths = {"encoder": config.text_config.encoder_size, "bag": config.bag_size}
        self.factors = CosineScale(len(self.widths))

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """Computes the parts of text codes; see `ScoreTerm`."""
        return _normalize_parts(text)

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """Computes the parts of label codes; zeros for a part of e whose size differs from that of h."""
        parts = {}
        for index, (name, width) in enumerate(self.widths.items()):
            part = label[name]
            if part.shape[1] == width:
                parts[name] = rms_normalized(part) * (self.factors(index) / max(width, 1))
            else:
                parts[name] = part.new_zeros(len(part), width)
        return parts


class RowTerm(ScoreTerm):
    """r . h + b_l for a label with a row; each part of h is scaled to a root mean square of 1."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.sizes = (config.text_config.encoder_size, config.bag_size)

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """Computes the parts of text codes; the part "constant" is 1 and is multiplied by b_l."""
        return _normalize_parts(text) | {"constant": torch.ones_like(text["vector"][:, :1])}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """Splits rows into the parts of label codes; zeros for labels without a row."""
        vectors = label["vector"]
        if "row" not in label:
            sizes = {"encoder": self.sizes[0], "bag": self.sizes[1], "constant": 1}
            return {name: vectors.new_zeros(len(vectors), size) for name, size in sizes.items()}
        encoder, bag = label["row"].split(self.sizes, dim=1)
        return {"encoder": encoder, "bag": bag, "constant": label["row_bias"][:, None]}


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


class JointTerm(ScoreTerm):
    """The score of the paper, in a joint input-label space; see `JointInputLabelEmbedding`."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        labels, documents = PROJECTIONS[config.output_layer]
        bilinear = config.output_layer.startswith("bilinear")
        # If a single side is projected, the size of the space is that of the other side.
        size = config.joint_size if labels and documents else config.label_size if documents else config.document_size

        def projection(inputs: int, bias: bool) -> nn.Module:
            return per_language(config, config.share_joint_space, lambda: nn.Linear(inputs, size, bias=bias))

        self.label_projection = projection(config.label_size, not bilinear) if labels else None
        self.input_projection = projection(config.document_size, not bilinear) if documents else None
        self.classifier = per_language(config, False, BiasUnit if bilinear else lambda: ClassificationUnit(size))
        self.activation = ACT2FN[config.joint_act]
        self.input_activation = ACT2FN["linear" if bilinear else config.joint_act]
        self.dropout = nn.Dropout(config.joint_dropout)
        self.document_size = config.document_size
        # If other terms multiply h as well, V is applied to e: codes then have half the size, with one part for h.
        text, other_terms = config.text_config, config.cosine_score or config.label_rows
        is_scaled = text.text_encoder_type in ("nn", "transformer", "static") or text.encoder_cell == "none"
        is_plain = not (config.bag_size or config.joint_dropout or config.joint_layers > 1)
        self.projects_labels = config.output_layer == "bilinear" and other_terms and is_scaled and is_plain
        self.label_layers, self.input_layers = (
            nn.ModuleList(projection(size, True) for _ in range(config.joint_layers - 1)) for _ in range(2)
        )

    def projected_text(self, text: Parts, language: str | None) -> Tensor:
        """Computes `(B, J)` projected documents h', Eq. 8."""
        if self.input_projection is None:
            return text["vector"]
        h = self.input_activation(select_module(self.input_projection, language)(self.dropout(text["vector"])))
        return self._apply_layers(h, self.input_layers, language)

    def projected_label(self, label: Parts, language: str | None) -> Tensor:
        """Computes `(L, J)` projected labels e', Eq. 7."""
        if self.label_projection is None:
            return label["vector"]
        e = self.activation(select_module(self.label_projection, language)(self.dropout(label["vector"])))
        return self._apply_layers(e, self.label_layers, language)

    def _apply_layers(self, codes: Tensor, layers: Iterable[nn.Module], language: str | None) -> Tensor:
        """Applies the residual layers of a projection to codes."""
        for layer in layers:
            codes = codes + self.activation(select_module(layer, language)(self.dropout(codes)))
        return codes

    def text_part(self, text: Parts, language: str | None) -> Parts:
        """Computes the part of text codes, which includes the weights w of Eq. 11."""
        if self.projects_labels:
            return {"encoder": rms_normalized(text["encoder"])}
        weight = select_module(self.classifier, language)()[0]
        projected = self.projected_text(text, language)
        return {"joint": projected if weight is None else projected * weight[0]}

    def label_part(self, label: Parts, language: str | None) -> Parts:
        """Computes the part of label codes; see `ScoreTerm`."""
        if self.projects_labels:
            identity = torch.eye(self.document_size).to(label["vector"])
            return {"encoder": rms_normalized(label["vector"]) @ self.projected_text({"vector": identity}, language).T}
        return {"joint": self.projected_label(label, language)}

    def bias(self, language: str | None = None) -> Tensor:
        """Returns the bias b of the score for documents of a language, `(1,)`."""
        return select_module(self.classifier, language)()[1]


class JointInputLabelEmbedding(JointTerm):
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
        super().__init__(config)
        self.config = config
        self.cosine = CosineTerm(config) if config.cosine_score else None
        self.rows = RowTerm(config) if config.label_rows else None
        self.lexical = WordWeights() if config.lexical else None
        self.bag_size = config.bag_size

    @property
    def terms(self) -> dict[str, ScoreTerm]:
        """Terms that are inner products of codes, by name."""
        terms = {"joint": self, "cosine": self.cosine, "rows": self.rows}
        return {name: term for name, term in terms.items() if term is not None}

    @property
    def mixture(self) -> Mixture:
        """The weights of the terms."""
        return self.config.mixture

    @property
    def counts_words(self) -> bool:
        """Whether any term that compares words has a weight other than zero."""
        return self.mixture.uses(*WORD_TERMS)

    def word_weights(self, number: int, rows: Rows | None = None) -> Tensor:
        """Returns `(3, L)` weights of match, coverage and words for a `number` L of labels, with or without rows."""
        assert self.lexical is not None
        zeros = torch.zeros(number, device=self.lexical().device)
        return torch.stack([zeros + self.mixture.of_rows(term, rows) for term in WORD_TERMS])

    @property
    def _has_constant(self) -> bool:
        """Whether label codes include an additive constant."""
        return self.rows is not None or self.mixture.sets("offset")

    def project_labels(
        self, label_embeds: Tensor, language: str | None = None, label_rows: Rows | None = None
    ) -> Tensor:
        """Computes `(L, J)` codes of `(L, D)` label vectors, Eq. 7, for documents of a language.

        A code is act(U e + b_u), followed by the parts of the other terms, each times the weight of its term.
        """
        codes: Parts = {}
        mixture = self.mixture
        label = self.split_parts(label_embeds, label_rows)
        ones = label_embeds.new_ones(len(label_embeds), 1)
        for name, term in self.terms.items():
            weight = mixture.of_rows(name, label_rows)
            for part, code in term.label_part(label, language).items():
                weighted = _times(code, weight)
                codes[part] = codes[part] + weighted if part in codes else weighted
        if self._has_constant:
            codes["constant"] = codes.get("constant", 0) + _times(ones, mixture.of_rows("offset", label_rows))
        return torch.cat([codes[part] for part in CODE_PARTS if part in codes], -1)

    def split_parts(self, vectors: Tensor, label_rows: Rows | None = None) -> Parts:
        """Returns vectors h or e, their parts, and the rows of labels, if any, as inputs of the terms."""
        encoder = vectors.shape[1] - self.bag_size
        parts = {"vector": vectors, "encoder": vectors[:, :encoder], "bag": vectors[:, encoder:]}
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
        size, sizes = config.document_size, config.language_labels
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
