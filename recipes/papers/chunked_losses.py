"""Computes cross-entropy exactly over any number of labels, in memory independent of that number.

The score is an inner product, so a label contributes to other gradients only through the gradient of its logits. Labels
are processed chunk by chunk: a chunk is encoded and scored, its gradients are computed, and its codes and scores are
freed. Neither the `(B, L)` scores nor the codes of labels read by an encoder are stored; the encoder of a chunk runs
inside the loss (gradient caching: Gao et al., RepL4NLP 2021).

Shapes: B documents, L labels, C labels in a chunk, J joint size, P gold labels per document (padded).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hf_gile.models.losses_gile import IGNORE, widened


@dataclass(frozen=True)
class LabelChunks:
    """Labels that are encoded chunk by chunk, by `encode(*rows)`, which returns `(C, J)` codes.

    Args:
        encode: Computes the codes from the rows of C labels, each independently of other labels.
        rows: Tensors with a row per label, `(L, ...)` each: words, label vectors, codes.
        parameters: The other tensors that `encode` reads and that receive a gradient, which may be sparse for a chunk.
        checksum: A number that differs between label sets, to check that all processes have the same labels.
    """

    encode: Callable[..., Tensor]
    rows: Sequence[Tensor]
    parameters: Sequence[Tensor] = ()
    checksum: int = 0

    def __len__(self) -> int:
        return len(self.rows[0])

    def codes(self, chunk: slice) -> Tensor:
        """Computes the `(C, J)` codes of a chunk of labels."""
        return self.encode(*(row[chunk] for row in self.rows))


def chunked_loss(
    loss: str,
    text_codes: Tensor,
    labels: Tensor,
    label_chunks: LabelChunks,
    bias: Tensor | None = None,
    chunk_size: int = 8192,
    column_weights: Tensor | None = None,
    excluded: Tensor | None = None,
    group: distributed.ProcessGroup | None = None,
) -> Tensor:
    """Computes a loss over all labels in chunks, without storing all scores.

    Value and gradients equal those of the loss in `hf_gile.training.losses` on `text_codes @ codes.T + bias`. Gradients
    are computed in the forward pass, before a loss is scaled or divided by the number of documents. Without weights,
    the gradients of scores do not exceed the number of gold labels, which 16 bits represent well. With large weights
    the gradients of label codes can overflow float16 (not bfloat16), and a gradient scaler does not help. Sums over
    chunks are accumulated in float32. Second derivatives are not supported.

    Args:
        loss: `"binary_cross_entropy"` or `"cross_entropy"`. The latter encodes labels twice, as the gradient of a chunk
            depends on the sum over all chunks. Both passes use the same random numbers.
        text_codes: `(B, J)` from `GileModel.project_texts`.
        labels: `(B, P)` distinct gold label indices, padded with -100.
        label_chunks: The L labels.
        bias: `(1,)`, the bias b of the score.
        chunk_size: Number of labels scored together.
        column_weights: `(L,)` or `(B, L)` weights of labels, if they are a sample.
        excluded: `(B, E)` indices of labels that are not candidates for a document, padded with -100.
        group: Processes that share the labels, see `ChunkedLoss`.

    Returns:
        The loss, summed over the documents: a scalar in float32 or better.

    Raises:
        ValueError: If the processes of the group have different numbers of documents or labels.
    """
    step = CHUNKED_LOSSES[loss](label_chunks, labels, chunk_size, column_weights, excluded, group)
    return _ChunkedLoss.apply(step, text_codes, bias, *label_chunks.rows, *label_chunks.parameters)


class _ChunkedLoss(torch.autograd.Function):
    """Computes gradients in the forward pass, and returns them in the backward pass."""

    @staticmethod
    def forward(ctx: Any, step: "_Step", *tensors: Tensor | None) -> Tensor:
        text_codes, bias = tensors[:2]
        assert text_codes is not None
        kind = text_codes.device.type
        # Without the autocast cache, which would reuse casts of the pass without gradients.
        enabled = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind)
        with torch.autocast(kind, dtype, enabled, cache_enabled=False):
            loss, gradients = step.run(text_codes.detach(), bias, ctx.needs_input_grad[3:])
        ctx.gradients = gradients
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in tensors]
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("backward of a chunked loss was called twice: call it once")
        scaled: list[Tensor | None] = [None]
        for stored, dtype in zip(ctx.gradients, ctx.dtypes, strict=True):
            is_needed = stored is not None and dtype is not None
            scaled.append(stored.mul_(gradient).to(dtype) if is_needed else None)  # in place, as they are not shared
        ctx.gradients = None
        return tuple(scaled)


class _Step:
    """The loss of a training step. Subclasses compute the gradient with respect to a chunk of scores."""

    def __init__(
        self,
        label_chunks: LabelChunks,
        gold: Tensor,
        chunk_size: int,
        column_weights: Tensor | None,
        excluded: Tensor | None,
        group: distributed.ProcessGroup | None,
    ) -> None:
        self.label_chunks = label_chunks
        self.weights = column_weights
        self.group = group
        self.local = slice(0, len(gold))  # documents of this process among those of the group
        self.share = slice(0, len(label_chunks))  # labels of this process
        if group is not None:
            gold, excluded = self._gather_columns(gold, excluded)
            rank = distributed.get_rank(group)
            size = distributed.get_world_size(group)
            batch = len(gold) // size
            self.local = slice(rank * batch, (rank + 1) * batch)
            self.share = slice(len(label_chunks) * rank // size, len(label_chunks) * (rank + 1) // size)
        starts = range(self.share.start, self.share.stop, chunk_size)
        self.chunks = [slice(start, min(start + chunk_size, self.share.stop)) for start in starts]
        self.gold = self._group_by_chunk(gold)
        self.excluded = None if excluded is None else self._group_by_chunk(excluded)

    def prepare(self, chunks: Iterator[tuple[int, Tensor]]) -> None:
        """Iterates over the scores of all chunks, if the gradient of a chunk depends on other chunks."""

    def gradient(self, logits: Tensor, index: int) -> Tensor:
        """Computes the gradient with respect to the scores of a chunk, possibly in place; adds to `losses`."""
        raise NotImplementedError

    def run(
        self, text_codes: Tensor, bias: Tensor | None, needed: Sequence[bool]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Returns the loss of this process's documents, and gradients of text codes, bias, rows and parameters."""
        labels = self.label_chunks
        if self.group is not None:
            text_codes = _all_gather(text_codes, self.group)
        self.text_codes = text_codes
        self.bias = None if bias is None else bias.detach()
        text_gradient = widened(torch.zeros_like(text_codes))
        bias_gradient = text_gradient.new_zeros(1)
        self.losses = text_gradient.new_zeros(len(text_codes))
        gradients = [
            widened(torch.zeros_like(tensor)) if is_needed else None
            for tensor, is_needed in zip((*labels.rows, *labels.parameters), needed, strict=True)
        ]
        count = len(labels.rows)
        parameters = [tensor for tensor, is_needed in zip(labels.parameters, needed[count:], strict=True) if is_needed]
        kind = text_codes.device.type
        devices = [] if kind == "cpu" else [text_codes.device]
        with torch.random.fork_rng(devices, device_type=kind):
            self.prepare(self._score_chunks())
        for index, chunk in enumerate(self.chunks):
            rows = [row[chunk].detach() for row in labels.rows]
            inputs = [row.requires_grad_() for row, is_needed in zip(rows, needed[:count], strict=True) if is_needed]
            with torch.enable_grad():
                codes = labels.encode(*rows)
            gradient = self.gradient(self._scores(codes.detach(), index), index)
            bias_gradient += gradient.sum()
            gradient = gradient.to(codes.dtype)
            text_gradient += gradient @ codes.detach()
            if not codes.requires_grad:
                continue
            chunk_gradients = torch.autograd.grad(
                codes, [*inputs, *parameters], gradient.T @ text_codes.to(codes.dtype), allow_unused=True
            )
            totals = [total for total in gradients if total is not None]
            for position, (total, part) in enumerate(zip(totals, chunk_gradients, strict=True)):
                if part is not None:
                    _add(total[chunk] if position < len(inputs) else total, part)
        if self.group is not None:
            # Other processes have scored the documents of this process against other labels.
            for tensor in (self.losses, text_gradient):
                distributed.all_reduce(tensor, group=self.group)
        return self.losses[self.local].sum(), [text_gradient[self.local], bias_gradient, *gradients]

    def _score_chunks(self) -> Iterator[tuple[int, Tensor]]:
        """Yields the scores of every chunk, without gradients."""
        with torch.no_grad():
            for index, chunk in enumerate(self.chunks):
                yield index, self._scores(self.label_chunks.codes(chunk), index)

    def _scores(self, codes: Tensor, index: int) -> Tensor:
        """Computes `(B, C)` scores of a chunk in float32 or better; minus infinity for excluded labels."""
        texts = self.text_codes.to(codes.dtype)
        if self.bias is not None and codes.dtype in (torch.float32, torch.float64):
            logits = torch.addmm(self.bias.to(codes.dtype), texts, codes.T)
        else:
            logits = widened(texts @ codes.T)
            if self.bias is not None:  # in float32: near a bias of -9, bfloat16 has steps of 0.06
                logits += self.bias
        if self.excluded is not None:
            logits[self.excluded[index]] = -torch.inf
        return logits

    def _group_by_chunk(self, columns: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Groups padded `(B, P)` label indices by chunk, as pairs of documents and indices within the chunk."""
        documents, positions = (columns != IGNORE).nonzero(as_tuple=True)
        values, order = columns[documents, positions].sort()
        documents = documents[order]
        starts = [chunk.start for chunk in self.chunks] + [self.share.stop]
        bounds = torch.searchsorted(values, torch.tensor(starts, device=values.device)).tolist()
        return [
            (documents[start:stop], values[start:stop] - chunk.start)
            for chunk, start, stop in zip(self.chunks, bounds[:-1], bounds[1:], strict=True)
        ]

    def _gather_columns(self, gold: Tensor, excluded: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Gathers the label indices of documents in all processes."""
        expected_equal = {
            "documents": len(gold),
            "labels": len(self.label_chunks),
            "checksum of the labels": self.label_chunks.checksum,
            "excluded_columns (0 or 1)": int(excluded is not None),
            "column_weights (0 or 1)": int(self.weights is not None),
        }
        widths = [gold.shape[1], 0 if excluded is None else excluded.shape[1]]
        numbers = torch.tensor([[*expected_equal.values(), *widths]], device=gold.device)
        of_processes = _all_gather(numbers, self.group)
        *highest, gold_width, excluded_width = of_processes.amax(0).tolist()
        for name, high, low in zip(expected_equal, highest, of_processes.amin(0).tolist(), strict=False):
            if high != low:
                raise ValueError(
                    "processes that share labels must train on the same labels, with equal numbers of documents; they "
                    f"differ in {name}: {low} to {high}. Do not sample labels (use a LabelSampler with "
                    "num_negatives=None), and keep even_batches"
                )
        if self.weights is not None:
            raise ValueError("processes that share labels must train on all labels: column_weights are for a sample")
        gold = _all_gather(functional.pad(gold, (0, gold_width - gold.shape[1]), value=IGNORE), self.group)
        if excluded is not None:
            excluded = functional.pad(excluded, (0, excluded_width - excluded.shape[1]), value=IGNORE)
            excluded = _all_gather(excluded, self.group)
        return gold, excluded


class _BinaryCrossEntropy(_Step):
    def gradient(self, logits: Tensor, index: int) -> Tensor:
        gold = self.gold[index]
        weights = None if self.weights is None else self.weights[..., self.chunks[index]]
        at_gold = logits[gold]
        losses = functional.softplus(logits)
        if weights is not None:
            losses.mul_(weights)
            at_gold = at_gold * weights.expand_as(logits)[gold]
        self.losses += losses.sum(-1)
        self.losses.index_add_(0, gold[0], at_gold, alpha=-1)
        gradient = logits.sigmoid_()
        gradient[gold] -= 1
        return gradient if weights is None else gradient.mul_(weights)


class _CrossEntropy(_Step):
    def prepare(self, chunks: Iterator[tuple[int, Tensor]]) -> None:
        total = torch.full_like(self.losses, -torch.inf)
        for index, logits in chunks:
            self.losses.index_add_(0, self.gold[index][0], logits[self.gold[index]], alpha=-1)
            total = torch.logaddexp(total, self._weight_scores(logits, index).logsumexp(-1))
        self.total = total
        number = 1
        if self.group is not None:
            self.total = _all_gather(total[None], self.group).logsumexp(0)
            number = distributed.get_world_size(self.group)
        self.losses += self.total / number  # the losses of a group are summed, and this term must count once

    def gradient(self, logits: Tensor, index: int) -> Tensor:
        gradient = self._weight_scores(logits, index).sub_(self.total[:, None]).exp_()
        gradient[self.gold[index]] -= 1
        return gradient

    def _weight_scores(self, logits: Tensor, index: int) -> Tensor:
        """Weights the scores in place; a gold label of weight 0 counts once, because an empty sum gives NaN."""
        if self.weights is None:
            return logits
        gold = self.gold[index]
        at_gold = logits[gold]
        logits = logits.add_(self.weights[..., self.chunks[index]].to(logits.dtype).log())
        logits[gold] = torch.where(logits[gold].isneginf(), at_gold, logits[gold])
        return logits


CHUNKED_LOSSES: dict[str, type[_Step]] = {
    "binary_cross_entropy": _BinaryCrossEntropy,
    "cross_entropy": _CrossEntropy,
}


def _add(total: Tensor, gradient: Tensor) -> None:
    if gradient.layout == torch.sparse_coo:  # += would sort it first
        total.index_add_(0, gradient._indices()[0], gradient._values().to(total.dtype))
    else:
        total += gradient


def _all_gather(tensor: Tensor, group: distributed.ProcessGroup | None) -> Tensor:
    """Gathers the rows of tensors of the same shape from all processes."""
    parts = [torch.empty_like(tensor) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(parts, tensor.contiguous(), group=group)
    return torch.cat(parts)
