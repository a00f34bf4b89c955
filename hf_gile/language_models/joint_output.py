"""The joint input-output embedding of Pappas, Miculicich and Henderson (WMT 2018) as an output layer.

    logits = g_out(E) g_inp(h) + b                                                       (Eq. 14)

E is the table of input embeddings, so what a word means as input tells when to write it. No parameter but a number in b
belongs to a single word: a row added to E is a word that can be written at once.

Shapes: V words, D embedding size, H hidden size, J joint size, N positions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

IGNORE = -100
FORMS = ("joint", "bilinear", "output", "context", "tied")
CHECKPOINTED = ("cpu",)  # devices on which checkpoints are faster than torch's function


class JointProjection(nn.Linear):
    """A linear map with or without an activation; `reset_parameters` starts it as Glorot and Bengio do.

    Args:
        in_features: Size of what comes in.
        out_features: Size of what goes out.
        tanh: Whether a bias and a Tanh follow.
    """

    def __init__(self, in_features: int, out_features: int, tanh: bool = True) -> None:
        self.tanh = tanh
        super().__init__(in_features, out_features, bias=tanh)

    def reset_parameters(self) -> None:
        """Starts a Tanh's map uniformly, a square map without one as the identity, which is weight tying."""
        with torch.no_grad():
            if self.bias is not None:
                self.bias.zero_()
            if self.tanh or self.in_features != self.out_features:
                nn.init.xavier_uniform_(self.weight)
            else:
                nn.init.eye_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Maps `(..., in_features)` to `(..., out_features)`."""
        result = super().forward(input)
        return result.tanh() if self.tanh else result


class OutputStack(nn.Module):
    """Several projections of E, each with residual connections, after Pappas and Henderson (ICML 2019).

        E_k = tanh(U_k E_(k-1) + b_k) + E_(k-1) + E

    A connection is left out where sizes differ, and E counts once in the first.

    Args:
        in_features: Embedding size D.
        out_features: Joint size J.
        depth: Number of projections.
        residual: Whether there are residual connections.
    """

    def __init__(self, in_features: int, out_features: int, depth: int, residual: bool) -> None:
        super().__init__()
        sizes = [in_features, *[out_features] * depth]
        self.layers = nn.ModuleList(JointProjection(*pair) for pair in pairwise(sizes))
        self.residual = residual

    def forward(self, table: Tensor) -> Tensor:
        """Maps `(V, D)` rows to `(V, J)` codes."""
        codes = table
        for number, layer in enumerate(self.layers):
            previous, codes = codes, layer(codes)
            if self.residual and previous.shape == codes.shape:
                codes = codes + previous
            if self.residual and number and table.shape == codes.shape:
                codes = codes + table
        return codes


class JointOutputEmbedding(nn.Module):
    """An output layer that computes the classifier of each word from its input embedding.

    It stands where a model has its `lm_head`. `weight` is the input embedding table itself, a parameter under two
    names, tied by the rules of Transformers; nothing is copied.

    Args:
        table: The `(V, D)` table E of input embeddings.
        hidden_size: Size H of the hidden states h.
        joint_size: Size J of the joint space; only "joint" has it.
        form: `"joint"` is Eq. 14; `"bilinear"` is `E W h` (Eq. 6), `"output"` is `tanh(E W) h` (Eq. 7a), `"context"` is
            `E tanh(W h)` (Eq. 7b), and `"tied"` is `E h` (Eq. 18).
        depth: Number of projections within g_out.
        residual: Whether these have residual connections.
        projection_bias: Whether a Tanh has a bias (b_u and b_v of Eq. 12 and 13; Eq. 15 and 16 have none).

    Raises:
        ValueError: There is no such form, or a setting does not go with it.

    Example:
        >>> words = nn.Embedding(1000, 16)
        >>> layer = JointOutputEmbedding(words.weight, hidden_size=24, joint_size=32)
        >>> layer(torch.randn(2, 7, 24)).shape
        torch.Size([2, 7, 1000])
        >>> layer.weight is words.weight
        True
    """

    def __init__(
        self,
        table: nn.Parameter,
        hidden_size: int,
        joint_size: int = 512,
        form: str = "joint",
        depth: int = 1,
        residual: bool = False,
        projection_bias: bool = True,
    ) -> None:
        super().__init__()
        size = table.shape[1]
        _check(form, size, hidden_size, joint_size, depth, residual)
        self.weight = table
        self.bias = nn.Parameter(table.new_zeros(table.shape[0]))
        output: nn.Module = nn.Identity()
        context: nn.Module = nn.Identity()
        if form == "joint":
            output = OutputStack(size, joint_size, depth, residual)
            context = JointProjection(hidden_size, joint_size)
        elif form == "output":
            output = OutputStack(size, hidden_size, depth, residual)
        elif form != "tied":
            context = JointProjection(hidden_size, size, tanh=form == "context")
        self.g_out, self.g_inp = output.to(table), context.to(table)
        if not projection_bias:
            for module in self.modules():
                if isinstance(module, JointProjection):
                    module.register_parameter("bias", None)
        self._keeps = 0  # generate calls that run now
        self._kept: tuple[Tensor, list[tuple[int, int]]] | None = None
        self._collected: list[Tensor] | None = None

    def extra_repr(self) -> str:
        """Names the sizes of the table."""
        return "words={}, embedding_size={}".format(*self.weight.shape)

    def num_output_parameters(self) -> int:
        """The parameters that the output layer has beside E: Eq. 16."""
        return sum(parameter.numel() for name, parameter in self.named_parameters() if name != "weight")

    def codes(self) -> Tensor:
        """The `(V, J)` classifiers g_out(E); within `keeping_codes` and without gradients, those made before."""
        if not self._keeps or torch.is_grad_enabled():
            return self.g_out(self.weight)
        state = [(tensor.data_ptr(), tensor._version) for tensor in (self.weight, *self.g_out.parameters())]
        if self._kept is None or self._kept[1] != state:
            self._kept = self.g_out(self.weight), state
        return self._kept[0]

    @contextmanager
    def keeping_codes(self) -> Iterator[None]:
        """Computes g_out(E) once within this block, for as long as E and g_out stay as they are.

        Only within: a write to `parameter.data`, and fused optimizers, leave no trace that could be looked for later.
        """
        self._keeps += 1
        try:
            yield
        finally:
            self._keeps -= 1
            if not self._keeps:
                self._kept = None

    @contextmanager
    def collecting(self) -> Iterator[list[Tensor]]:
        """Collects hidden states within this block, for `loss`; scores of no position are returned for them."""
        collected: list[Tensor] = []
        self._collected = collected
        try:
            yield collected
        finally:
            self._collected = None

    def forward(self, hidden: Tensor) -> Tensor:
        """Scores all words: `(..., H)` hidden states to `(..., V)` logits."""
        if self._collected is not None:
            self._collected.append(hidden)
            return hidden.new_zeros(*hidden.shape[:-2], 0, self.weight.shape[0])
        return functional.linear(self.g_inp(hidden), self.codes(), self.bias)

    def fit_bias(self) -> None:
        """Gives b as many numbers as E has rows; those of new words are the mean of b."""
        words, bias = self.weight.shape[0], self.bias.data
        if words > len(bias):
            bias = torch.cat([bias, bias.float().mean().to(bias.dtype).expand(words - len(bias))])
        self.bias.data = bias[:words].clone()

    def loss(
        self,
        hidden: Tensor,
        labels: Tensor,
        sample: float | None = None,
        num_items: Tensor | int | None = None,
        extra_bias: Tensor | None = None,
    ) -> Tensor:
        """Cross-entropy without an `(N, V)` tensor of logits.

        Args:
            hidden: `(N, H)` hidden states.
            labels: `(N,)` words, -100 where none counts.
            sample: Share of the vocabulary to compute the softmax over (section 3.2): all words of the labels, and
                others drawn at random. Nothing corrects for what is left out, as in the paper.
            num_items: What to divide the sum by; without it, by the number of labels that count.
            extra_bias: `(V,)` further numbers to add to b.

        Returns:
            A scalar, exact unless `sample` is said.

        Raises:
            ValueError: The share is not above 0 and at most 1.
        """
        counts = labels != IGNORE
        hidden, labels = hidden[counts], labels[counts]
        bias = self.bias if extra_bias is None else self.bias + extra_bias
        codes: Tensor
        if sample is None:
            codes = self.codes()
        else:
            words, labels = self._sample(labels, sample)
            codes, bias = self.g_out(self.weight[words]), bias[words]
        total = linear_cross_entropy(self.g_inp(hidden), codes, labels, bias)
        return total / (max(1, len(labels)) if num_items is None else num_items)

    def _sample(self, labels: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Words to score, ascending, and the labels' columns among them."""
        if not 0 < share <= 1:
            raise ValueError(
                f"sample, the share of the vocabulary to score, must be above 0 and at most 1, got {share}"
            )
        size = self.weight.shape[0]
        chosen = torch.zeros(size, dtype=torch.bool, device=labels.device)
        chosen[labels] = True
        rest = (~chosen).nonzero()[:, 0]
        missing = max(0, round(share * size) - (size - len(rest)))
        chosen[rest[torch.randperm(len(rest), device=rest.device)[:missing]]] = True
        return chosen.nonzero()[:, 0], chosen.cumsum(0)[labels] - 1


def linear_cross_entropy(inputs: Tensor, weight: Tensor, labels: Tensor, bias: Tensor) -> Tensor:
    """The summed cross-entropy of `inputs @ weight.T + bias`, of a few positions at a time.

    On an accelerator this is torch's function of this name, where there is one (from 2.13). Elsewhere it is the same
    with checkpoints, which are faster on the CPU: each chunk of logits is made twice, and held never.

    Args:
        inputs: `(N, J)` codes of positions.
        weight: `(V, J)` codes of words.
        labels: `(N,)` words.
        bias: `(V,)` numbers to add.
    """
    fused = getattr(functional, "linear_cross_entropy", None)
    device = inputs.device.type
    if fused is not None and device not in CHECKPOINTED and not torch.is_autocast_enabled(device):
        options = nn.LinearCrossEntropyOptions() if len(inputs) >= 2 else None
        return fused(inputs, weight, labels, linear_bias=bias, reduction="sum", options=options)
    return chunked_cross_entropy(inputs, weight, labels, bias)


def chunked_cross_entropy(
    inputs: Tensor, weight: Tensor, labels: Tensor, bias: Tensor, elements: int = 1 << 25
) -> Tensor:
    """As `linear_cross_entropy`, by checkpoints.

    Args:
        inputs: `(N, J)` codes of positions.
        weight: `(V, J)` codes of words.
        labels: `(N,)` words.
        bias: `(V,)` numbers to add.
        elements: Number of logits made at once.
    """

    def of_chunk(inputs: Tensor, weight: Tensor, labels: Tensor, bias: Tensor) -> Tensor:
        logits = functional.linear(inputs, weight, bias)
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return functional.cross_entropy(wide, labels, reduction="sum")

    size = max(1, elements // len(weight))
    total = inputs.new_zeros((), dtype=torch.promote_types(inputs.dtype, torch.float32))
    for start in range(0, max(1, len(inputs)), size):  # of no positions the loss is 0, with gradients
        chunk = slice(start, start + size)
        total = total + checkpoint(of_chunk, inputs[chunk], weight, labels[chunk], bias, use_reentrant=False)
    return total


def _check(form: str, size: int, hidden_size: int, joint_size: int, depth: int, residual: bool) -> None:
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    if form == "tied" and size != hidden_size:
        raise ValueError(
            f"weight tying needs hidden states and embeddings of the same size, got {hidden_size} and {size}; "
            "use form='bilinear' or form='joint'"
        )
    if joint_size < 1 or depth < 1:
        raise ValueError(f"joint_size and depth must be at least 1, got {joint_size} and {depth}")
    if form not in ("joint", "output") and (depth > 1 or residual):
        raise ValueError(f"depth and residual apply to g_out, which the form {form!r} does not have; use form='joint'")
