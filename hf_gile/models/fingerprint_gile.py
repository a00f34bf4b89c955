"""What tells a model's codes from those of any other, for files and within a process."""

import hashlib
import json
import weakref
from typing import Any

import torch
from torch import Tensor

# What decides, beside the weights, which code a text gets. Fields that do not (sizes show in the weights, limits on
# words are the processor's, the rest is of training) may change without making an index stale.
_FIELDS = (
    "encoder_cell",
    "format_version",
    "cosine_score",
    "hidden_act",
    "joint_act",
    "joint_layers",
    "label_encoder_type",
    "label_rows",
    "languages",
    "lexical_size",
    "output_layer",
    "pad_token_id",
    "pooling",
    "recurrent_act",
    "share_joint_space",
    "sharing",
    "text_encoder_type",
)


# Of the configuration of a pretrained encoder: what saving, loading and training change, and codes do not depend on.
_NO_DIFFERENCE = ("_name_or_path", "architectures", "dtype", "transformers_version", "use_cache")


_SAMPLE = 65_536
"""Numbers of a weight that are looked at."""

_FINGERPRINTS: "weakref.WeakKeyDictionary[Any, tuple[Any, str]]" = weakref.WeakKeyDictionary()


def fingerprint(model: Any) -> str:
    """What tells a model's codes from those of any other: a hash of the weights and of what else makes codes.

    It survives saving, loading and moving to another device, but not another type of the weights. Hashed again only
    when the weights may have changed.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`.
    """
    gile = towers_of(model)
    weights = {name: value for name, value in gile.state_dict().items() if not name.startswith("word_prediction.")}
    state = (gile._mode_changes, *state_of(*weights.values()))
    kept = _FINGERPRINTS.get(gile)
    if kept is None or kept[0] != state:
        digest = hashlib.blake2b(digest_size=32)
        fields = {name: getattr(gile.config, name) for name in _FIELDS}
        if gile.config.text_encoder_config is not None:
            encoder = gile.config.text_encoder_config.to_dict()
            fields["text_encoder_config"] = {
                name: value for name, value in encoder.items() if name not in _NO_DIFFERENCE and "dropout" not in name
            }
        digest.update(json.dumps(fields, sort_keys=True, default=str).encode())
        for name, weight in sorted(weights.items()):
            digest.update(f"{name} {weight.dtype} {tuple(weight.shape)} ".encode())
            flat = weight.detach().flatten()
            for start in range(0, len(flat), 1 << 22):
                digest.update(flat[start : start + (1 << 22)].cpu().contiguous().view(torch.uint8).numpy())
        kept = _FINGERPRINTS[gile] = (state, digest.hexdigest())
    return kept[1]


def unwrapped(model: Any) -> Any:
    """The model itself, of one in a wrapper such as `DistributedDataParallel`.

    Args:
        model: A model, or a wrapper that has it as its `module`.
    """
    return getattr(model, "module", model)


def towers_of(model: Any) -> Any:
    """The `GileModel` of a classifier, or that itself, out of any wrapper.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`, wrapped or not.
    """
    model = unwrapped(model)
    return getattr(model, "gile", model)


def state_of(*tensors: Tensor) -> tuple[Any, ...]:
    """What stays equal while weights do, cheap enough for every call: places, versions, and a sum over a sample.

    A fused optimizer, and writing into `.data`, leave the version as it is; so the numbers are looked at, too.

    Args:
        tensors: The weights.
    """
    states, totals = [], []
    # Falling factors, for a plain sum would not see rows change places.
    factors = {device: torch.linspace(1, 2, _SAMPLE, device=device) for device in {one.device for one in tensors}}
    for tensor in tensors:
        version = 0 if tensor.is_inference() else tensor._version
        sample = tensor.detach().flatten()[:: -(-tensor.numel() // _SAMPLE) or 1].float()
        # `dot`, unlike `@`, is not of 16 bits under autocast.
        totals.append(sample.dot(factors[tensor.device][: len(sample)]).to(tensors[0].device))
        states.append((tensor.data_ptr(), tensor.device, tensor.dtype, tensor.shape, version))
    # All numbers at once: each waits for the device.
    if totals:
        states.append(tuple(torch.stack(totals).tolist()))
    return tuple(states)


__all__ = ["fingerprint", "state_of", "towers_of", "unwrapped"]
