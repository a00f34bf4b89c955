"""What tells that tensors have changed, or hold numbers that are not finite."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def unwrapped(model: nn.Module) -> Any:
    """The model itself, of one in a wrapper such as `DistributedDataParallel`.

    Args:
        model: A model, or a wrapper that has it as its `module`.
    """
    return getattr(model, "module", model)


def towers_of(model: nn.Module) -> Any:
    """The `GileModel` of a classifier, or that itself, out of any wrapper.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`, wrapped or not.

    Raises:
        ValueError: It is something else.
    """
    model = unwrapped(model)
    gile = getattr(model, "gile", model)
    if not hasattr(gile, "label_tables"):
        raise ValueError(f"model must be a GileModel or a GileForSequenceClassification, got {type(model).__name__}")
    return gile


@torch.compiler.disable
@torch.no_grad()
def state_of(*tensors: Tensor) -> tuple[Any, ...]:
    """What stays equal while tensors hold the same, read at the speed of memory: a number made of all their bits.

    Versions of tensors do not tell: a fused optimizer, and writing into `.data`, leave them as they are.

    Args:
        tensors: Weights, or words.
    """
    on: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        # Of weights that processes share, this process's part.
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        on.setdefault(tensor.device, []).append(local.detach())
    return *((one.device, one.dtype, one.shape) for one in tensors), *(_content(some).item() for some in on.values())


def _content(tensors: Sequence[Tensor]) -> Tensor:
    """A sum modulo 2^64 of the bits, each 64 of them times an odd number of their place: no single change escapes."""
    device = tensors[0].device
    for level in _factors(device):
        size, wholes, tails = 8 * len(level), [], []
        for tensor in tensors:
            flat = tensor.flatten()
            if flat.storage_offset() * flat.element_size() % 8:
                flat = flat.clone()
            flat = flat.view(torch.uint8)
            whole = len(flat) - len(flat) % size
            if whole:
                wholes.append(flat[:whole])
            tails.append(flat[whole:])
        tail = torch.cat(tails)
        wholes.append(functional.pad(tail, (0, -len(tail) % size)))
        rows = [whole.view(torch.int64).view(-1, len(level)) for whole in wholes]
        if device.type == "cpu":
            tensors = [torch.cat([some.mv(level) for some in rows])]
        else:  # other devices have no such product of whole numbers
            tensors = [torch.cat([(part * level).sum(1) for some in rows for part in some.split(1 << 13)])]
    return tensors[0].sum()


@cache
def _factors(device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(1 << 62, (3, 512), generator=generator, device="cpu") * 2 + 1).to(device)


def is_finite(numbers: Tensor) -> bool:
    """Whether numbers are all finite.

    Args:
        numbers: Of any shape and type.
    """
    if not numbers.is_floating_point():
        return True
    # Of a sum that is finite, all is; it takes a fortieth of the time of a look at each.
    return bool(numbers.sum(dtype=torch.promote_types(numbers.dtype, torch.float32)).isfinite()) or bool(
        numbers.isfinite().all()
    )


def check_finite(weights: Mapping[str, Any], name: str) -> None:
    """Refuses weights with numbers that are not finite: all scores would be NaN.

    Args:
        weights: By their names. Those that are elsewhere, not yet there or quantized are not looked at.
        name: What to call them.

    Raises:
        ValueError: A weight has such a number; the message names it.
    """
    for key, weight in weights.items():
        is_plain = type(weight) in (Tensor, nn.Parameter) and weight.device.type != "meta"
        if is_plain and weight.dtype.itemsize > 1 and not is_finite(weight):
            place = (~weight.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"{name}: {key} holds {weight[tuple(place)].item()} at {place}, so all scores would be NaN: the file "
                "is damaged, or training diverged; take an earlier checkpoint"
            )


__all__ = ["check_finite", "is_finite", "state_of", "towers_of", "unwrapped"]
