"""Base class of GILE models: initial weights, loading with checks of the files, and saving with labels."""

import math
from collections.abc import Iterable
from functools import partial
from json import JSONDecodeError
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init

from .configuration_gile import GileConfig
from .label_embeds_gile import EMBEDS_FILE, LabelEmbeds
from .labels_gile import LABELS_FILE
from .lexical_gile import WordRows, WordWeights
from .mixture_gile import RowTable
from .saving_gile import SavedTogether, load_checked
from .scoring_gile import BiasUnit, ClassificationUnit, CosineScale, ZeroEmbedding
from .stored_labels_gile import StoredLabels, check_finite
from .text_encoders_gile import StaticEncoder

_INITIALIZED = {
    "cosine_scale": "cosine.factor.scale",
    "embedding_std": "text_encoder.word_embeddings.weight",
    "label_prior": "classifier.bias",
}
"""Fields with initial values of weights, and the names of these weights."""


class GilePreTrainedModel(SavedTogether, PreTrainedModel):
    """Base class of GILE models: configuration and initialisation."""

    config_class = GileConfig
    base_model_prefix = "gile"
    main_input_name = "input_ids"
    # The pretrained encoder refuses implementations that it does not support. FlashAttention 2 was never run.
    _supports_sdpa = _supports_flex_attn = True
    manifest_part = "model"
    processor_fingerprint: str | None = None
    """`GileProcessor.fingerprint` of the processor that encoded the labels, if known; saved in the manifest."""

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # Called for modules with tensors only: transformers treats other custom modules as initialised.
        # The functions of transformers.initialization skip weights loaded from a checkpoint.
        if isinstance(module, ClassificationUnit | BiasUnit):
            prior = self.config.label_prior
            init.constant_(module.bias, math.log(prior / (1 - prior)))
            if isinstance(module, ClassificationUnit):
                init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
        elif isinstance(module, ZeroEmbedding | RowTable | WordRows | StaticEncoder):
            for table in module.parameters():
                init.zeros_(table)
        elif isinstance(module, StoredLabels):
            init.constant_(module.input_ids, self.config.text_config.pad_token_id)
        elif isinstance(module, CosineScale):
            init.constant_(module.scale, self.config.cosine_scale)
        elif isinstance(module, WordWeights):
            init.ones_(module.idf)
        elif isinstance(module, nn.GRU):
            for name, parameter in module.named_parameters():
                if "bias" in name:
                    init.zeros_(parameter)
                else:
                    initialize = nn.init.orthogonal_ if "_hh_" in name else nn.init.xavier_uniform_
                    gates = torch.empty(3, *parameter.chunk(3)[0].shape, device=parameter.device)
                    # Not into views of the parameter: only the parameter is marked as loaded.
                    init.copy_(parameter, torch.cat([initialize(gate) for gate in gates]))
        elif isinstance(module, nn.Linear):
            init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.text_config.embedding_std)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> nn.Module:
        """Returns the word vectors, whose number cannot change.

        Raises:
            ValueError: If another number is passed.
        """
        if new_num_tokens not in (None, self.config.text_config.vocab_size):
            raise ValueError(
                f"this model has {self.config.text_config.vocab_size} words; their number cannot be changed: create "
                "a model for the new tokenizer, or resize a pretrained encoder before creating a model with it"
            )
        return self.get_input_embeddings()

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        """Loads a model; see `PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: If files differ from the manifest of the folder; weights are damaged, contain NaN or infinity,
                or are far fewer than configured; or an initial value is passed for weights in the checkpoint.
        """
        returns_info = kwargs.pop("output_loading_info", False)
        load = partial(cls._load_unchecked, pretrained_model_name_or_path, *args, **kwargs)
        loaded, fingerprint = load_checked(pretrained_model_name_or_path, "model", load, kwargs)
        loaded[0].processor_fingerprint = fingerprint
        return loaded if returns_info else loaded[0]

    @classmethod
    def _load_unchecked(cls, folder: str | PathLike[str] | None, *args: Any, **kwargs: Any) -> Any:
        """Loads a model whose files are checked by the caller, and information on its weights."""
        initial_values = {name: kwargs[name] for name in _INITIALIZED.keys() & kwargs.keys()}
        try:
            model, info = super().from_pretrained(folder, *args, output_loading_info=True, **kwargs)
        except (SafetensorError, UnicodeError, JSONDecodeError) as error:
            raise ValueError(
                f"{folder}: the model is damaged ({type(error).__name__}: {error!s:.200}): save or download it again"
            ) from None
        except RuntimeError as error:
            if "ignore_mismatched_sizes" not in str(error):
                raise
            if isinstance(error.__context__, ValueError):  # raised below, for implausible sizes
                raise error.__context__ from None
            raise ValueError(
                f"{folder}: sizes of weights differ from config.json (see the report above), so it is not the "
                "configuration of these weights; ignore_mismatched_sizes=True initializes such weights again"
            ) from None
        for name, value in initial_values.items():
            weights = {weight for weight, _ in model.named_parameters() if weight.endswith(_INITIALIZED[name])}
            if weights - set(info["missing_keys"]):
                raise ValueError(
                    f"{name}={value} is an initial value, but {folder} has trained weights ({min(weights)}): leave it "
                    "out, or change the weights of the loaded model"
                )
        check_finite(model.state_dict(), f"the weights of {folder}")
        towers = getattr(model, cls.base_model_prefix, model)
        if folder is not None and isinstance(towers.text_encoder, StaticEncoder):
            check_finite({"bits": towers.text_encoder.bits.view(torch.float16)}, f"the text encoder of {folder}")
            towers.text_encoder.label_embeds = LabelEmbeds.load(folder, kwargs)
        towers.freeze()
        return model, info

    def _write(self, folder: Path, **kwargs: Any) -> None:
        super()._write(folder, **kwargs)
        label_set = getattr(self, "label_set", None)
        if label_set is not None and kwargs.get("is_main_process", True):
            label_set.save(folder / LABELS_FILE)

    def _find_stale(self, folder: Path, names: set[str]) -> list[str]:
        return [*super()._find_stale(folder, names), LABELS_FILE, EMBEDS_FILE]

    def _move_missing_keys_from_meta_to_device(self, missing_keys: Iterable[str], *args: Any, **kwargs: Any) -> None:
        # Missing weights are allocated next; a small configuration file must not exhaust the memory.
        sizes = {name: tensor.numel() for name, tensor in self.state_dict(keep_vars=True).items()}
        missing = {name: sizes[name] for name in missing_keys if name in sizes}
        loaded = sum(sizes.values()) - sum(missing.values())
        missing |= {name: buffer.numel() for name, buffer in self.named_buffers() if name not in sizes}
        if sum(missing.values()) > max(GileConfig.largest["missing_weights"], 4 * loaded):
            name = max(missing, key=missing.__getitem__)
            raise ValueError(
                f"config.json needs {missing[name]:,} numbers of {name}, which are missing from the saved weights "
                f"(these have {loaded:,} matching numbers), so it is not the configuration of these weights; if "
                f"intended, set GileConfig.largest['missing_weights'] = {sum(missing.values())} first"
            )
        super()._move_missing_keys_from_meta_to_device(missing_keys, *args, **kwargs)
