"""Vectors that predict the words of their text: the part of AiTextML beside the ranking loss (Nam et al. 2016).

GILE (section 4.1.1) says of AiTextML that it learns "joint representations of documents, labels, and words", ranks with
the WARP loss, and gives an unseen label either the average of its word vectors or an inferred vector. What it leaves
open is chosen here: words are predicted by negative sampling, as paragraph vectors are trained (Le & Mikolov, 2014,
PV-DBOW), with the words of the batch as noise; a document has no vector of its own but that of the text encoder, so
the model can read new documents; a stored label has the mean of its word vectors plus a learned residual.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from .output_layers_gile import ZeroEmbedding


class WordPrediction(nn.Module):
    """Says how well vectors predict words.

    Args:
        config: A `GileConfig` with `word_prediction` above zero.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.pad_token_id = config.pad_token_id
        self.context = ZeroEmbedding(config.vocab_size, config.embedding_size)

    def forward(self, vectors: Tensor, input_ids: Tensor, num_noise: int = 5) -> Tensor:
        """The loss of predicting the words of each text from its vector.

        Args:
            vectors: `(B, D)` document or label vectors.
            input_ids: `(B, ...)` words of each text, padded.
            num_noise: Noise words for each word.

        Returns:
            The loss for a word, averaged over words and texts: a scalar.
        """
        words = input_ids.flatten(1)
        there = words != self.pad_token_id
        present = words[there]
        if len(present) == 0:
            return vectors.sum() * 0.0
        draws = torch.randint(len(present), (len(words), num_noise), device=words.device)
        signal = (self.context(words) @ vectors[:, :, None]).squeeze(-1)  # (B, W)
        noise = (self.context(present[draws]) @ vectors[:, :, None]).squeeze(-1)  # (B, num_noise)
        share = there / there.sum(1, keepdim=True).clamp(min=1)
        predicted = (functional.softplus(-signal) * share).sum(1)
        mistaken = functional.softplus(noise).sum(1) * there.any(1)
        return (predicted + mistaken).mean()

    @torch.enable_grad()
    def infer(self, vectors: Tensor, input_ids: Tensor, steps: int = 50, learning_rate: float = 0.05) -> Tensor:
        """Infers vectors of texts with all words fixed, as paragraph vectors of new texts are (AiTextML, `inf`).

        Args:
            vectors: `(L, D)` vectors to start from.
            input_ids: `(L, T)` words of each text, padded.
            steps: Steps of Adam.
            learning_rate: Of these steps.

        Returns:
            `(L, D)` vectors.
        """
        inferred = vectors.detach().clone().requires_grad_()
        optimizer = torch.optim.Adam([inferred], lr=learning_rate)
        for _ in range(steps):
            loss = self(inferred, input_ids) * len(inferred)
            (inferred.grad,) = torch.autograd.grad(loss, [inferred])
            optimizer.step()
        return inferred.detach()


__all__ = ["WordPrediction"]
