"""Several languages in one model: which part of it is whose (section 3.3 of GILE).

A part of the network is either shared, one module for all, or there is one for each language. Everything else asks
`of_language` for the part to use and need not know which it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, ProcessorMixin


def per_language(config: PreTrainedConfig, shared: bool, make: Callable[[], nn.Module]) -> nn.Module:
    """Makes a part of the network: one module if it is shared or there are no languages, else one for each."""
    if shared or not config.languages:
        return make()
    return nn.ModuleDict({language: make() for language in config.languages})


def of_language(part: nn.Module, language: str | None) -> Any:
    """The module that serves a language, of what `per_language` made: its own, or the one that all share."""
    return part[str(language)] if isinstance(part, nn.ModuleDict) else part


def check_language(
    config: PreTrainedConfig | ProcessorMixin, language: str | None, name: str = "language"
) -> str | None:
    """The language of the model, or of its processor, that a caller means, who may leave it out if there is one.

    Raises:
        ValueError: The model does not know the language, or has several and none was named.
    """
    known = config.languages
    if not known:
        if language is not None:
            raise ValueError(f"this model has no languages (config.languages is empty), but {name}={language!r:.100}")
        return None
    if language is None:
        if len(known) > 1:
            raise ValueError(
                f"this model speaks {', '.join(known)}: name the language of the documents (language=...), and of "
                "labels that the text encoder reads (label_language=...)"
            )
        return known[0]
    if language not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {language!r:.100}")
    return language


def check_tensors(**given: object) -> None:
    """Refuses arguments that are no tensors, such as the lists of ids that the processor makes by default."""
    for name, value in given.items():
        if value is not None and not torch.is_tensor(value):
            raise ValueError(
                f"{name} must be a tensor, got {type(value).__name__}; the processor makes tensors with "
                "return_tensors='pt'"
            )


def check_shape(name: str, tensor: Tensor | None, *shape: int | str) -> None:
    """Refuses what is no tensor of a shape, in which letters stand for any size; None is not looked at."""
    if tensor is None:
        return
    check_tensors(**{name: tensor})
    sizes = zip(shape, tensor.shape, strict=False)
    if tensor.dim() != len(shape) or any(isinstance(size, int) and size != its for size, its in sizes):
        raise ValueError(
            f"{name} must have shape ({', '.join(map(str, shape))}), got {tuple(tensor.shape)}; the processor saved "
            "with the model makes such tensors of texts and labels"
        )


Languages = str | Sequence[str] | Tensor | None
"""The language of a batch: one name, a name for each row, or `(B,)` places in `config.languages`."""


def in_each_language(
    config: PreTrainedConfig,
    language: Languages,
    inputs: dict[str, Tensor | None],
    run: Callable[..., tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    """Runs the rows of each language on their own, and puts the results in the order of the rows.

    Args:
        config: A `GileConfig`.
        language: The language of all rows, or that of each.
        inputs: Named tensors of B rows each; None stays None.
        run: Called as `run(language, **inputs)` with the rows of one language; returns tensors with as many rows.

    Raises:
        ValueError: An unknown language, or not one for each row.
    """
    if language is None or isinstance(language, str):
        return run(check_language(config, language), **inputs)
    if not isinstance(language, Tensor | Sequence):
        raise ValueError(f"language must be one language, or one for each row, got {type(language).__name__}")
    check_tensors(**inputs)
    if not isinstance(language, Tensor):
        places = [config.languages.index(check_language(config, one)) for one in language]
        language = torch.tensor(places, dtype=torch.long)
    for name, tensor in inputs.items():
        if tensor is not None and (language.dim() != 1 or language.shape != tensor.shape[:1]):
            shapes = f"{tuple(tensor.shape)}, got shape {tuple(language.shape)}"
            raise ValueError(f"language must name the language of each row of {name} {shapes}")
    language = language.cpu()  # which modules run is decided there
    wrong = language.is_floating_point() or bool(((language < 0) | (language >= len(config.languages))).any())
    if wrong or not config.languages:
        hint = "" if config.languages else ": this model has no languages"
        raise ValueError(f"language must hold places in {config.languages}, got {sorted(set(language.tolist()))}{hint}")
    groups, results = [], []
    for place in language.unique().tolist() or [0]:  # no rows are of any language
        rows = (language == place).nonzero().squeeze(1)
        groups.append(rows)
        own = {name: None if tensor is None else tensor[rows.to(tensor.device)] for name, tensor in inputs.items()}
        results.append(run(config.languages[place], **own))
    if len(groups) == 1:
        return results[0]
    order = torch.cat(groups).argsort()
    return tuple(torch.cat(parts)[order.to(parts[0].device)] for parts in zip(*results, strict=True))


def label_space(config: PreTrainedConfig, language: str | None) -> str | None:
    """The language by which label codes differ for documents of a language; None where all share theirs."""
    return None if config.share_joint_space or config.output_layer == "linear" else language


def own_columns(config: PreTrainedConfig, language: str | None) -> slice:
    """The columns of a language's labels among the stored ones; without `language_labels`, all are everybody's.

    They stand one language after the other in the order of `config.languages`, which is a list: a saved configuration
    does not keep the order of a mapping.
    """
    if language is None or not config.language_labels:
        return slice(0, config.num_labels)
    if language not in config.language_labels:
        raise ValueError(f"no labels are stored in {language!r}, only in {', '.join(config.language_labels)}")
    before = config.languages[: config.languages.index(language)]
    start = sum(config.language_labels.get(other, 0) for other in before)
    return slice(start, start + config.language_labels[language])
