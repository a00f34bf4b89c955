"""Models and label codes for tools that know nothing of hf_gile: Sentence Transformers, ONNX, vector databases."""

from .onnx_files import export_onnx
from .sentence_folder import export_sentence_transformers
from .vector_files import export_vectors

__all__ = ["export_onnx", "export_sentence_transformers", "export_vectors"]
