"""Conversion of the published Keras checkpoints of idiap/gile and idiap/mhan.

A checkpoint is a file of weights and `args.json`, the flags of the training run. Keras names a layer by its kind and a
running number: `time_distributed_5` (Keras 2) or `timedistributed_5` (Keras 1). The name does not tell the purpose of
the layer, but the order does. Ordered by number, the layers of each kind are:

| part | kind of Keras layer | module of `GileModel` |
| --- | --- | --- |
| encoders, of words, then of sentences | timedistributed | `text_encoder.*_encoder.{language}.dense` |
| - of attgru | gru | `text_encoder.*_encoder.{language}.directions.0` |
| - of attbigru | gru forward, gru backward | `text_encoder.*_encoder.{language}.directions.0`, `.1` |
| attention, to sentences, then to words | timedistributed, W and c | `text_encoder.*_attention.{language}.projection` |
| | timedistributed, u and b | `text_encoder.*_attention.{language}.context` |
| joint space, V and b_v, not if `onlylabel` | dense | `output_layer.input_projection.{language}` |
| joint space, U and b_u, not if `onlyinput` | dense | `output_layer.label_projection.{language}` |
| unit, w and b | timedistributed, dense without `la` | `output_layer.classifier.{language}` |

Parts shared by all languages come first and have no `{language}`. The remaining parts follow language by language.

| Keras 2 | Keras 1 | in the module |
| --- | --- | --- |
| kernel, bias | W, b | `weight` (transposed), `bias` |
| kernel, bias of a gru | W_z, W_r, W_h, b_z, b_r, b_h | `inputs.weight` (transposed), `inputs.bias` |
| recurrent_kernel | U_z, U_r, U_h | `gates.weight` (z and r, transposed), `candidate.weight` (h, transposed) |
"""

import json
import os
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError

from hf_gile.extras import needs_extra
from hf_gile.models.published_gile import PublishedGileConfig, PublishedGileModel, PublishedGru
from hf_gile.settings import only_read

ACTIVATIONS = ("tanh", "relu", "sigmoid", "linear")  # with the same meaning in Keras and in transformers
CHOICES: dict[str, dict[Any, str]] = {
    # Flags, their values, and the corresponding values here. The first value is the default of a missing flag.
    "enc": {"attdense": "dense", "attgru": "gru", "attbigru": "bigru"},
    "share": {None: "none", "none": "none", "enc": "encoders", "att": "attention", "both": "both"},
    "act": {"relu": "relu"} | {name: name for name in ACTIVATIONS},
    "laact": {"relu": "relu"} | {name: name for name in ACTIVATIONS},
    "gruact": {name: name for name in ACTIVATIONS},
}
KERAS_2_NAMES = {"W": "kernel", "U": "recurrent_kernel", "b": "bias"}


class KerasLayer(NamedTuple):
    """A layer with weights.

    Args:
        number: Running number among layers of its kind.
        name: Name in the file.
        arrays: Weights by their Keras 2 names.
    """

    number: int
    name: str
    arrays: dict[str, np.ndarray]


def from_keras(weights_path: str | os.PathLike[str], args_path: str | os.PathLike[str]) -> PublishedGileModel:
    """Converts a published Keras checkpoint (idiap/gile, idiap/mhan) into a model with the same scores.

    A checkpoint contains no vocabulary: the model takes `inputs_embeds` and `label_embeds`, and its word embedding
    table has two zero rows, for padding and unknown words. The published label vectors are means of at most 100 word
    vectors.

    Args:
        weights_path: The checkpoint, an HDF5 file of Keras 1 or 2.
        args_path: `args.json` of the same training run.

    Returns:
        The model, in float32 and in evaluation mode.

    Raises:
        ImportError: If h5py is not installed.
        ValueError: If a file is invalid or the two files do not match; the message says where.

    Example:
        >>> model = from_keras("weights.h5", "args.json")  # doctest: +SKIP
        >>> model(inputs_embeds=words, attention_mask=mask, label_embeds=labels, language="german")  # doctest: +SKIP
    """
    settings = _read_args(args_path)
    layers = _read_layers(weights_path)
    layers_by_name: dict[str, KerasLayer] = {}
    for kind, name in _parts(settings):
        if not layers.get(kind):
            raise ValueError(f"{weights_path}: no {kind} layer for {name}; check that {args_path} belongs to it")
        layers_by_name[name] = layers[kind].pop(0)
    for unused in layers.values():
        if unused:
            raise ValueError(f"{weights_path}: unexpected layer {unused[0].name}; check that {args_path} belongs to it")

    # Read from the weights: the number of labels, and the joint size if the run derived it from that.
    widths = {name: layer.arrays["bias"].size for name, layer in layers_by_name.items() if "bias" in layer.arrays}
    if settings["output_layer"] == "linear":
        sizes = {language: widths.get(f"output_layer.classifier.{language}", 0) for language in settings["languages"]}
        settings |= {"language_labels": sizes, "num_labels": sum(sizes.values())}
    else:
        projections = [width for name, width in widths.items() if "_projection" in name]
        settings.setdefault("joint_size", max(projections, default=1))
    try:
        model = PublishedGileModel(PublishedGileConfig(**only_read(**settings)))
    except StrictDataclassError as error:
        raise ValueError(f"{args_path}: {error.__cause__ or error}") from error

    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
        for name, layer in layers_by_name.items():
            module = model.get_submodule(name)
            expected = _expected_shapes(module)
            shapes = {array: values.shape for array, values in layer.arrays.items()}
            if shapes != expected:
                raise ValueError(f"{weights_path}: layer {layer.name}, {name}, should have {expected}, got {shapes}")
            _fill(module, {array: torch.from_numpy(values) for array, values in layer.arrays.items()})
    return model.eval()


def _read_args(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads those fields of a `PublishedGileConfig` that the flags of the run determine."""
    try:
        args = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # not JSON or not text
        raise ValueError(f"{path}: not a JSON object of flags: {error}") from error
    if not isinstance(args, dict):
        raise ValueError(f"{path}: expected a JSON object of flags, got {type(args).__name__}")

    def check(flag: str, is_right: bool, expected: str) -> None:
        if not is_right:
            raise ValueError(f"{path}: {flag} must be {expected}, got {args.get(flag)!r}")

    for flag, choices in CHOICES.items():
        value = args.setdefault(flag, next(iter(choices)))
        check(flag, isinstance(value, str | None) and value in choices, f"one of {', '.join(map(str, choices))}")
    for flag in ("wdim", "sdim", "ddim", "spad", "swpad"):
        check(flag, type(args.get(flag)) is int, "a number")
    check("ddim", args["ddim"] == args["sdim"], f"equal to sdim, {args['sdim']}")
    check("ladim", type(args.get("ladim")) in (int, type(None)), "a number, or null")
    languages = args.get("languages")
    are_names = isinstance(languages, list) and languages and all(isinstance(name, str) for name in languages)
    check("languages", bool(are_names), "a list of names")
    check("onlyinput", not (args.get("onlyinput") and args.get("onlylabel")), "false where onlylabel is true")

    joint = "only_label" if args.get("onlylabel") else "only_input" if args.get("onlyinput") else "gile"
    settings = {
        "text_encoder_type": "han",
        "vocab_size": 2,
        "embedding_size": args["wdim"],
        "encoder_cell": CHOICES["enc"][args["enc"]],
        "hidden_size": args["sdim"],
        "attention_size": args["sdim"] * (2 if args["enc"] == "attbigru" else 1),
        "hidden_act": args["act"],
        "recurrent_act": args["gruact"],
        "output_layer": joint if args.get("la") else "linear",
        "joint_act": args["laact"],
        "languages": languages,
        "sharing": CHOICES["share"][args["share"]],
        "share_joint_space": bool(args.get("lashare")),
        "max_sentences": args["spad"],
        "max_sentence_words": args["swpad"],
        "max_label_words": 100,
    }
    return settings if args.get("ladim") is None else settings | {"joint_size": args["ladim"]}


def _read_layers(path: str | os.PathLike[str]) -> dict[str, list[KerasLayer]]:
    """Reads the layers with weights, by kind and in order of creation."""
    with needs_extra("data", "reading Keras checkpoints"):
        import h5py
    arrays_by_layer: dict[str, dict[str, np.ndarray]] = {}
    try:
        with h5py.File(path) as file:
            for layer, group in file.items():
                names = [name.decode() if isinstance(name, bytes) else name for name in group.attrs["weight_names"]]
                arrays_by_layer[str(layer)] = {name: np.asarray(group[name]) for name in names}
    except FileNotFoundError:
        raise
    except Exception as error:  # h5py raises almost any exception for a broken file
        raise ValueError(f"{path}: not a complete HDF5 file of Keras weights: {error}") from error
    layers: dict[str, list[KerasLayer]] = {}
    for layer, arrays in arrays_by_layer.items():
        if arrays:
            kind = layer.rstrip(string.digits)
            merged = _as_keras_2(arrays, f"{path}: layer {layer}")
            number = int(layer[len(kind) :] or 0)
            layers.setdefault(kind.replace("_", ""), []).append(KerasLayer(number, layer, merged))
    return {kind: sorted(group, key=lambda layer: layer.number) for kind, group in layers.items()}


def _as_keras_2(arrays: dict[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    """Renames arrays as in Keras 2, which merges the arrays that Keras 1 has for each gate of a GRU."""
    gates: dict[str, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
        if values.dtype.kind != "f" or not np.isfinite(values).all():
            raise ValueError(f"{where}: {name} contains NaN or infinity")
        short = re.sub(r".*/|[a-z]+_\d+_", "", name, count=1)  # without the layer's name: `layer/kernel`, `layer_W_z`
        kind, _, gate = short.partition("_")
        whole, gate = (KERAS_2_NAMES[kind], gate) if kind in KERAS_2_NAMES else (short, "")
        gates.setdefault(whole, {})[gate] = values.astype("float32")
    merged = {}
    for whole, parts in gates.items():
        shapes = {gate: values.shape for gate, values in parts.items()}
        if set(parts) not in ({""}, set("zrh")) or len(set(shapes.values())) > 1:
            raise ValueError(
                f"{where}: {whole} must be one array, or arrays of the same shape for z, r and h, got {shapes}"
            )
        merged[whole] = parts[""] if "" in parts else np.concatenate([parts[gate] for gate in "zrh"], axis=-1)
    return merged


def _parts(settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields layer kinds with modules of `GileModel`, as in the table above, in order of creation."""
    directions = {"dense": 0, "gru": 1, "bigru": 2}[settings["encoder_cell"]]
    encoder = [("gru", f".directions.{i}") for i in range(directions)] or [("timedistributed", ".dense")]
    levels = ("word", "sentence")
    encoders = [(kind, f"text_encoder.{level}_encoder", leaf) for level in levels for kind, leaf in encoder]
    attention = [
        ("timedistributed", f"text_encoder.{level}_attention", leaf)
        for level in reversed(levels)
        for leaf in (".projection", ".context")
    ]
    sides = {"gile": ("input", "label"), "only_label": ("label",), "only_input": ("input",), "linear": ()}
    joint = [("dense", f"output_layer.{side}_projection", "") for side in sides[settings["output_layer"]]]
    unit = [("dense" if settings["output_layer"] == "linear" else "timedistributed", "output_layer.classifier", "")]
    blocks = (
        (encoders, settings["sharing"] in ("encoders", "both")),
        (attention, settings["sharing"] in ("attention", "both")),
        (joint, settings["share_joint_space"]),
        (unit, False),
    )
    for suffix in ("", *(f".{language}" for language in settings["languages"])):
        for block, shared in blocks:
            if shared == (suffix == ""):
                yield from ((kind, f"{module}{suffix}{leaf}") for kind, module, leaf in block)


def _expected_shapes(module: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a module's arrays in Keras 2."""
    if isinstance(module, PublishedGru):
        size, gates = module.candidate.in_features, module.inputs.out_features
        return {"kernel": (module.inputs.in_features, gates), "recurrent_kernel": (size, gates), "bias": (gates,)}
    rows, size = module.weight.shape
    return {"kernel": (size, rows), "bias": (rows,)}


def _fill(module: Any, arrays: dict[str, torch.Tensor]) -> None:
    """Copies Keras 2 arrays into a module."""
    inputs = module
    if isinstance(module, PublishedGru):
        inputs, (update, reset, candidate) = module.inputs, arrays["recurrent_kernel"].T.chunk(3)
        module.gates.weight.copy_(torch.cat([update, reset]))
        module.candidate.weight.copy_(candidate)
    inputs.weight.copy_(arrays["kernel"].T)
    inputs.bias.copy_(arrays["bias"])


__all__ = ["from_keras"]
