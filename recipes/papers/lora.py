"""Adds low-rank adapters (LoRA: Hu et al., ICLR 2022) to a pretrained encoder with peft (extra `train`)."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from hf_gile.extras import needs_extra
from hf_gile.training.pretrained import pretrained_encoder


def add_lora(
    model: nn.Module,
    rank: int = 8,
    alpha: int = 16,
    target_modules: Sequence[str] | str | None = None,
    dropout: float = 0.0,
) -> None:
    """Adds adapters to the pretrained encoder and freezes its other weights.

    The head is trained as before. A Trainer saves and resumes checkpoints with adapters, which change the names of
    weights: add the same adapters before loading a checkpoint, and call `merge_lora` before using the model.

    Args:
        model: A `GileModel` or `GileForSequenceClassification`, changed in place.
        rank: Rank of the low-rank factors.
        alpha: The product of the factors is scaled by `alpha / rank`.
        target_modules: Names of linear layers as in peft, such as `["query", "value"]`; by default all in the encoder.
        dropout: Dropout of adapter inputs.

    Raises:
        ImportError: If peft is not installed.
        ValueError: If the model has no pretrained encoder, a frozen encoder, or adapters; or `rank` is below 1.
    """
    with needs_extra("train", "LoRA"):
        from peft import LoraConfig, inject_adapter_in_model
    encoder = pretrained_encoder(model)
    if encoder is None:
        raise ValueError("LoRA needs a pretrained encoder, but this is a word model: see model_from_text_encoder")
    if _find_adapters(encoder):
        raise ValueError("the model already has adapters: merge them with merge_lora(model)")
    config: Any = model.config
    if config.text_config.freeze_text_encoder:
        raise ValueError("config.text_config.freeze_text_encoder freezes the whole encoder: set it to false for LoRA")
    if rank < 1:
        raise ValueError(f"rank must be at least 1, got {rank}")
    targets = target_modules if isinstance(target_modules, str) else list(target_modules or ())
    lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets or "all-linear", lora_dropout=dropout)
    inject_adapter_in_model(lora, encoder)  # also freezes the other weights of the encoder


def merge_lora(model: nn.Module) -> None:
    """Merges adapters into the weights, for an ordinary model without peft and with a trainable encoder.

    Args:
        model: A model after `add_lora`, changed in place.

    Raises:
        ValueError: If the model has no adapters.
    """
    encoder = pretrained_encoder(model)
    adapters = {} if encoder is None else _find_adapters(encoder)
    if encoder is None or not adapters:
        raise ValueError("the model has no adapters to merge: add them with add_lora(model)")
    for name, layer in adapters.items():
        layer.merge()
        parent, _, attribute = name.rpartition(".")
        setattr(encoder.get_submodule(parent), attribute, layer.get_base_layer())
    if hasattr(encoder, "peft_config"):
        del encoder.peft_config
    encoder.requires_grad_(True)


def _find_adapters(encoder: nn.Module) -> dict[str, Any]:
    """Returns the layers of an encoder that peft has replaced."""
    return {name: layer for name, layer in encoder.named_modules() if hasattr(layer, "get_base_layer")}
