"""The output layers and baselines of the paper's tables, as fields of `GileConfig`; `baselines` has the rest.

The bilinear units and the ablations are named after the rows of Table 2 of GILE (Pappas & Henderson, TACL 2019).
"""

from typing import Any

from huggingface_hub.errors import StrictDataclassError

from hf_gile import GileConfig
from hf_gile.settings import only_read

UNITS: dict[str, dict[str, Any]] = {
    "linear": {"output_layer": "linear"},  # W h, Eq. 3
    "gile": {"output_layer": "gile"},  # Eq. 14
    "bilinear_n16": {"output_layer": "bilinear"},  # E W h, BIL [N16]
    "bilinear_yh15": {"output_layer": "bilinear_yh15", "joint_size": "hidden_size"},  # s(E W) W h, BIL [YH15]
    "constrained": {"output_layer": "gile", "joint_size": "hidden_size"},  # GILE, constrained d_j
    "only_label": {"output_layer": "only_label"},  # Eq. 6a
    "only_input": {"output_layer": "only_input"},  # Eq. 6b
    # Two of "our preliminary experiments" (note 5), and future work (section 2.2).
    "hinge": {"output_layer": "linear"},
    "label_encoder": {"output_layer": "gile", "label_encoder_type": "text_encoder"},
    # [N16], as far as GILE describes them.
    "wsabie": {"text_encoder_type": "nn", "output_layer": "bilinear"},
    "aitextml": {"text_encoder_type": "nn", "output_layer": "bilinear"},
    # What text and label say, and a row of its own for each label with documents: the one made for pretrained encoders.
    "gile_rows": {"output_layer": "gile", "cosine_score": True, "label_rows": True},
    # The same with a bilinear form, which can be fitted as a convex problem: what `auto` stands for, automatic.py.
    "bilinear_rows": {"output_layer": "bilinear", "cosine_score": True, "label_rows": True, "lexical": True},
    # Not in the paper, which has ReLU throughout and no ranking loss for GILE.
    "linear_tanh": {"output_layer": "linear", "hidden_act": "tanh"},
    "gile_tanh": {"output_layer": "gile", "hidden_act": "tanh", "joint_act": "tanh"},
    "gile_warp": {"output_layer": "gile"},
    "gile_learned": {"output_layer": "gile"},
    "wsabie_cross_entropy": {"text_encoder_type": "nn", "output_layer": "bilinear"},
}


def unit_fields(name: str, **fields: Any) -> dict[str, Any]:
    """Fields of a `GileConfig` with the named unit, without those that its model would not read.

    Args:
        name: One of `UNITS`.
        fields: The other fields.
    """
    merged = {**fields, **UNITS[name]}
    if isinstance(merged.get("joint_size"), str):  # bounded by another size
        merged["joint_size"] = merged[merged["joint_size"]]
    return only_read(**merged)


def unit_config(name: str, **fields: Any) -> GileConfig:
    """The configuration of a model with the named unit.

    Args:
        name: One of `UNITS`.
        fields: As of `unit_fields`.

    Raises:
        ValueError: The fields make no sense, or do not go together.
    """
    try:
        return GileConfig(**unit_fields(name, **fields))
    except (StrictDataclassError, ValueError) as error:
        raise ValueError(f"unit {name}: {' '.join(str(error).split())}") from None
