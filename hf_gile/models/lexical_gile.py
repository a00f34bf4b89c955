"""Words that texts and labels share: hashed features of texts, and the score terms that compare them.

Shapes: B documents, L labels, H document size.
"""

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .labels_gile import Label
from .texts_gile import pad_rows, parts_of

# Letters and digits, with vowel signs of scripts that write them as marks; the length of runs is limited.
_WORD = re.compile(
    "[\\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0eff\u1000-\u109f\u1780-\u17d3]{1,64}"
)

LEXICAL_BUCKETS = 1 << 20
"""Upper bound of lexical features of texts, and of their number in a text. A document has those of its
title once more, plus this number."""

NEIGHBOURS = 2 * LEXICAL_BUCKETS
"""Lexical feature of the first stored document."""

_HIGHEST_COUNT = 2048

_LONGEST_TITLE = 200
"""Number of characters up to which a text of a single line is a title."""


@dataclass(frozen=True, eq=False)
class LexicalFeatures:
    """The words and parts of words of B documents, and the stored documents nearest to them.

    Args:
        ids: `(B, F)` distinct features of each document, as of `count_features`, padded with -1.
        counts: `(B, F)` how often each occurs in the document; 0 for padding.
        neighbours: `(B, K)` numbers of stored documents; K is 0 for a model without.
        shares: `(B, K)` weights of the neighbours, which add up to 1.
    """

    ids: Tensor
    counts: Tensor
    neighbours: Tensor
    shares: Tensor

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "LexicalFeatures | None":
        """Reads the tensors `lexical_ids` and `lexical_counts` of a processor or collator; None if they are missing."""
        ids = inputs.get("lexical_ids")
        if ids is None:
            return None
        counts = inputs["lexical_counts"]
        none = ids.new_zeros(len(ids), 0)
        return cls(ids, counts, none, none.float())

    def __len__(self) -> int:
        return len(self.ids)

    def map(self, function: Callable[[Tensor], Tensor]) -> "LexicalFeatures":
        """Applies a function to each tensor."""
        return LexicalFeatures(*(function(getattr(self, item.name)) for item in fields(self)))

    def take(self, rows: Tensor | slice | Sequence[int]) -> "LexicalFeatures":
        """Selects documents by indices, a mask or a slice."""
        return self.map(lambda tensor: tensor[rows])

    def to(self, device: torch.device) -> "LexicalFeatures":
        """Moves all tensors to a device."""
        return self.map(lambda tensor: tensor.to(device))


def pad_features(lists: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, Tensor]:
    """Pads lists of `lexical_ids` and `lexical_counts`, if any, to the longest of B documents, `(B, F)` each."""
    padding = {"lexical_ids": -1, "lexical_counts": 0}
    return {name: pad_rows(rows, padding[name]) for name, rows in lists.items()}


def list_features(texts: Iterable[str]) -> dict[str, list[list[int]]]:
    """Lists the `lexical_ids` and `lexical_counts` of texts."""
    counted = [count_features(text) for text in texts]
    return {
        "lexical_ids": [list(row) for row in counted],
        "lexical_counts": [list(row.values()) for row in counted],
    }


def count_features(text: str) -> dict[int, int]:
    """Counts the lexical features of a text, in ascending order, up to 2,048 of each.

    Words in the title, the first line of a multi-line text, count three times. Features of the title occur once
    more, plus `LEXICAL_BUCKETS`. A short text of a single line is a title, too, but its words count once.
    """
    title, _, rest = text.strip().partition("\n")
    features = _all_features(text)
    in_title = features
    if rest:
        in_title = _all_features(title)
        features += 2 * in_title
    if rest or len(title) <= _LONGEST_TITLE:
        features = features + [LEXICAL_BUCKETS + feature for feature in in_title]
    counts = dict(sorted(Counter(features).items()))
    if len(features) > _HIGHEST_COUNT:
        counts = {feature: min(number, _HIGHEST_COUNT) for feature, number in counts.items()}
    return counts


def _all_features(text: str) -> list[int]:
    return list(chain.from_iterable(map(lexical_features, parts_of(text))))


def lexical_features(text: str) -> list[int]:
    """Hashes the words of a text and their character n-grams, the features that documents and labels share.

    Words are normalized (NFKC) and casefolded. Words of more than 4 letters also have 4-grams, so that compounds and
    inflected forms share features; words of more than 2 letters in East Asian scripts have 2-grams.

    Returns:
        Hashes in order, with repetitions: even for words, odd for n-grams.

    Example:
        >>> len(set(lexical_features("steamboats")) & set(lexical_features("steamboat")))
        6
    """
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return list(chain.from_iterable(map(_features, words)))


@lru_cache(1 << 15)
def _features(word: str) -> tuple[int, ...]:
    """Returns the hashes of a word and of its n-grams."""
    size = 2 if word[0] >= "\u2e80" else 4
    parts = [word[start : start + size] for start in range(len(word) - size + 1)] if len(word) > size else []
    words = [zlib.crc32(part.encode()) << 1 for part in (word, *parts)]
    return tuple((number | (position > 0)) % LEXICAL_BUCKETS for position, number in enumerate(words))


_DOCUMENTS_AT_ONCE = 64
"""Maximum number of documents whose words are compared at once."""

_SUMS_AT_ONCE = 1 << 23
"""Maximum number of their sums over label texts."""

_SMALL_TABLE = 1 << 19
"""Maximum number of shares in a table with a row for every feature of labels; a larger one is restricted."""


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
        title(d, l) = 1 if the title of d contains all words of a name of l, else 0
        specificity(d, l) = min_t max_f idf_f, of the words f of names t of l: how rare its most common name is
        words(d, l) = log(1 + 200 max(0, sum_f s_f w_f / |s| + sum_n share_n w_n)), w the row of l, if any (`WordRows`)

    The texts t of a label are its name, its synonyms, and its description (words only, with share_t = 0.6). f are
    lexical features of both d and t with at least a tenth of the weight of the heaviest feature of t; counts are capped
    at 2,048. n are `Neighbours` of d. For documents of fewer words than `full_length`, match and coverage are scaled
    down by the length.

    Args:
        features: `(F,)` distinct lexical features of all texts, in ascending order.
        starts: `(T + 1,)` offsets of the first entry of each text, and the number of entries.
        positions: `(E,)` index of the feature of each entry. The first entries of a text are those of its words.
        values: `(E,)` addend of match for s_f = 1, or w_f of a row.
        labels: `(T,)` label index of each text.
        words: `(T,)` number of words that coverage requires; 0 for descriptions, which are never covered; -1 for rows.
        weights: `(5, L)` weights of `WORD_TERMS` for each label.
        specificity: `(L,)` the term of this name.
        full_length: `()` number of words, see above.
    """

    features: Tensor
    starts: Tensor
    positions: Tensor
    values: Tensor
    labels: Tensor
    words: Tensor
    weights: Tensor
    specificity: Tensor
    full_length: Tensor

    @classmethod
    def build(
        cls,
        labels: Iterable[Label],
        idf: Tensor,
        weights: Tensor,
        word_rows: tuple[Tensor, ...] | None = None,
        full_length: int = 50,
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
        rarest = torch.zeros(len(texts)).scatter_reduce_(0, rows, squares * (features % 2 == 0), "amax")
        rarest[shares < 1] = torch.inf  # of descriptions
        lowest = torch.full(weights.shape[1:], torch.inf).scatter_reduce_(0, labels_of_texts, rarest, "amin")
        specificity = lowest.nan_to_num(posinf=0.0).sqrt()
        is_used = squares >= 0.1 * heaviest[rows]
        is_word = is_used & (features % 2 == 0) & (shares == 1)[rows]
        words = torch.bincount(rows[is_word], minlength=len(texts)).int()
        features = features[is_used]
        values = values[is_used]
        sizes = torch.bincount(rows[is_used], minlength=len(texts))
        if word_rows is not None:
            ids, positions, row_weights = (table.detach().cpu() for table in word_rows)
            row_labels, row_sizes = positions.unique_consecutive(return_counts=True)
            features = torch.cat([features, ids.long()])
            values = torch.cat([values, row_weights.float()])
            sizes = torch.cat([sizes, row_sizes])
            labels_of_texts = torch.cat([labels_of_texts, row_labels])
            words = torch.cat([words, words.new_full((len(row_labels),), -1)])
        tensors = (features, sizes, values, labels_of_texts, words, weights, specificity, torch.tensor(full_length))
        return cls.from_entries(*(tensor.to(weights.device) for tensor in tensors))

    @classmethod
    def from_entries(cls, features: Tensor, sizes: Tensor, values: Tensor, *other_fields: Tensor) -> "Postings":
        """Numbers the `(E,)` features of T texts with these sizes; `other_fields` are labels and those after them."""
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
        of_match, of_coverage, of_words, of_title, of_specificity = self.weights[..., None]
        for rows, (match, coverage, words, title) in self._blocks(features):
            sums = match.mul_(of_match)
            sums[coverage.labels] += coverage.shares * of_coverage[coverage.labels]
            sums.addcmul_(words, of_words)
            sums[title.labels] += title.shares * of_title[title.labels]
            sums += of_specificity * self.specificity[:, None]
            scores[rows] = sums.T
        return scores

    @torch.no_grad()
    def terms(self, features: LexicalFeatures) -> Tensor:
        """Computes the `WORD_TERMS` of documents for all labels, `(5, B, L)`."""
        computed = self.values.new_zeros(len(self.weights), len(features), self.weights.shape[1])
        of_match, of_coverage, of_words, of_title, of_specificity = computed
        of_specificity.copy_(self.specificity)
        for rows, (match, coverage, words, title) in self._blocks(features):
            of_match[rows] = match.T
            of_coverage[rows, coverage.labels] = coverage.shares.T
            of_words[rows] = words.T
            of_title[rows, title.labels] = title.shares.T
        return computed

    def _blocks(self, features: LexicalFeatures) -> Iterator[tuple[slice, "_Terms"]]:
        """Yields rows of some documents at a time, and their terms."""
        size = max(1, min(_DOCUMENTS_AT_ONCE, _SUMS_AT_ONCE // max(1, len(self.labels))))
        for start in range(0, len(features), size):
            rows = slice(start, start + size)
            yield rows, self._terms(_WordCounts.read(features.take(rows).to(self.values.device), self.full_length))

    def _terms(self, documents: "_WordCounts") -> "_Terms":
        """Computes the terms of a block of B documents."""
        features, rows = documents.features.unique(return_inverse=True)
        # The shares of the distinct features; row 0 is that of all features that no document has.
        table = documents.shares.new_zeros(len(features) + 1, len(documents.norms))
        table.index_put_((rows + 1, documents.rows), documents.shares, accumulate=True)
        row_of_feature = self._find(features)
        sums = self._sum(table, row_of_feature)
        match, words = (sums.new_zeros(self.weights.shape[1], sums.shape[1]) for _ in range(2))
        row_texts = (self.words < 0).nonzero()[:, 0]
        words[self.labels[row_texts]] = sums[row_texts].div_(documents.norms)
        word_evidence(words)
        sums[row_texts] = 0.0
        owners = self.labels[:, None].expand_as(sums)
        match.scatter_reduce_(0, owners, sums, "amax").mul_(documents.factors)
        coverage = self._cover(table, row_of_feature)
        coverage.shares.mul_(documents.factors)
        of_title = torch.where(features < NEIGHBOURS, features - LEXICAL_BUCKETS, -1)
        return match, coverage, words, self._cover(table, self._find(of_title))

    def _find(self, features: Tensor) -> Tensor:
        """Returns where features of the postings are among `(M,)` others, counted from 1; else 0."""
        rows = torch.zeros_like(self.features)
        if len(rows):
            positions = torch.searchsorted(self.features, features).clamp_(max=len(rows) - 1)
            known = (self.features[positions] == features).nonzero()[:, 0]
            rows[positions[known]] = (known + 1).to(rows)
        return rows

    def _sum(self, table: Tensor, row_of_feature: Tensor) -> Tensor:
        """Computes `(T, B)` sums of values times shares: the product of a sparse matrix and a table of shares."""
        if len(row_of_feature) * table.shape[1] <= _SMALL_TABLE:
            table = table.index_select(0, row_of_feature)
            rows = self.positions
        else:
            rows = row_of_feature.index_select(0, self.positions)
        return functional.embedding_bag(
            rows, table, self.starts, mode="sum", per_sample_weights=self.values, include_last_offset=True
        )

    def _cover(self, table: Tensor, row_of_feature: Tensor) -> "_Covered":
        """Returns the labels that a document of the block may name."""
        names = (self.words > 0).nonzero()[:, 0]
        first = self.starts[:-1]
        for entry in (first, first + self.words - 1):  # of the first and last word
            names = names[row_of_feature[self.positions[entry[names]]] > 0]
        sizes = self.words[names].long()
        words = self.positions[_concatenate_ranges(first[names].long(), sizes)]
        shares = table[row_of_feature[words]]
        owners = torch.arange(len(names), device=names.device).repeat_interleave(sizes)
        least = table.new_ones(len(names), table.shape[1])
        least.scatter_reduce_(0, owners[:, None].expand_as(shares), shares, "amin")
        labels, owners = self.labels[names].unique(return_inverse=True)
        highest = table.new_zeros(len(labels), table.shape[1])
        return _Covered(labels, highest.scatter_reduce_(0, owners[:, None].expand_as(least), least, "amax"))


class _Covered(NamedTuple):
    """Labels that documents may name.

    Args:
        labels: `(C,)` distinct indices of labels.
        shares: `(C, B)` least share of the words of a name, the highest of all names of a label; 0 if none is covered.
    """

    labels: Tensor
    shares: Tensor


_Terms = tuple[Tensor, _Covered, Tensor, _Covered]
"""The `WORD_TERMS` that depend on B documents: match and words `(L, B)`, coverage and title where there is any."""


class _WordCounts(NamedTuple):
    """Features of B documents.

    Args:
        rows: `(M,)` document of each feature.
        features: `(M,)` lexical features, and `NEIGHBOURS` + n for the neighbour n.
        shares: `(M,)` s_f of words, 1 for words of the title, and |s| share_n of neighbours.
        factors: `(B,)` factors of match and coverage, below 1 for documents of fewer words than `full_length`.
        norms: `(B,)` lengths |s|.
    """

    rows: Tensor
    features: Tensor
    shares: Tensor
    factors: Tensor
    norms: Tensor

    @classmethod
    def read(cls, documents: LexicalFeatures, full_length: Tensor) -> "_WordCounts":
        """Reads the features and neighbours of B documents."""
        rows, columns = (documents.ids >= 0).nonzero(as_tuple=True)
        features = documents.ids[rows, columns]
        counts = documents.counts[rows, columns]
        in_text = features < LEXICAL_BUCKETS
        shares = torch.where(in_text, counts / (counts + 1), 1.0)
        zeros = shares.new_zeros(len(documents))
        lengths = zeros.index_add(0, rows, (counts * (in_text & (features % 2 == 0))).to(zeros))
        norms = zeros.index_add(0, rows, shares.square() * in_text).sqrt().clamp(min=1e-9)
        near = torch.arange(len(documents), device=rows.device).repeat_interleave(documents.neighbours.shape[1])
        return cls(
            torch.cat([rows, near]),
            torch.cat([features, NEIGHBOURS + documents.neighbours.flatten()]).int(),
            torch.cat([shares, norms[near] * documents.shares.flatten()]),
            (lengths / full_length).clamp(max=1),
            norms,
        )


def word_evidence(shares: Tensor) -> Tensor:
    """Computes the term "words", log(1 + 200 max(0, share)), in place from the weighted sums of word rows."""
    return shares.clamp_(min=0).mul_(200).log1p_()


def _concatenate_ranges(starts: Tensor, sizes: Tensor) -> Tensor:
    """Concatenates ranges of integers with these starts and sizes."""
    numbers = (starts - sizes.cumsum(0) + sizes).repeat_interleave(sizes)
    return numbers.add_(torch.arange(len(numbers), device=numbers.device))
