"""A continuous map from words to vectors, in place of a table of input embeddings."""

import math

import torch
from torch import Tensor, nn


class ContinuousEmbedding(nn.Module):
    """Computes the vector of a word from the digits of its number: all words share the map.

    A small form of Leviathan (Batley & Saha 2026, arXiv:2601.22040), with a layer of tanh in place of its splines. Each
    digit has a table of vectors; their sum goes through the layer.

    Args:
        num_embeddings: Number of words V.
        embedding_dim: Size D of the vectors.
        digits: Number of digits; their base is the least for which V words have different digits.

    Example:
        >>> words = ContinuousEmbedding(1000, 16)
        >>> words.base, words(torch.tensor([[5, 999]])).shape
        (10, torch.Size([1, 2, 16]))
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, digits: int = 3) -> None:
        super().__init__()
        self.base = next(base for base in range(2, num_embeddings + 2) if base**digits >= num_embeddings)
        tables = [nn.Embedding(self.base, embedding_dim) for _ in range(digits)]
        self.layer = nn.Linear(embedding_dim, 4 * embedding_dim)
        self.output = nn.Linear(4 * embedding_dim, embedding_dim)
        for table in tables:
            nn.init.normal_(table.weight, std=1 / math.sqrt(digits))
        self.tables = nn.ModuleList(tables)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Maps `(...)` word numbers to `(..., D)` vectors."""
        digits = [input_ids // self.base**place % self.base for place in range(len(self.tables))]
        seeds = torch.stack([table(digit) for table, digit in zip(self.tables, digits, strict=True)])
        return self.output(self.layer(seeds.sum(0)).tanh())
