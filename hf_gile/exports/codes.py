"""Computes the parts of a score that other tools can use as inner products, and rejects the other parts.

Shapes: L labels, J joint size, P size of a document vector.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..models import GileForSequenceClassification, LabelSet
from ..models.search_gile import get_bias

WORDS = (
    "the model also counts the words that a text and a label share, which exports cannot represent: leave them out "
    "with without_words=True; docs/exports.md measures the loss of quality"
)
"""Message for a model with lexical terms, which are not inner products of codes."""

_NEARLY_LINEAR = 2.0**-10
"""Factor of numbers inside tanh for which tanh is linear to single precision: their error is below x^2 / 3,000,000."""


class DenseLayer(NamedTuple):
    """Maps `(P,)` document vectors of length 1 to text codes: `activation(weight x + bias) * scale`.

    Args:
        weight: `(J, P)`.
        bias: `(J,)`.
        activation: A torch module.
        scale: `(J,)`, which can be applied to the label codes instead.
    """

    weight: Tensor
    bias: Tensor
    activation: nn.Module
    scale: Tensor


@torch.no_grad()
def label_codes(model: GileForSequenceClassification, without_words: bool = False) -> tuple[LabelSet, Tensor, float]:
    """Computes the label side of the score: the logits are `text_codes @ codes.T + bias`.

    Args:
        model: The model.
        without_words: Whether to leave out lexical terms.

    Returns:
        The stored labels, their `(L, J)` codes, and the bias.

    Raises:
        ValueError: If the model stores no labels, has lexical terms, or is multilingual.
    """
    config = model.config
    if config.languages:
        raise ValueError(
            f"the model scores {', '.join(config.languages)} separately, and an export supports a single language"
        )
    if model.gile.output_layer.counts_words and not without_words:
        raise ValueError(WORDS)
    if model.label_set is None:
        raise ValueError("the model stores no labels: add some with model.set_labels or hf-gile labels import")
    codes = model.eval().project_stored_labels().float().cpu().clone()
    return model.label_set, codes, get_bias(model.gile, None)


@torch.no_grad()
def dense_layer(model: GileForSequenceClassification) -> DenseLayer:
    """Computes the document side of the score as a dense layer over the pooled states of a pretrained encoder.

    The layer can represent only the joint term with any activation, or all terms together if the activation is linear
    or tanh, as in the default of `hf-gile train`: tanh is linear for small numbers.

    Raises:
        ValueError: If the text encoder, the pooling or the terms cannot be represented by such a layer.
    """
    config = model.config
    text = config.text_config
    if text.text_encoder_type != "transformer" or text.pooling == "attention":
        raise ValueError(
            "Sentence Transformers needs a pretrained encoder with mean, sum or cls pooling, got "
            f"text_encoder_type {text.text_encoder_type!r} with pooling {text.pooling!r}"
        )
    if config.output_layer != "linear" and config.joint_layers > 1:
        raise ValueError(f"joint_layers {config.joint_layers}: text codes must be computed by a single layer")
    layer = model.gile.output_layer.cpu()
    units = torch.eye(text.pooled_size) * text.pooled_size**0.5  # document vectors have a root mean square of 1
    codes = layer.project_texts(units)
    if config.joint_act == "linear" or config.output_layer.startswith(("linear", "only_label", "bilinear")):
        # The codes of P unit vectors, and of the negative of the first, determine the layer.
        constant = (codes[:1] + layer.project_texts(-units[:1]))[0] / 2
        return DenseLayer((codes - constant).T.contiguous(), constant, nn.Identity(), torch.ones(len(constant)))
    has_other_terms = config.cosine_score or config.label_rows or config.mixture.sets("offset")
    if has_other_terms and config.joint_act != "tanh":
        raise ValueError(
            f"the joint term has the activation {config.joint_act!r}, but the other terms have none "
            f"(cosine_score={config.cosine_score}, label_rows={config.label_rows}, term_weights): a layer has a single "
            "activation, which must be tanh"
        )
    activation = layer.input_activation
    if not type(activation).__module__.startswith("torch."):
        raise ValueError(f"joint_act {config.joint_act!r} is not a torch activation, which Dense layers require")
    weight = layer.input_projection.weight * text.pooled_size**0.5
    scale = layer.classifier()[0][0].detach().clone()
    return _with_linear_terms(DenseLayer(weight, layer.input_projection.bias.clone(), activation, scale), codes)


def _with_linear_terms(joint: DenseLayer, codes: Tensor) -> DenseLayer:
    """Adds the parts of text codes that are linear in h to a layer with tanh.

    Args:
        joint: The layer of the joint term.
        codes: `(P, J + P + 1)` codes of the P unit vectors: after the joint term, h and perhaps a constant 1.
    """
    size = len(codes)
    rest = codes[:, len(joint.weight) :]
    constant = rest.new_zeros(rest.shape[1])
    constant[size:] = 0.5
    weight = rest.T * _NEARLY_LINEAR
    weight[size:] = 0
    scale = torch.full_like(constant, 1 / _NEARLY_LINEAR)
    scale[size:] = 2.0
    return DenseLayer(
        torch.cat([joint.weight, weight]),
        torch.cat([joint.bias, constant.atanh()]),
        joint.activation,
        torch.cat([joint.scale, scale]),
    )
