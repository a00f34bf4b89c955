"""Multilingual models: parts shared by languages and parts for each language (section 3.3 of GILE).

A part of the network is either a module shared by all languages, or has a module for each language; `select_module`
supports both.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, ProcessorMixin


def per_language(config: PreTrainedConfig, shared: bool, make: Callable[[], nn.Module]) -> nn.Module:
    """Creates a part of the network: a single module if shared or without languages, else a module per language."""
    if shared or not config.languages:
        return make()
    return nn.ModuleDict({language: make() for language in config.languages})


def select_module(part: nn.Module, language: str | None) -> Any:
    """Returns the module for a language from the result of `per_language`."""
    return part[str(language)] if isinstance(part, nn.ModuleDict) else part


def check_language(
    config: PreTrainedConfig | ProcessorMixin, language: str | None, name: str = "language"
) -> str | None:
    """Checks a language of a model or processor; the only language is the default.

    Raises:
        ValueError: If the language is unknown, or missing in a multilingual model.
    """
    known = config.languages
    if language is None and len(known) > 1:
        raise ValueError(
            f"this model has the languages {', '.join(known)}: pass the language of the documents (language=...), "
            "and of labels (label_language=..., or Label(..., language=...))"
        )
    if language is None:
        return next(iter(known), None)
    if language not in known:
        raise ValueError(f"{name} must be one of the languages of this model, {known}, got {language!r:.100}")
    return language


def check_tensors(**arguments: object) -> None:
    """Refuses arguments that are not tensors, such as the lists of ids that the processor returns by default."""
    for name, value in arguments.items():
        if value is not None and not torch.is_tensor(value):
            raise ValueError(
                f"{name} must be a tensor, got {type(value).__name__}; the processor returns tensors with "
                "return_tensors='pt'"
            )


def check_shape(name: str, tensor: Tensor | None, *shape: int | str) -> None:
    """Checks the shape of a tensor, where letters match any size; None is ignored."""
    if tensor is None:
        return
    check_tensors(**{name: tensor})
    sizes = zip(shape, tensor.shape, strict=False)
    if tensor.dim() != len(shape) or any(isinstance(size, int) and size != actual for size, actual in sizes):
        raise ValueError(
            f"{name} must have shape ({', '.join(map(str, shape))}), got {tuple(tensor.shape)}; the processor saved "
            "with the model returns such tensors"
        )


Languages = str | Sequence[str] | Tensor | None
"""Language of a batch: a name, a name for each row, or `(B,)` indices into `config.languages`."""


def run_by_language(
    config: PreTrainedConfig,
    language: Languages,
    inputs: dict[str, Tensor | None],
    run: Callable[..., tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    """Runs a function separately for the rows of each language, and restores the order of the results.

    Args:
        config: A `GileConfig`.
        language: Language of all rows, or of each row.
        inputs: Named tensors of B rows each, or None.
        run: Called as `run(language, **inputs)` with the rows of a language; returns tensors with as many rows.

    Raises:
        ValueError: If a language is unknown, or the number of languages differs from the number of rows.
    """
    if language is None or isinstance(language, str):
        return run(check_language(config, language), **inputs)
    check_tensors(**inputs)
    if not isinstance(language, Tensor):
        indices = [config.languages.index(check_language(config, name)) for name in language]
        language = torch.tensor(indices, dtype=torch.long)
    tensors = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    for name, tensor in tensors.items():
        if language.dim() != 1 or language.shape != tensor.shape[:1]:
            shapes = f"{tuple(tensor.shape)}, got shape {tuple(language.shape)}"
            raise ValueError(f"language must name the language of each row of {name} {shapes}")
    language = language.cpu()  # modules are selected on the CPU
    wrong = language.is_floating_point() or bool(((language < 0) | (language >= len(config.languages))).any())
    if wrong or not config.languages:
        raise ValueError(
            f"language must contain indices into the languages of this model, {config.languages}, got "
            f"{sorted(set(language.tolist()))}"
        )
    groups = []
    results = []
    for index in language.unique().tolist() or [0]:  # an empty batch may have any language
        rows = (language == index).nonzero().squeeze(1)
        groups.append(rows)
        selected = {name: tensor[rows.to(tensor.device)] for name, tensor in tensors.items()}
        results.append(run(config.languages[index], **{**inputs, **selected}))
    if len(groups) == 1:
        return results[0]
    order = torch.cat(groups).argsort()
    return tuple(torch.cat(parts)[order.to(parts[0].device)] for parts in zip(*results, strict=True))


def label_space(config: PreTrainedConfig, language: str | None) -> str | None:
    """Returns the language on which label codes depend for documents of a language; None if shared."""
    return None if config.share_joint_space or config.output_layer == "linear" else language


def get_language_columns(config: PreTrainedConfig, language: str | None) -> slice:
    """Returns the range of stored labels of a language, or of all labels without `language_labels`.

    Labels are grouped by language in the order of `config.languages`, as saved mappings lose their order.
    """
    if language is None or not config.language_labels:
        return slice(0, config.num_labels)
    if language not in config.language_labels:
        raise ValueError(f"no labels are stored in {language!r}, only in {', '.join(config.language_labels)}")
    before = config.languages[: config.languages.index(language)]
    start = sum(config.language_labels.get(other, 0) for other in before)
    return slice(start, start + config.language_labels[language])
