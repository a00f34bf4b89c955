"""Exports models and label codes to other tools: Sentence Transformers, ONNX, vector databases."""

from .onnx_files import export_onnx
from .sentence_folder import export_sentence_transformers
from .vector_files import export_vectors

__all__ = ["export_onnx", "export_sentence_transformers", "export_vectors"]
