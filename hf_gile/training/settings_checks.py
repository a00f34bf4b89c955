"""Checks for incompatible settings and missing files before documents are read."""

from typing import Any

from transformers import AutoConfig, PreTrainedConfig, TrainingArguments

from .automatic import kind_to_start_from, named_encoder, with_encoder
from .losses import GileLoss
from .model_settings import AUTO, CONVEX, NOT_OF_AUTO, TOP_K, TRAINED, ModelSettings
from .settings import check_files
from .task import check_metric


def check_settings(settings: ModelSettings, args: TrainingArguments) -> None:
    """Checks for incompatible settings and missing files.

    Args:
        settings: The settings.
        args: The training arguments.

    Raises:
        ValueError: If settings are incompatible.
        OSError: If a file or an encoder does not exist.
    """
    settings.check_problem_type(settings.problem_type)
    check_metric(args.metric_for_best_model, TOP_K, ("validation", "test") if settings.test_curve else ("validation",))
    check_files(settings, ["word_vectors", "card"])
    for name in ("hierarchical", "lora_rank", "text_prompt", "label_prompt"):
        if named_encoder(settings) is None and getattr(settings, name):
            raise ValueError(f"{name} needs a pretrained encoder: set --text_encoder")
    units = {name: settings.unit(name) for name in settings.units if name != AUTO}
    baselines = [name for name, unit in units.items() if not unit.is_saved]
    if settings.start_from is not None and baselines:
        raise ValueError(f"units {', '.join(baselines)} are not saved: train them without --start_from")
    word_only = [name for name, unit in units.items() if unit.reads_words]
    if named_encoder(settings) is not None and word_only:
        raise ValueError(f"units {', '.join(word_only)} support word models only: train them without --text_encoder")
    encoder = encoder_config(settings)
    for name in settings.units:
        check_unit(settings, name, encoder)
    if settings.share_labels:
        check_shared_labels(settings, args, [name for name, unit in units.items() if callable(unit.loss)])


def check_shared_labels(settings: ModelSettings, args: TrainingArguments, ranking: list[str]) -> None:
    """Checks that processes can share the labels.

    Args:
        settings: The settings.
        args: The training arguments.
        ranking: Units with a ranking loss.

    Raises:
        ValueError: If the settings do not allow it.
    """
    trains_on_all = not settings.num_negatives and settings.negatives != "in_batch" and settings.label_chunk_size > 0
    if not trains_on_all or args.world_size < 2 or ranking:
        raise ValueError(
            "share_labels divides all labels among processes: it needs num_negatives 0, negatives other than in_batch, "
            "label_chunk_size above 0, at least two processes (accelerate launch) and units without a ranking "
            f"loss; got num_negatives {settings.num_negatives}, negatives {settings.negatives}, label_chunk_size "
            f"{settings.label_chunk_size}, {args.world_size} processes, ranking losses {ranking or 'none'}"
        )


def encoder_config(settings: ModelSettings) -> Any:
    """Loads the configuration of the pretrained encoder or model in the settings; None for word models.

    Args:
        settings: The settings.

    Raises:
        ValueError: If its options are invalid, or it is not a GILE model to start from.
        OSError: If the encoder or model does not exist.
    """
    options = settings.json_object("text_encoder_options")
    name = "text_encoder" if settings.start_from is None else "start_from"
    if (source := getattr(settings, name)) in (None, AUTO):
        return None
    hub_options = {key: options[key] for key in ("revision", "token") if key in options}
    try:
        encoder = AutoConfig.from_pretrained(source, trust_remote_code=False, **hub_options)
    except (OSError, ValueError) as error:
        raise OSError(f"{name}: cannot load {source}: {error}") from None
    if name == "start_from" and not hasattr(encoder, "output_layer"):
        raise ValueError(f"start_from: {source} is a {encoder.model_type}, not a GILE model: pass it as text_encoder")
    return encoder


def check_unit(settings: ModelSettings, name: str, encoder: PreTrainedConfig | None) -> None:
    """Checks that a unit and the settings of the model are compatible.

    Args:
        settings: The settings.
        name: Name of the unit.
        encoder: Result of `encoder_config`.

    Raises:
        ValueError: If they are incompatible.
    """
    if name == AUTO:
        kinds = [TRAINED] if encoder is None else [TRAINED, CONVEX]
        if settings.start_from is not None:
            kinds = [TRAINED] if encoder is None else [kind_to_start_from(encoder)]
        elif unsupported := [field for field in NOT_OF_AUTO if getattr(settings, field)]:
            raise ValueError(f"unit auto does not support {unsupported[0]}: choose a unit, such as --units gile_rows")
        for kind in kinds:
            check_unit(settings, kind, encoder)
        return
    settings, unit = with_encoder(settings, named_encoder(settings)), settings.unit(name)
    if settings.start_from is not None and encoder is not None:
        layer = unit.fields["output_layer"]
        if encoder.output_layer != layer:
            raise ValueError(
                f"start_from {settings.start_from} has output_layer {encoder.output_layer!r}, but unit {name} has "
                f"{layer!r}"
            )
        GileLoss(**settings.loss_options(unit)).check_fits(encoder)
        return
    fields = settings.model_fields(unit, num_labels=2, problem_type="multi_label_classification")
    if encoder is not None:
        fields = {"label_encoder_type": "text_encoder", "pooling": "mean", "text_encoder_config": encoder} | fields
    try:
        GileLoss(**settings.loss_options(unit)).check_fits(unit.config(**fields))
    except ValueError as error:
        raise ValueError(f"unit {name}: {error}") from None
