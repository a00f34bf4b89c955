"""Reads and writes golden cases: fields and weights of a model, its inputs, and its stored outputs.

A file consists of a text part with the cases, and two binary parts with their concatenated tensors: weights in float16,
which represents the weights of `write.py` exactly, and outputs in float64.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

FOLDER = Path(__file__).parent


@dataclass
class Case:
    """A model and its outputs.

    Args:
        name: Description of the model.
        fields: Fields of its configuration, by the names they had when the case was written.
        inputs: Documents, labels and columns, as lists of numbers.
        gradients: Weights whose gradients are compared, by the names they had.
        tolerance: Maximum difference of results.
        weights: All of its weights, by the names they had.
        outputs: The outputs.
    """

    name: str
    fields: dict[str, Any]
    inputs: dict[str, Any]
    gradients: list[str] = field(default_factory=list)
    tolerance: float = 1e-12
    weights: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)


_TENSORS = {"weights": np.float16, "outputs": np.float64}


def save_cases(file: Path, cases: list[Case]) -> None:
    """Writes a file of cases."""
    rows, parts = [], {}
    for case in cases:
        row = dict(vars(case))
        for part in _TENSORS:
            row[part] = {name: list(tensor.shape) for name, tensor in row[part].items()}
        rows.append(row)
    for part, kind in _TENSORS.items():
        tensors = [tensor.detach().numpy().ravel() for case in cases for tensor in getattr(case, part).values()]
        parts[part] = np.concatenate(tensors).astype(kind)
    text = np.frombuffer(json.dumps(rows, separators=(",", ":")).encode(), dtype=np.uint8)
    np.savez_compressed(file, cases=text, **parts)


def load_cases(file: Path) -> list[Case]:
    """Reads a file of cases; all numbers come back in float64."""
    with np.load(file) as archive:
        rows = json.loads(archive["cases"].tobytes())
        numbers = {part: torch.from_numpy(archive[part].astype(np.float64)) for part in _TENSORS}
    for part, rest in numbers.items():
        for row in rows:
            for name, shape in row[part].items():
                size = int(np.prod(shape))
                row[part][name], rest = rest[:size].view(shape), rest[size:]
    return [Case(**row) for row in rows]
