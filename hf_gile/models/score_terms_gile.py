"""What stands beside the joint embedding in a score: lexical overlap, similarity, and a row for each stored label.

All of it is an inner product of something of the document and something of the label, so it lengthens their codes and
changes nothing else.

Shapes: B documents, L labels, R texts of T tokens, H document size, D label size.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from .configuration_gile import LEXICAL_HASHES
from .text_encoders_gile import rms_normalized


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
        self.vectors = BagEmbedding(config.vocab_size, config.bag_size)
        self.log_weights = ZeroEmbedding(config.vocab_size, 1)

    def forward(self, input_ids: Tensor, mask: Tensor, sparse: bool = False) -> Tensor:
        """Encodes texts.

        Args:
            input_ids: `(R, T)` token ids, documents or labels.
            mask: `(R, T)` booleans, true where there is a token.
            sparse: Whether gradients of the tables are sparse tensors, for who adds up those of many calls.

        Returns:
            `(R, bag_size)` vectors; zero for a text without tokens.
        """
        number = self.vectors.num_embeddings
        rows = torch.arange(len(input_ids), device=input_ids.device)[:, None]
        distinct, counts = torch.unique((rows * number + input_ids)[mask], return_counts=True)
        tokens = distinct % number
        starts = torch.searchsorted(distinct, rows[:, 0] * number)
        weights = functional.embedding(tokens, self.log_weights.weight, sparse=sparse).squeeze(-1).exp()
        total = functional.embedding_bag(
            tokens,
            self.vectors.weight,
            starts,
            mode="sum",
            sparse=sparse,
            per_sample_weights=weights * (1 + counts.to(weights.dtype).log()),
        )
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
    def fit(self, documents: Iterable[Sequence[Any]], special_ids: Sequence[int] = ()) -> None:
        """Sets the idf of every feature: log((1 + N) / (1 + documents with it)) + 1.

        Args:
            documents: N documents of token ids, of sentences or windows of token ids too.
            special_ids: Tokens that do not count, such as those at the ends of every text.
        """
        device = self.idf.device
        seen, number = torch.zeros(self.buckets, dtype=torch.long, device=device), 0
        special = torch.tensor(sorted(special_ids), dtype=torch.long, device=device)
        self.idf.fill_(1.0)
        self.idf[special % self.buckets] = 0.0
        rest = iter(documents)
        while some := list(islice(rest, 256)):
            flat = [list(chain.from_iterable(one)) if len(one) and isinstance(one[0], list) else one for one in some]
            tokens = [torch.as_tensor(one, dtype=torch.long) for one in flat]
            ids = nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=-1).to(device)
            seen += torch.bincount(self.features(ids.clamp(min=0), ids >= 0)[1], minlength=self.buckets)
            number += len(some)
        idf = torch.log((1 + number) / (1 + seen)) + 1
        self.idf.copy_(idf * (self.idf > 0))

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
        self.text_sizes = [config.encoder_size, config.bag_size]
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


__all__ = [
    "BagEmbedding",
    "CosineScale",
    "DirectScore",
    "LexicalOverlap",
    "TokenBag",
    "ZeroEmbedding",
]
