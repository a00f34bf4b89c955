"""Implements word prediction, the second loss of AiTextML in addition to the ranking loss (Nam et al., 2016).

According to GILE (section 4.1.1), AiTextML learns "joint representations of documents, labels, and words", ranks with
the WARP loss, and represents unseen labels by the average of their word vectors or by an inferred vector. Other details
are choices of this package. Words are predicted by negative sampling with uniform noise over the vocabulary, as in
paragraph vectors (Le & Mikolov, 2014, PV-DBOW). Document vectors come from the text encoder, so that the model can
score new documents. Vectors of stored labels are the mean of their word vectors plus a learned residual.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

NUM_NOISE = 5
"""Weight of the noise, in words."""
SHARED_NOISE = 64
"""Number of noise words sampled at each step."""


class WordPrediction(nn.Module):
    """Computes the loss of predicting words from vectors.

    Args:
        vocab_size: Number of words.
        size: Size D of the vectors.
        pad_token_id: Id of the padding word.
    """

    def __init__(self, vocab_size: int, size: int, pad_token_id: int) -> None:
        super().__init__()
        self.pad_token_id = pad_token_id
        self.context = nn.Embedding(vocab_size, size)
        nn.init.zeros_(self.context.weight)

    def forward(self, vectors: Tensor, input_ids: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Computes the loss of predicting the words of each text from its vector.

        Args:
            vectors: `(B, D)` document or label vectors.
            input_ids: `(B, ...)` words of each text, padded.
            generator: CPU generator that samples the noise.

        Returns:
            A scalar: the mean loss of the words of a text, plus `NUM_NOISE` times the mean loss of noise words that are
            not in the text, averaged over texts.
        """
        words = input_ids.flatten(1)
        mask = words != self.pad_token_id
        # All texts share the noise, so that the loss of a text does not depend on the other texts.
        sampled = torch.randint(self.context.num_embeddings, (SHARED_NOISE,), generator=generator).to(words.device)
        is_noise = (sampled[:, None] != words[:, None, :]).all(-1) & mask.any(1, keepdim=True)  # (B, SHARED_NOISE)
        signal = (self.context(words) @ vectors[:, :, None]).squeeze(-1)  # (B, W)
        noise = vectors @ self.context(sampled).T  # (B, SHARED_NOISE)
        word_loss = _masked_mean(functional.softplus(-signal), mask)
        noise_loss = _masked_mean(functional.softplus(noise), is_noise)
        return (word_loss + NUM_NOISE * noise_loss).mean()

    def infer(self, vectors: Tensor, input_ids: Tensor, steps: int = 50, learning_rate: float = 0.05) -> Tensor:
        """Infers vectors of texts with fixed word vectors, as for new texts in paragraph vectors (AiTextML, `inf`).

        The noise is the same in each call, and vectors do not depend on other texts.

        Args:
            vectors: `(L, D)` initial vectors.
            input_ids: `(L, T)` words of each text, padded.
            steps: Number of steps of Adam.
            learning_rate: Learning rate of Adam.

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


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum(1) / mask.sum(1).clamp(min=1)
