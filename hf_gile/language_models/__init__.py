"""A joint input-output embedding as the output layer of language models: they can write words learned after training.

The files of this folder travel with a saved model, and import nothing of the others.
"""

from .joint_models import joint_class, replace_output_embeddings
from .joint_output import JointOutputEmbedding

__all__ = ["JointOutputEmbedding", "joint_class", "replace_output_embeddings"]
