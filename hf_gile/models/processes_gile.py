"""What is divided among processes, and put together again."""

from typing import Any

import torch
from torch import Tensor, distributed


def share_of(number: int, rank: int, world_size: int) -> slice:
    """The part of a number of labels that one process has; the parts follow each other.

    Args:
        number: How many there are.
        rank: Which process.
        world_size: How many processes.

    Example:
        >>> share_of(7, rank=1, world_size=2)
        slice(3, 7, None)
    """
    return slice(number * rank // world_size, number * (rank + 1) // world_size)


def all_gathered(tensor: Tensor, group: Any = None) -> list[Tensor]:
    """The tensors of all processes, which have the same shape.

    Args:
        tensor: That of this process.
        group: The `torch.distributed` process group; by default all processes.
    """
    parts = [torch.empty_like(tensor) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(parts, tensor.contiguous(), group=group)
    return parts


__all__ = ["all_gathered", "share_of"]
