"""Fits rows of words: the few words that indicate a label, by least squares, or in small sets by a squared hinge loss.

All labels share the inverse of a least-squares fit, so that tens of thousands of labels take minutes.

Shapes: N documents, F words, L labels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, hstack, vstack
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch.nn import functional

from ...models.lexical_gile import LEXICAL_BUCKETS, NEIGHBOURS, Postings, word_evidence
from ...models.scoring_gile import Neighbours
from ..encoding import Progress

_SOLVED_AT_ONCE, _RANK, _STEPS = 4000, 200, 3
"""Maximum N for a direct solve; beyond it, rank of the preconditioner and number of conjugate gradient steps."""

_MARGIN_STEPS, _EXACT_STEPS, _COSTLY_MARGINS = 15, 8, 300_000_000
"""Steps of `fit_margins`, and of each of its solutions; words of all documents times labels above which it takes a
single step."""

_OF_NEIGHBOURS = 0.5
"""Weight of the share of neighbours that have a label, beside the share by words."""

_LABELS_AT_ONCE, _COSTLY = 1024, 20_000_000_000
"""Labels fitted at once; words of all documents times labels above which parts of words are left out."""

_COMPARED_AT_ONCE = 512
"""Documents compared with all stored documents at once."""

_NAMED_AT_ONCE = 256
"""Documents whose words are compared with all names at once."""

_ROW_WORDS, _ALL_WORDS = 1024, 4_000_000
"""Limits per row and in total; above the total, rows are cut in proportion to sqrt(n) of n documents."""


class WordRegression:
    """The words of documents, some for fitting rows and others for scoring with them.

    Args:
        counts: `(N, LEXICAL_BUCKETS)` counts of lexical features; see `feature_counts`.
        vectors: `(N, H)` document vectors, if the labels of similar documents count.
        num_stored: Number M of documents that are stored as neighbours, the first ones.
        named: `(N, L)` ones where a document names a label, see `named_labels`; optional.
    """

    def __init__(
        self,
        counts: csr_matrix,
        vectors: Tensor | None = None,
        num_stored: int = 0,
        named: csr_matrix | None = None,
    ) -> None:
        filled = counts.copy()
        filled.data = (counts.data / (counts.data + 1)).astype(np.float32)
        lengths = np.sqrt(np.asarray(filled.multiply(filled).sum(1)).ravel())
        self.words: csr_matrix = (diags(1 / np.maximum(lengths, 1e-9)) @ filled).astype(np.float32).tocsr()
        self.vectors = vectors
        self.num_stored = num_stored
        self.named = named
        self.neighbours = None if vectors is None else table_of_neighbours(vectors[:num_stored])

    def fit(self, rows: Tensor, targets: csr_matrix, l2: float, parts_weight: float) -> csr_matrix:
        """Fits the rows of labels.

            w_l = argmin_w  sum_d (w . x_d - [d has l])^2 + l2 |w|^2,  x_df = s_df idf_f / |s_d|

        Small sets are fitted by the loss of `fit_margins` instead. x is scaled to a mean square length of 1; only the
        largest weights of w are stored, and with many labels fewer for a label of few documents. `_STEPS` of
        conjugate gradients solve what the largest singular vectors of many documents leave.

        Args:
            rows: `(N,)` numbers of the documents to fit on.
            targets: `(N, L)` ones where a document has a label; labels without documents get an empty row.
            l2: The weight of L2.
            parts_weight: Factor of the idf of parts of words.

        Returns:
            `(L, NEIGHBOURS + M)` weights of words and of neighbours.
        """
        x, num_labels = self.words[rows.numpy()], targets.shape[1]
        frequencies = np.bincount(x.indices, minlength=x.shape[1])
        is_used = frequencies >= min(2, len(rows))
        if x.nnz * num_labels > _COSTLY:
            is_used[1::2] = False  # odd features are parts of words
        used = np.flatnonzero(is_used)
        idf = 1 + np.log((1 + len(rows)) / (1 + frequencies[used]))
        idf[used % 2 == 1] *= parts_weight
        x = x[:, used] @ diags(idf)
        scale = (len(rows) / max(float(x.multiply(x).sum()), 1e-9)) ** 0.5
        x, weights = (x * scale).astype(np.float32).tocsr(), (idf * scale).astype(np.float32)
        steps = _MARGIN_STEPS if x.nnz * num_labels <= _COSTLY_MARGINS else 1
        solve, back = _solver(x, l2, _STEPS if steps == 1 else _EXACT_STEPS), x.T.tocsr()
        numbers = targets.getnnz(0)
        fitted = np.flatnonzero(numbers)
        most = np.minimum(_sizes(numbers), len(used))
        fitted = fitted[most[fitted].argsort(kind="stable")]
        words, values = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        progress = Progress("fitting rows of words", len(fitted), "label")
        for columns in np.array_split(fitted, max(1, -(-len(fitted) // _LABELS_AT_ONCE))):
            fit = fit_margins(x, back, solve, targets[:, columns].toarray(), steps)
            w = torch.from_numpy(fit.T).contiguous()  # (labels, F)
            largest = w.abs().topk(int(most[columns].max(initial=0)), 1).indices
            is_stored = torch.arange(largest.shape[1]) < torch.from_numpy(most[columns, None])
            words.append(largest[is_stored].numpy())
            values.append(w.gather(1, largest)[is_stored].numpy())
            progress.count(len(columns))
        stored = np.concatenate(words)
        of_words = csr_matrix(
            (np.concatenate(values) * weights[stored], (fitted.repeat(most[fitted]), used[stored])),
            (num_labels, NEIGHBOURS),
        )
        coo = targets.tocoo()
        numbers = rows.numpy()[coo.row]
        inside = numbers < self.num_stored
        of_documents = csr_matrix(
            (np.full(inside.sum(), _OF_NEIGHBOURS, np.float32), (coo.col[inside], numbers[inside])),
            (num_labels, self.num_stored),
        )
        return hstack([of_words, of_documents]).tocsr()

    def scores(self, rows: Tensor, fitted: csr_matrix, chosen: Tensor) -> Tensor:
        """Computes the term "words" of documents by their numbers, for the labels of an `(L,)` mask."""
        chosen_rows, read = fitted[chosen.numpy()], rows.numpy()
        shares = self.words[read] @ chosen_rows[:, :LEXICAL_BUCKETS].T
        if self.neighbours is not None and self.vectors is not None:
            near = shares_of_neighbours(self.neighbours, self.vectors[rows], rows)
            shares = shares + near @ chosen_rows[:, NEIGHBOURS:].T
        return word_evidence(torch.from_numpy(shares.toarray()))


def feature_counts(documents: Iterable[Mapping[str, Sequence[int]]]) -> csr_matrix:
    """Returns the `(N, LEXICAL_BUCKETS)` counts of documents with `lexical_ids` and `lexical_counts`."""
    ids = [np.zeros(0, np.int32)]
    counts = [np.zeros(0, np.int16)]
    sizes = [0]
    for document in documents:
        ids.append(np.asarray(document["lexical_ids"], np.int32))
        counts.append(np.asarray(document["lexical_counts"], np.int16))
        sizes.append(len(ids[-1]))
    entries = np.concatenate(counts), np.concatenate(ids), np.cumsum(sizes)
    return csr_matrix(entries, (len(sizes) - 1, 2 * LEXICAL_BUCKETS))[:, :LEXICAL_BUCKETS]


def named_labels(postings: Postings, counts: csr_matrix, wanted: Tensor) -> csr_matrix:
    """Returns which documents contain all words of a name of a label: "coverage" is above 0.

    Args:
        postings: Postings of L labels, which say by `words` how many words of a name are required.
        counts: `(N, LEXICAL_BUCKETS)` counts of lexical features.
        wanted: `(L,)` booleans; other labels count as not named.

    Returns:
        `(N, L)` zeros and ones.
    """
    features = postings.expand_features()
    texts = torch.arange(len(postings.labels)).repeat_interleave(postings.starts.diff())
    is_name = (postings.words > 0) & wanted[postings.labels]
    is_word = is_name[texts] & (features % 2 == 0)  # even for words
    entries = features[is_word].numpy(), texts[is_word].numpy()
    has_word = csr_matrix(
        (np.ones(len(entries[0]), np.int16), entries),
        (LEXICAL_BUCKETS, len(postings.words)),
    )
    required = postings.words.numpy()
    labels = postings.labels.numpy()
    parts = [csr_matrix((0, len(wanted)), dtype=np.float32)]
    for start in range(0, counts.shape[0], _NAMED_AT_ONCE):
        block = counts[start : start + _NAMED_AT_ONCE]
        contains = csr_matrix((np.ones(block.nnz, np.int16), block.indices, block.indptr), block.shape)
        shared = (contains @ has_word).tocoo()
        complete = shared.data == required[shared.col]
        rows, columns = shared.row[complete], labels[shared.col[complete]]
        part = csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (block.shape[0], len(wanted)))
        part.data[:] = 1  # a label may have several names
        parts.append(part)
    return vstack(parts).tocsr()


def table_of_neighbours(h: Tensor) -> Neighbours:
    """Makes the table of stored documents of `(N, H)` document vectors."""
    h = functional.normalize(h, dim=-1)
    mean = h.mean(0, keepdim=True)
    table = Neighbours(len(h) + 1, h.shape[1], _weight=torch.cat([functional.normalize(h - mean, dim=-1), mean]))
    return table.requires_grad_(False)


def shares_of_neighbours(table: Neighbours, h: Tensor, numbers: Tensor) -> csr_matrix:
    """Returns `(D, N)` shares of the N documents of a table in the neighbours of D documents, without themselves.

    Args:
        table: The stored documents.
        h: `(D, H)` document vectors.
        numbers: `(D,)` numbers of the documents; stored documents have those below N.
    """
    parts = [table(part) for part in h.split(_COMPARED_AT_ONCE)]
    documents, shares = map(torch.cat, zip(*parts, strict=True))
    shares[documents == numbers[:, None]] = 0
    shares /= shares.sum(1, keepdim=True).clamp(min=1e-9)
    ends = np.arange(len(h) + 1) * documents.shape[1]
    near = csr_matrix((shares.numpy().ravel(), documents.numpy().ravel(), ends), (len(h), table.num_embeddings - 1))
    near.sum_duplicates()
    near.eliminate_zeros()
    return near


def _sizes(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the number of words in the rows of labels, by their number of documents."""
    times = float(_ROW_WORDS)
    while True:
        sizes = np.minimum(_ROW_WORDS, times * np.sqrt(numbers)).astype(np.int64)
        if times <= 1 or sizes.sum() <= _ALL_WORDS:
            return sizes
        times *= 0.9


def gold_matrix(gold: Tensor, num_labels: int, named: csr_matrix | None = None) -> csr_matrix:
    """Returns `(N, L)` ones where a document has a label, or, for labels without documents, where it names the label.

    Args:
        gold: `(N, G)` gold columns, padded with -100.
        num_labels: L.
        named: `(N, L)` ones where a document names a label.
    """
    positions = (gold >= 0).nonzero()[:, 0].numpy(), gold[gold >= 0].numpy()
    has = csr_matrix((np.ones(len(positions[0]), np.float32), positions), shape=(len(gold), num_labels))
    if named is not None:
        has = (has + named @ diags((has.getnnz(0) == 0).astype(np.float32))).tocsr()
        has.eliminate_zeros()
    has.data[:] = 1  # a repeated label of a document
    return has


def fit_margins(
    x: csr_matrix,
    back: csr_matrix,
    solve: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    y: NDArray[np.float32],
    steps: int,
) -> NDArray[np.float32]:
    """Fits weights by least squares in the first step, and by a squared hinge loss in further steps.

        w_l = argmin_w  sum_d m_dl^2 + l2 |w|^2,  m_dl = max(0, 1 - w . x_d) if d has l, else max(0, w . x_d)

    Each step is a least-squares fit. Its targets are the previous scores, raised to 1 where a document has the label,
    and lowered to 0 elsewhere. Scores have the momentum of FISTA (Beck & Teboulle, 2009).

    Args:
        x: `(N, F)` documents.
        back: `(F, N)`, x transposed.
        solve: Multiplies `(N, L)` numbers with the inverse of X X' + l2.
        y: `(N, L)` ones where a document has a label, else zeros.
        steps: Number of steps.

    Returns:
        `(F, L)` weights.
    """
    targets, scores = y, np.zeros_like(y)
    for step in range(steps):
        w = np.asarray(back @ solve(targets), np.float32)
        if step + 1 < steps:
            last, scores = scores, x @ w
            moved = scores + np.float32(step / (step + 3)) * (scores - last)
            targets = np.where(y > 0, np.maximum(1, moved), np.minimum(0, moved))
    return w


def _solver(x: csr_matrix, l2: float, steps: int = _STEPS) -> Any:
    """Returns a function that solves (X X' + l2 I) z = y for `(N, L)` numbers y."""
    back = x.T.tocsr()
    if x.shape[0] <= _SOLVED_AT_ONCE:
        matrix = torch.from_numpy((x @ back).toarray())
        factor = torch.linalg.cholesky(matrix + l2 * torch.eye(len(matrix)))
        return lambda y: torch.cholesky_solve(torch.from_numpy(y), factor).numpy()
    u, singular, _ = randomized_svd(x, min(_RANK, min(x.shape) - 1), n_iter=2, random_state=0)
    u, squares = u.astype(np.float32), (singular**2).astype(np.float32)
    rest = l2 + squares[-1] / 2
    inner = (1 / (squares + l2) - 1 / rest)[:, None]

    def near(r: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(r / rest + u @ (inner * (u.T @ r)), np.float32)

    def solve(y: NDArray[np.float32]) -> NDArray[np.float32]:
        solved = near(y)
        r = y - (x @ (back @ solved) + l2 * solved)
        z = near(r)
        p, rz = z, (r * z).sum(0)
        for _ in range(steps):
            q = x @ (back @ p) + l2 * p
            step = rz / np.maximum((p * q).sum(0), 1e-20)
            solved, r = solved + step * p, r - step * q
            z = near(r)
            before, rz = rz, (r * z).sum(0)
            p = z + (rz / np.maximum(before, 1e-20)) * p
        return solved

    return solve
