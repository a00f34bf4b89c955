"""Conversion of models published in other formats."""

from .keras_checkpoints import from_keras

__all__ = ["from_keras"]
