"""What of a score is an inner product of codes, which any tool can compute; and what is not, with the reason.

Shapes: L labels, J joint size, P size of a document vector.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..models import GileForSequenceClassification, LabelSet
from ..models.search_gile import bias_of

WORDS = "the score counts words that text and label share (config.lexical), which is no inner product of codes"
LEFT_OUT = "without_words=True (--without-words) leaves them out; docs/exports.md says what that costs"


class LabelCodes(NamedTuple):
    """The labels' side of the score: `text codes @ codes.T + bias` are the logits.

    Args:
        labels: The stored labels.
        codes: `(L, J)` codes of them.
        bias: The constant of the score.
    """

    labels: LabelSet
    codes: Tensor
    bias: float


class DenseLayer(NamedTuple):
    """From `(P,)` document vectors of length 1 to text codes: `activation(weight x + bias)`, times `scale`.

    Args:
        weight: `(J, P)`.
        bias: `(J,)`.
        activation: A module of torch.
        scale: `(J,)`, which may as well stand in the codes of labels.
    """

    weight: Tensor
    bias: Tensor
    activation: nn.Module
    scale: Tensor


@torch.no_grad()
def label_codes(model: GileForSequenceClassification, without_words: bool = False) -> LabelCodes:
    """The codes of the labels stored with a model.

    Args:
        model: The model.
        without_words: Whether to leave out terms that compare words.

    Raises:
        ValueError: The model stores no labels, has terms that compare words, or labels of several languages.
    """
    config = model.config
    if config.languages:
        raise ValueError(
            f"the model has documents in {', '.join(config.languages)}, each with a score of its own: an export has one"
        )
    if model.gile.output_layer.counts_words and not without_words:
        raise ValueError(f"{WORDS}: {LEFT_OUT}")
    if model.label_set is None:
        raise ValueError("the model stores no labels: add some with model.set_labels or hf-gile labels import")
    codes = model.eval().project_stored_labels().float().cpu().clone()
    return LabelCodes(model.label_set, codes, bias_of(model.gile, None))


@torch.no_grad()
def dense_layer(model: GileForSequenceClassification) -> DenseLayer:
    """The documents' side of the score as one layer over the mean, or the first, of a pretrained encoder's states.

    It is one for the joint term alone, whatever its activation; and for all terms together where that is linear, as
    what `hf-gile train` fits with nothing set.

    Raises:
        ValueError: Another text encoder or pooling; a bag; or terms that take several layers.
    """
    config, text = model.config, model.config.text_config
    if text.text_encoder_type != "transformer" or text.pooling == "attention":
        raise ValueError(
            "only a pretrained encoder with mean, sum or cls pooling is a Transformer and a Pooling, got "
            f"text_encoder_type {text.text_encoder_type!r} with pooling {text.pooling!r}"
        )
    if config.bag_size:
        raise ValueError(f"bag_size {config.bag_size}: a bag of tokens beside the encoder is no layer over its states")
    layer, size = model.gile.output_layer.cpu(), text.pooled_size
    activation = getattr(layer, "input_activation", nn.Identity())
    is_linear = config.output_layer in ("linear", "only_label") or config.joint_act == "linear"
    is_linear = is_linear or config.output_layer.startswith("bilinear")
    alone = (
        not config.cosine_score
        and not config.label_rows
        and not any("offset" in weights for weights in config.term_weights.values())
    )
    if config.output_layer != "linear" and config.joint_layers > 1:
        raise ValueError(f"joint_layers {config.joint_layers}: text codes take more than one layer")
    if is_linear:
        # A document vector has a root mean square of 1: what comes of P of them, and of an opposite one, is all.
        units = torch.eye(size) * size**0.5
        codes = layer.project_texts(units)
        constant = (codes[:1] + layer.project_texts(-units[:1]))[0] / 2
        return DenseLayer((codes - constant).T.contiguous(), constant, nn.Identity(), torch.ones(len(constant)))
    if not alone:
        raise ValueError(
            f"the joint term has the activation {config.joint_act!r} and the terms beside it have none "
            f"(cosine_score={config.cosine_score}, label_rows={config.label_rows}, term_weights): one layer has one "
            "activation"
        )
    if not type(activation).__module__.startswith("torch."):
        raise ValueError(
            f"joint_act {config.joint_act!r} is no activation of torch, which Dense layers are loaded with"
        )
    projection = layer.input_projection
    return DenseLayer(
        projection.weight * size**0.5, projection.bias.clone(), activation, layer.classifier()[0][0].detach().clone()
    )
