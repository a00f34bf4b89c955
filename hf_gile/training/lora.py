"""Low-rank adapters (LoRA: Hu et al., ICLR 2022) in the pretrained encoder of a model, by peft (extra `train`)."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from ..extras import needs_extra
from .pretrained import pretrained_encoder


def add_lora(
    model: nn.Module,
    rank: int = 8,
    alpha: int = 16,
    target_modules: Sequence[str] | str | None = None,
    dropout: float = 0.0,
) -> None:
    """Puts adapters into the pretrained encoder, and trains only them.

    What is above the encoder trains as before. A Trainer saves and resumes checkpoints of the model with its adapters,
    which have other names of weights: add the same adapters before one is loaded again, and take a model for use from
    `merge_lora`.

    Args:
        model: A `GileModel` or `GileForSequenceClassification`; it is changed in place.
        rank: Rank of the two factors that are added to a matrix.
        alpha: Their product counts `alpha / rank` times.
        target_modules: Names of the linear layers, as peft takes them, such as `["query", "value"]`; by default all of
            the encoder.
        dropout: Dropout of what the adapters read.

    Raises:
        ImportError: peft is not installed.
        ValueError: A model without a pretrained encoder, with a frozen one, or with adapters; or a rank below one.
    """
    with needs_extra("train", "LoRA"):
        from peft import LoraConfig, inject_adapter_in_model
    encoder = pretrained_encoder(model)
    if encoder is None:
        raise ValueError("LoRA is for pretrained encoders, and this model reads words: see model_from_text_encoder")
    if _adapters(encoder):
        raise ValueError("the model has adapters already: merge_lora(model) makes them part of its weights")
    config: Any = model.config
    if config.text_config.freeze_text_encoder:
        raise ValueError(
            "config.text_config.freeze_text_encoder is on, so nothing of the encoder is trained: leave it off for LoRA"
        )
    if rank < 1:
        raise ValueError(f"rank must be at least 1, got {rank}")
    targets = target_modules if isinstance(target_modules, str) else list(target_modules or ())
    lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets or "all-linear", lora_dropout=dropout)
    inject_adapter_in_model(lora, encoder)  # freezes the other weights of the encoder


def merge_lora(model: nn.Module) -> None:
    """Adds the adapters to the weights they belong to: an ordinary model, whose encoder is trainable, without peft.

    Args:
        model: A model after `add_lora`; it is changed in place.

    Raises:
        ValueError: The model has no adapters.
    """
    encoder = pretrained_encoder(model)
    adapters = {} if encoder is None else _adapters(encoder)
    if encoder is None or not adapters:
        raise ValueError("the model has no adapters to merge: add_lora(model) puts them in")
    for name, layer in adapters.items():
        layer.merge()
        parent, _, attribute = name.rpartition(".")
        setattr(encoder.get_submodule(parent), attribute, layer.get_base_layer())
    if hasattr(encoder, "peft_config"):
        del encoder.peft_config
    encoder.requires_grad_(True)


def _adapters(encoder: nn.Module) -> dict[str, Any]:
    """The layers of an encoder that peft has put in the place of others."""
    return {name: one for name, one in encoder.named_modules() if hasattr(one, "get_base_layer")}
