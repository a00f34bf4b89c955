"""Defines units, named output layers: those in the tables of the papers, and further ones.

The bilinear units and the ablations are named after the rows of Table 2 of GILE (Pappas & Henderson, TACL 2019).
The baselines in that table that are not GILE models are also units, in recipes/baselines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from hf_gile import GileConfig, GileForSequenceClassification
from hf_gile.settings import only_read


@dataclass(frozen=True)
class Unit:
    """An output layer with its model class and loss.

    Args:
        fields: Fields of `GileConfig` and `GileTextConfig`; `joint_size` may be the name of another field.
        model: Class of the model; classes other than `GileForSequenceClassification` are evaluated but not saved.
        loss: Loss of a `UnitLoss`, a function of the scores of all labels; by default cross-entropy.
    """

    fields: Mapping[str, Any]
    model: type[GileForSequenceClassification] = GileForSequenceClassification
    loss: Callable[..., Any] | None = None

    @property
    def is_linear(self) -> bool:
        """Whether the output layer does not read label texts."""
        return bool(self.fields["output_layer"] == "linear")

    @property
    def is_saved(self) -> bool:
        """Whether the model is saved; baselines are only evaluated."""
        return self.model is GileForSequenceClassification

    @property
    def reads_words(self) -> bool:
        """Whether the unit supports word models only."""
        return not self.is_saved or bool({"text_encoder_type", "joint_size"} & set(self.fields))

    def settings(self, **fields: Any) -> dict[str, Any]:
        """Returns the fields of a `GileConfig` with this unit, without fields that have no effect.

        Args:
            fields: The other fields.
        """
        merged = {**fields, **self.fields}
        if isinstance(merged.get("joint_size"), str):  # equal to another size
            merged["joint_size"] = merged[merged["joint_size"]]
        return only_read(**merged)

    def config(self, **fields: Any) -> GileConfig:
        """Creates the configuration of a model with this unit.

        Args:
            fields: As in `settings`.

        Raises:
            ValueError: If fields are invalid or incompatible.
        """
        try:
            return GileConfig(**self.settings(**fields))
        except (StrictDataclassError, ValueError) as error:
            raise ValueError(" ".join(str(error).split())) from None


UNITS: dict[str, Unit] = {
    "linear": Unit({"output_layer": "linear"}),  # W h, Eq. 3
    "gile": Unit({"output_layer": "gile"}),  # Eq. 14
    "bilinear_n16": Unit({"output_layer": "bilinear"}),  # E W h, BIL [N16]
    "bilinear_yh15": Unit({"output_layer": "bilinear_yh15", "joint_size": "hidden_size"}),  # s(E W) W h, BIL [YH15]
    "constrained": Unit({"output_layer": "gile", "joint_size": "hidden_size"}),  # GILE, constrained d_j
    "only_label": Unit({"output_layer": "only_label"}),  # Eq. 6a
    "only_input": Unit({"output_layer": "only_input"}),  # Eq. 6b
    # Future work (section 2.2).
    "label_encoder": Unit({"output_layer": "gile", "label_encoder_type": "text_encoder"}),
    # Scores by label texts, plus a row for each label with training documents; for pretrained encoders.
    "gile_rows": Unit({"output_layer": "gile", "cosine_score": True, "label_rows": "full"}),
    # The same with a bilinear form, trained in steps; the default of `hf-gile train` is a convex fit of these terms.
    "bilinear_rows": Unit({"output_layer": "bilinear", "cosine_score": True, "label_rows": "full"}),
    # Not in the paper, which uses ReLU everywhere.
    "linear_tanh": Unit({"output_layer": "linear", "hidden_act": "tanh"}),
    "gile_tanh": Unit({"output_layer": "gile", "hidden_act": "tanh", "joint_act": "tanh"}),
}
"""Units for models to use, by name."""
