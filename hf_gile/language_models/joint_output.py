"""The joint input-output embedding of Pappas, Miculicich and Henderson (WMT 2018) as an output layer.

    logits = g_out(E) g_inp(h) + b                                                       (Eq. 14)

E is the table of input embeddings, so the classifier of a word is computed from its input embedding. Apart from its
number in b, a word has no other parameters: the model can generate a word as soon as its row is added to E.

Shapes: V words, D embedding size, H hidden size, J joint size, N positions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import initialization as init

IGNORE = -100
FORMS = ("joint", "bilinear", "output", "context", "tied")
DEEP = ("joint", "output")  # forms with a g_out that can be deep
CHECKPOINTED = ("cpu",)  # devices on which checkpoints are faster than torch's function


class JointProjection(nn.Linear):
    """A linear layer, optionally with a bias and tanh.

    Args:
        in_features: Size of the input.
        out_features: Size of the output.
        tanh: Whether to add a bias and apply tanh.
    """

    def __init__(self, in_features: int, out_features: int, tanh: bool = True) -> None:
        self.tanh = tanh
        super().__init__(in_features, out_features, bias=tanh)

    def reset_parameters(self) -> None:
        """Initializes square layers without tanh as the identity (weight tying), others like Glorot and Bengio."""
        # The functions of transformers.initialization skip weights loaded from a checkpoint.
        if self.bias is not None:
            init.zeros_(self.bias)
        if self.tanh or self.in_features != self.out_features:
            init.xavier_uniform_(self.weight)
        else:
            init.eye_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Maps `(..., in_features)` to `(..., out_features)`."""
        result = super().forward(input)
        return result.tanh() if self.tanh else result


class OutputStack(nn.Module):
    """Stacked projections of E with residual connections (Pappas and Henderson, ICML 2019).

        E_k = tanh(U_k E_(k-1) + b_k) + E_(k-1) + E

    Connections between different sizes are omitted, and the first layer adds E only once.

    Args:
        in_features: Embedding size D.
        out_features: Joint size J.
        depth: Number of projections.
        residual: Whether to use residual connections.
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
            previous = codes
            codes = layer(codes)
            if self.residual and previous.shape == codes.shape:
                codes = codes + previous
            if self.residual and number and table.shape == codes.shape:
                codes = codes + table
        return codes


class JointOutputEmbedding(nn.Module):
    """An output layer that computes the classifier of each word from its input embedding.

    It replaces the `lm_head` of a model. `weight` is the table of input embeddings itself, tied as Transformers ties
    weights, not a copy.

    Args:
        table: The `(V, D)` table E of input embeddings.
        hidden_size: Size H of the hidden states h.
        joint_size: Size J of the joint space; only used by "joint".
        form: `"joint"` is Eq. 14; `"bilinear"` is `E W h` (Eq. 6), `"output"` is `tanh(E W) h` (Eq. 7a), `"context"` is
            `E tanh(W h)` (Eq. 7b), and `"tied"` is `E h` (Eq. 18).
        depth: Number of projections in g_out.
        residual: Whether these projections have residual connections.
        projection_bias: Whether projections with tanh have a bias (b_u and b_v in Eq. 12 and 13, not in Eq. 15 and 16).

    Raises:
        ValueError: If the form is unknown, or does not support a setting.

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
        self.g_out = output.to(table)
        self.g_inp = context.to(table)
        if not projection_bias:
            for module in self.modules():
                if isinstance(module, JointProjection):
                    module.register_parameter("bias", None)
        self._cache_depth = 0  # number of running generate calls
        self._cached: tuple[Tensor, list[tuple[int, int]]] | None = None
        self._collected: list[Tensor] | None = None

    def num_output_parameters(self) -> int:
        """Returns the number of parameters other than E (Eq. 16)."""
        return sum(parameter.numel() for name, parameter in self.named_parameters() if name != "weight")

    def codes(self) -> Tensor:
        """Returns the `(V, J)` classifiers g_out(E), cached within `keeping_codes` if gradients are disabled."""
        if not self._cache_depth or torch.is_grad_enabled():
            return self.g_out(self.weight)
        state = [(tensor.data_ptr(), tensor._version) for tensor in (self.weight, *self.g_out.parameters())]
        if self._cached is None or self._cached[1] != state:
            self._cached = self.g_out(self.weight), state
        return self._cached[0]

    @contextmanager
    def keeping_codes(self) -> Iterator[None]:
        """Caches g_out(E) within this block, until E or g_out changes.

        Codes are not cached longer, because writes to `parameter.data` and fused optimizers cannot be detected.
        """
        self._cache_depth += 1
        try:
            yield
        finally:
            self._cache_depth -= 1
            if not self._cache_depth:
                self._cached = None

    @contextmanager
    def collecting(self) -> Iterator[list[Tensor]]:
        """Collects hidden states for `loss` within this block; `forward` then returns no logits."""
        self._collected = []
        try:
            yield self._collected
        finally:
            self._collected = None

    def forward(self, hidden: Tensor) -> Tensor:
        """Maps `(..., H)` hidden states to `(..., V)` logits."""
        if self._collected is not None:
            self._collected.append(hidden)
            return hidden.new_zeros(*hidden.shape[:-2], 0, self.weight.shape[0])
        return functional.linear(self.g_inp(hidden), self.codes(), self.bias)

    def fit_bias(self) -> None:
        """Resizes b to the number of rows of E; new words get the mean of b."""
        words = self.weight.shape[0]
        bias = self.bias.data
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
        """Computes the cross-entropy without an `(N, V)` tensor of logits.

        Args:
            hidden: `(N, H)` hidden states.
            labels: `(N,)` target words; -100 is ignored.
            sample: Fraction of the vocabulary to compute the softmax over (section 3.2): all target words, and further
                words drawn at random. As in the paper, the loss is not corrected for the missing words.
            num_items: Divisor of the sum; by default the number of labels that are not ignored.
            extra_bias: `(V,)` additional bias.

        Returns:
            A scalar; exact if `sample` is None.

        Raises:
            ValueError: If `sample` is not above 0 and at most 1.
        """
        mask = labels != IGNORE
        hidden = hidden[mask]
        labels = labels[mask]
        bias = self.bias if extra_bias is None else self.bias + extra_bias
        if sample is None:
            codes = self.codes()
        else:
            words, labels = self._sample(labels, sample)
            codes = self.g_out(self.weight[words])
            bias = bias[words]
        total = linear_cross_entropy(self.g_inp(hidden), codes, labels, bias)
        return total / (max(1, len(labels)) if num_items is None else num_items)

    def _sample(self, labels: Tensor, fraction: float) -> tuple[Tensor, Tensor]:
        """Samples words; returns them in ascending order, with the positions of the labels among them."""
        if not 0 < fraction <= 1:
            raise ValueError(f"sample must be a fraction of the vocabulary, above 0 and at most 1, got {fraction}")
        size = self.weight.shape[0]
        chosen = torch.zeros(size, dtype=torch.bool, device=labels.device)
        chosen[labels] = True
        remaining = (~chosen).nonzero()[:, 0]
        missing = max(0, round(fraction * size) - (size - len(remaining)))
        chosen[remaining[torch.randperm(len(remaining), device=remaining.device)[:missing]]] = True
        return chosen.nonzero()[:, 0], chosen.cumsum(0)[labels] - 1


def linear_cross_entropy(inputs: Tensor, weight: Tensor, labels: Tensor, bias: Tensor) -> Tensor:
    """Computes the summed cross-entropy of `inputs @ weight.T + bias`, a few positions at a time.

    On an accelerator, torch's function of the same name is used if available (from 2.13). Otherwise checkpoints are
    used, which are faster on the CPU: each chunk of logits is computed twice and never stored.

    Args:
        inputs: `(N, J)` codes of positions.
        weight: `(V, J)` codes of words.
        labels: `(N,)` target words.
        bias: `(V,)` bias.
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
    """Computes `linear_cross_entropy` with checkpoints.

    Args:
        inputs: `(N, J)` codes of positions.
        weight: `(V, J)` codes of words.
        labels: `(N,)` target words.
        bias: `(V,)` bias.
        elements: Maximum number of logits of a chunk.
    """

    def chunk_loss(inputs: Tensor, weight: Tensor, labels: Tensor, bias: Tensor) -> Tensor:
        logits = functional.linear(inputs, weight, bias)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return functional.cross_entropy(logits, labels, reduction="sum")

    size = max(1, elements // len(weight))
    total = inputs.new_zeros((), dtype=torch.promote_types(inputs.dtype, torch.float32))
    for start in range(0, max(1, len(inputs)), size):  # without positions, the loss is 0 with gradients
        chunk = slice(start, start + size)
        total = total + checkpoint(chunk_loss, inputs[chunk], weight, labels[chunk], bias, use_reentrant=False)
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
    if form not in DEEP and (depth > 1 or residual):
        raise ValueError(f"depth and residual apply to g_out, which the form {form!r} does not have; use form='joint'")
