"""Transformers language models whose output layer is replaced by a joint output layer.

Classes are created on demand, by name: `JointGPT2LMHeadModel` is GPT2LMHeadModel with a `JointOutputEmbedding`. This
file and joint_output.py are copied into saved models, which
`AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)` loads. The configuration is that of the
architecture with an additional field, `joint_output`.
"""

import functools
import inspect
from typing import Any

import transformers
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from .joint_output import JointOutputEmbedding, JointProjection

PREFIX = "Joint"
LOSSES = ("full", "chunked", "sampled")
# Configuration fields of architectures that transform logits after the output layer.
_LOGIT_TRANSFORMS = ("final_logit_softcapping", "logits_scaling", "logit_scale", "lm_head_multiplier")


def replace_output_embeddings(
    model: PreTrainedModel,
    joint_size: int = 512,
    *,
    form: str = "joint",
    depth: int = 1,
    residual: bool = False,
    loss: str = "full",
    sample: float | None = None,
) -> PreTrainedModel:
    """Replaces the output layer of a language model with a joint output layer, in place.

    The new layer is untrained (`form="bilinear"` starts as weight tying if sizes allow): train the model, or only its
    `lm_head`, before use.

    Args:
        model: A causal or encoder-decoder language model of Transformers.
        joint_size: Size of the joint space, for the form "joint".
        form: As in `JointOutputEmbedding`.
        depth: Number of projections in g_out.
        residual: Whether these projections have residual connections.
        loss: Training loss. `"full"`: the loss of the architecture, from all logits. `"chunked"`: the same loss without
            an (N, V) tensor of logits; the model output then has no logits. `"sampled"`: a softmax over a sample of the
            vocabulary.
        sample: Fraction of the vocabulary to sample, for `"sampled"`.

    Returns:
        The same model, now an instance of a class such as `JointGPT2LMHeadModel`.

    Raises:
        ValueError: If the model is not supported, or a setting is invalid.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2))
        >>> type(replace_output_embeddings(model, joint_size=16)).__name__
        'JointGPT2LMHeadModel'
    """
    if isinstance(model, JointOutputMixin):
        raise ValueError(f"{type(model).__name__} already has a joint output layer")
    if not isinstance(model, PreTrainedModel):
        raise ValueError(f"model must be a language model of Transformers, got {type(model).__name__}")
    architecture = type(model).__name__
    joint: Any = getattr(inspect.getmodule(type(model)), PREFIX + architecture, None) or joint_class(architecture)
    if not issubclass(joint, type(model)):
        raise ValueError(f"{type(model).__name__} is a custom class, not the Transformers class of this name")
    settings = {
        "joint_size": joint_size,
        "form": form,
        "depth": depth,
        "residual": residual,
        "loss": loss,
        "sample": sample,
    }
    check_settings(settings, model.config)
    head, source = _create_layer(model, settings)
    if not isinstance(model.config, joint.config_class):
        model.config.__class__ = joint.config_class
    model.config.joint_output = settings
    model.config.tie_word_embeddings = True
    model.__class__ = joint
    _install(model, head, source)
    for module in head.modules():
        module._is_hf_initialized = True  # type: ignore[assignment]
    return model


@functools.cache
def joint_class(architecture: str) -> type[PreTrainedModel]:
    """Returns the class of a Transformers architecture with a joint output layer.

    Args:
        architecture: Name of a causal or encoder-decoder language model, such as `"LlamaForCausalLM"`.

    Raises:
        ValueError: If Transformers has no such language model.
    """
    autos = {
        "AutoModelForCausalLM": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "AutoModelForSeq2SeqLM": MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }
    auto = next((name for name, names in autos.items() if architecture in names.values()), None)
    base: Any = getattr(transformers, architecture, None) if auto else None
    if base is None or auto is None:
        raise ValueError(
            f"{architecture} is not a causal or encoder-decoder language model of Transformers "
            "(see AutoModelForCausalLM and AutoModelForSeq2SeqLM)"
        )

    joint = with_joint_output(base, auto, __name__)
    globals()[joint.__name__] = joint  # for pickle
    # Pipelines and the label smoothing of Trainer recognize a language model by this name.
    autos[auto][joint.__name__] = joint.__name__
    return joint


def with_joint_output(base: Any, auto: str | None, module: str) -> type[PreTrainedModel]:
    """Creates a subclass of an architecture with a joint output layer, named with the prefix `Joint`.

    Args:
        base: The class of the architecture; `replace_output_embeddings` looks for the new class in the same module.
        auto: Name of the auto class that loads saved models.
        module: Name of the module of the new class.
    """

    @functools.wraps(base.forward)  # the Trainer and generate read the signature
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("labels") is None or not self.training or self.config.joint_output["loss"] == "full":
            return base.forward(self, *args, **kwargs)
        return self._forward_without_logits(base.forward, *args, **kwargs)

    members = {"__module__": module, "__doc__": f"{base.__name__} with a joint output layer.", "forward": forward}
    return type(PREFIX + base.__name__, (JointOutputMixin, base, GenerationMixin), members | {"_auto_class": auto})


def __getattr__(name: str) -> type[PreTrainedModel]:
    """Creates classes such as `JointGPT2LMHeadModel`, to which saved configurations refer."""
    if name.startswith(PREFIX):
        try:
            return joint_class(name.removeprefix(PREFIX))
        except ValueError as error:
            raise AttributeError(str(error)) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class JointOutputMixin:
    """Adapts a language model to its joint output layer."""

    config: Any
    training: bool

    def __init__(self, config: PreTrainedConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]
        model: Any = self
        settings = getattr(config, "joint_output", None)
        if not isinstance(settings, dict):
            raise ValueError(
                f"config.joint_output must be a dict of settings, got {settings!r}; create the model with "
                "replace_output_embeddings"
            )
        check_settings(settings, config)
        config.tie_word_embeddings = True
        _install(model, *_create_layer(model, settings))
        model.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, JointOutputEmbedding):
            init.zeros_(module.bias)
        elif isinstance(module, JointProjection):
            module.reset_parameters()
        else:
            super()._init_weights(module)  # type: ignore[misc]

    def _get_resized_lm_head(self, old_lm_head: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        """Returns the same layer, since it shares the resized embedding table."""
        if not isinstance(old_lm_head, JointOutputEmbedding):
            return super()._get_resized_lm_head(old_lm_head, *args, **kwargs)  # type: ignore[misc]
        return old_lm_head

    def _adjust_bias(self, output_embeddings: nn.Module, input_embeddings: Tensor) -> None:
        """Resizes b to the number of embeddings; called whenever weights are tied."""
        if isinstance(output_embeddings, JointOutputEmbedding):
            output_embeddings.fit_bias()
        else:
            super()._adjust_bias(output_embeddings, input_embeddings)  # type: ignore[misc]

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Resizes E and b, like the method of Transformers, but keeps frozen parameters frozen."""
        model: Any = self
        states = [(parameter, parameter.requires_grad) for parameter in model.get_output_embeddings().parameters()]
        resized = super().resize_token_embeddings(*args, **kwargs)  # type: ignore[misc]
        for parameter, requires_grad in states:
            parameter.requires_grad_(requires_grad)
        return resized

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """Generates like the method of Transformers, but computes g_out(E) only once."""
        model: Any = self
        with model.get_output_embeddings().keeping_codes():
            return super().generate(*args, **kwargs)  # type: ignore[misc]

    def _forward_without_logits(self, forward: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs `forward` to collect hidden states, and computes the loss from them."""
        model: Any = self
        settings = model.config.joint_output
        labels = kwargs.pop("labels")
        num_items = kwargs.pop("num_items_in_batch", None)
        as_dict = kwargs.pop("return_dict", None)
        seq2seq = model.config.is_encoder_decoder
        if seq2seq and kwargs.get("decoder_input_ids") is None and kwargs.get("decoder_inputs_embeds") is None:
            kwargs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels=labels)
        head = model.get_output_embeddings()
        with head.collecting() as collected:
            outputs = forward(self, *args, **kwargs, return_dict=True)
        (hidden,) = collected
        if not seq2seq:
            hidden = hidden[:, :-1]
            labels = labels[:, 1:]
        extra = getattr(model, "final_logits_bias", None)
        loss = head.loss(
            hidden.flatten(0, 1),
            labels.to(hidden.device).flatten(),
            sample=settings["sample"] if settings["loss"] == "sampled" else None,
            num_items=num_items,
            extra_bias=None if extra is None else extra[0],
        )
        outputs = type(outputs)(**{**outputs, "loss": loss})
        return outputs.to_tuple() if as_dict is False else outputs


def check_settings(settings: dict[str, Any], config: PreTrainedConfig) -> None:
    """Validates the settings of a joint output layer.

    Args:
        settings: The value of `config.joint_output`.
        config: The configuration of the model.

    Raises:
        ValueError: If a setting is invalid or not supported by the model.
    """
    fields = {*inspect.signature(replace_output_embeddings).parameters} - {"model"}
    if set(settings) != fields:
        raise ValueError(f"joint_output must have the fields {sorted(fields)}, got {sorted(settings)}")
    loss = settings["loss"]
    sample = settings["sample"]
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}")
    if (loss == "sampled") != (sample is not None) or (sample is not None and not 0 < sample <= 1):
        raise ValueError(
            f"sample must be a fraction above 0 and at most 1 with loss='sampled', and None otherwise; got {sample}"
        )
    transforms = [name for name in _LOGIT_TRANSFORMS if getattr(config, name, None) not in (None, 1, 1.0)]
    if transforms and loss != "full":
        raise ValueError(f"this architecture changes logits after the output layer ({transforms[0]}): use loss='full'")


def _create_layer(model: Any, settings: dict[str, Any]) -> tuple[JointOutputEmbedding, str]:
    """Creates the output layer for a model; returns it with the name of the embedding table."""
    output = model.get_output_embeddings()
    if output is None:
        raise ValueError(f"{type(model).__name__} has no output layer to replace")
    names = {name: module for name, module in model.named_modules() if module is output}
    tied = model._tied_weights_keys or {}
    source = next((tied[f"{name}.weight"] for name in names if f"{name}.weight" in tied), None)
    if source is None:
        table = model.get_input_embeddings().weight
        source = next(name for name, parameter in model.named_parameters() if parameter is table)
    hidden_size = output.weight.shape[1]
    keys = ("joint_size", "form", "depth", "residual")
    head = JointOutputEmbedding(model.get_parameter(source), hidden_size, **{key: settings[key] for key in keys})
    return head, source


def _install(model: Any, head: JointOutputEmbedding, source: str) -> None:
    """Replaces the output layer and ties it to the embedding table."""
    old = model.get_output_embeddings()
    name = next(name for name, module in model.named_modules() if module is old)
    model.set_output_embeddings(head)
    if model.get_output_embeddings() is not head:
        raise ValueError(f"{type(model).__name__} does not support replacing its output layer")
    model._tied_weights_keys = {**(model._tied_weights_keys or {}), f"{name}.weight": source}
    model.all_tied_weights_keys = model.get_expanded_tied_weights_keys(all_submodels=True)
    head.train(model.training)
