"""A joint input-output embedding as the output layer of language models: they can write words learned after training.

The files of this folder travel with a saved model, and import nothing of the others.
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
