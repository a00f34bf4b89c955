"""Vectors that predict the words of their text: the part of AiTextML beside the ranking loss (Nam et al. 2016).

GILE (section 4.1.1) says of AiTextML that it learns "joint representations of documents, labels, and words", ranks with
the WARP loss, and gives an unseen label either the average of its word vectors or an inferred vector. What it leaves
open is chosen here: words are predicted by negative sampling, as paragraph vectors are trained (Le & Mikolov, 2014,
PV-DBOW), with all words of the vocabulary as noise, equally often; a document has no vector of its own but that of the
text encoder, so the model can read new documents; a stored label has the mean of its word vectors plus a learned
residual.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

NUM_NOISE = 5
"""What the noise counts, in words."""
SHARED_NOISE = 64
"""Noise words drawn at each step."""


class WordPrediction(nn.Module):
    """Says how well vectors predict words.

    Args:
        vocab_size: Number of words.
        size: Size D of the vectors.
        pad_token_id: The padding word.
    """

    def __init__(self, vocab_size: int, size: int, pad_token_id: int) -> None:
        super().__init__()
        self.pad_token_id = pad_token_id
        self.context = nn.Embedding(vocab_size, size)
        nn.init.zeros_(self.context.weight)

    def forward(self, vectors: Tensor, input_ids: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The loss of predicting the words of each text from its vector.

        Args:
            vectors: `(B, D)` document or label vectors.
            input_ids: `(B, ...)` words of each text, padded.
            generator: Draws the noise, on the CPU.

        Returns:
            For each text the mean loss of its words, and of its noise words `NUM_NOISE` times the mean loss of taking
            one for its own, averaged over the texts: a scalar.
        """
        words = input_ids.flatten(1)
        there = words != self.pad_token_id
        # The same noise for all texts, so that the loss of one does not depend on the others.
        drawn = torch.randint(self.context.num_embeddings, (SHARED_NOISE,), generator=generator).to(words.device)
        foreign = (drawn[:, None] != words[:, None, :]).all(-1) & there.any(1, keepdim=True)  # (B, SHARED_NOISE)
        signal = (self.context(words) @ vectors[:, :, None]).squeeze(-1)  # (B, W)
        noise = vectors @ self.context(drawn).T  # (B, SHARED_NOISE)
        predicted = _mean(functional.softplus(-signal), there)
        mistaken = _mean(functional.softplus(noise), foreign)
        return (predicted + NUM_NOISE * mistaken).mean()

    def infer(self, vectors: Tensor, input_ids: Tensor, steps: int = 50, learning_rate: float = 0.05) -> Tensor:
        """Infers vectors of texts with all words fixed, as paragraph vectors of new texts are (AiTextML, `inf`).

        The same noise is drawn every time, and no vector depends on the other texts.

        Args:
            vectors: `(L, D)` vectors to start from.
            input_ids: `(L, T)` words of each text, padded.
            steps: Steps of Adam.
            learning_rate: Of these steps.

        Returns:
            `(L, D)` vectors.
        """
        with torch.inference_mode(False), torch.enable_grad():
            words, generator = input_ids.clone(), torch.Generator().manual_seed(0)
            inferred = vectors.detach().clone().requires_grad_()
            optimizer = torch.optim.Adam([inferred], lr=learning_rate)
            for _ in range(steps):
                loss = self(inferred, words, generator) * len(inferred)
                (inferred.grad,) = torch.autograd.grad(loss, [inferred])
                optimizer.step()
            return inferred.detach()


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    return (values * counted).sum(1) / counted.sum(1).clamp(min=1)
