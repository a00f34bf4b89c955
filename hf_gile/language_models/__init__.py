"""A joint input-output embedding as the output layer of language models, which can generate words added after training.

The files in this folder are copied into saved models and do not import other parts of hf_gile.
"""

from .joint_models import joint_class, replace_output_embeddings
from .joint_nmt import JointNmtConfig, JointNmtForConditionalGeneration, NmtConfig, NmtForConditionalGeneration
from .joint_output import JointOutputEmbedding

__all__ = [
    "JointNmtConfig",
    "JointNmtForConditionalGeneration",
    "JointOutputEmbedding",
    "NmtConfig",
    "NmtForConditionalGeneration",
    "joint_class",
    "replace_output_embeddings",
]
