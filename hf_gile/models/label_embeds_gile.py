"""Vectors of stored labels from a pretrained encoder, saved with the model, so that it need not encode them again.

A model that trains over a frozen encoder uses the same vectors.

Shapes: C labels of a batch, L labels, T tokens of a label, P size of an output of the encoder, D of a label vector.
"""

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from .saving_gile import find_file
from .stored_labels_gile import hash_bits, is_finite

EMBEDS_FILE = "label_embeds.safetensors"
"""File with the vectors of the stored labels."""

LABELS_AT_ONCE = 2048
"""Number of stored labels encoded together, outside training."""

_UNRELATED = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"}
"""Fields of the configuration of an encoder that do not affect its output."""


class LabelEmbeds(NamedTuple):
    """Label vectors, valid while the state of the encoder is the same.

    Args:
        encoder_state: Fingerprint of the encoder.
        digests: `(L,)` hashes of the tokens of the labels, see `digest_tokens`.
        vectors: `(L, P)` pooled outputs of the encoder for these labels.
    """

    encoder_state: str
    digests: Tensor
    vectors: Tensor

    def find_rows(self, input_ids: Tensor, pad_token_id: int) -> Tensor:
        """Returns the `(C,)` rows of labels with these `(C, T)` tokens, -1 for other labels."""
        rows = {digest: row for row, digest in enumerate(self.digests.tolist())}
        return torch.tensor([rows.get(digest, -1) for digest in digest_tokens(input_ids, pad_token_id).tolist()])

    def save(self, file: Path) -> None:
        """Writes a safetensors file."""
        tensors = {"digests": self.digests, "vectors": self.vectors.cpu().contiguous()}
        save_file(tensors, file, {"encoder_state": self.encoder_state})

    @classmethod
    def load(cls, folder: str | PathLike[str], arguments: Mapping[str, Any]) -> "LabelEmbeds | None":
        """Reads the file of a saved model; returns None if it has none, or its tensors do not belong together.

        Arguments are those of `find_file`.

        Raises:
            ValueError: If it is damaged.
        """
        file = find_file(folder, EMBEDS_FILE, arguments)
        if file is None:
            return None
        try:
            with safe_open(file, "pt") as opened:
                state = (opened.metadata() or {}).get("encoder_state", "")
                embeds = cls(state, opened.get_tensor("digests"), opened.get_tensor("vectors"))
        except SafetensorError as error:
            raise ValueError(f"{file} is damaged ({error!s:.200}): save the model again, or remove the file") from None
        are_rows = embeds.digests.dim() == 1 and embeds.vectors.dim() == 2
        if are_rows and len(embeds.digests) == len(embeds.vectors) and is_finite(embeds.vectors):
            return embeds
        return None


def digest_tokens(input_ids: Tensor, pad_token_id: int) -> Tensor:
    """Hashes the tokens of each label, `(L, T)`, without padding at its end: `(L,)` integers of 64 bits."""
    rows = (input_ids.cpu().long() - pad_token_id).numpy()  # padding is 0
    digests = (hashlib.sha256(row.tobytes().rstrip(b"\0")).digest() for row in rows)
    return torch.tensor([int.from_bytes(digest[:8], "little", signed=True) for digest in digests], dtype=torch.long)


def keeps_label_embeds(gile: PreTrainedModel) -> bool:
    """Checks whether label vectors are stored: those of a pretrained encoder, which take longer than their codes."""
    config = gile.config
    is_encoded = config.label_encoder_type == "text_encoder" and config.text_config.reads_pretrained
    return is_encoded and not config.languages and not any(weight.is_meta for weight in gile.label_parameters())


@torch.no_grad()
def compute_encoder_state(gile: PreTrainedModel) -> str:
    """Computes a fingerprint of all that affects the outputs of a pretrained encoder; of the teacher, if static."""
    text = gile.config.text_config
    reader = gile.text_encoder
    if text.text_encoder_type == "static":
        return getattr(reader.label_embeds, "encoder_state", "")
    weights = [*reader.transformer.parameters(), *reader.pooling.parameters()]
    types = sorted({str(weight.dtype) for weight in weights})
    encoder = {name: value for name, value in text.text_encoder_config.to_dict().items() if name not in _UNRELATED}
    settings = [types, hash_bits(*weights), text.pooling, encoder]
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def pool_stored_labels(model: PreTrainedModel, state: str | None = None) -> Tensor:
    """Encodes the stored labels by the pretrained encoder, except those whose vectors are known from before.

    Args:
        model: A classifier with `config.pools_labels`, without languages or with a pooling without weights.
        state: The state of its encoder, if known.

    Returns:
        `(L, P)` vectors.
    """
    stored = model.stored_labels
    gile = model.gile
    input_ids = model.label_input_ids
    state = state or compute_encoder_state(gile)
    pad_token_id = model.config.text_config.pad_token_id
    with torch.inference_mode(False), torch.no_grad(), torch.autocast(model.device.type, enabled=False):
        vectors = torch.empty(len(input_ids), gile.text_encoder.pooled_size, dtype=model.dtype, device=model.device)
        is_known = torch.zeros(len(input_ids), dtype=torch.bool)
        if stored.embeds is not None and stored.embeds.encoder_state == state:
            rows = stored.embeds.find_rows(input_ids, pad_token_id)
            is_known = rows >= 0
            vectors[is_known.to(vectors.device)] = stored.embeds.vectors[rows[is_known]].to(vectors)
        chunks: Any = (~is_known).nonzero()[:, 0].to(input_ids.device).split(LABELS_AT_ONCE)
        for chunk in logging.tqdm(chunks, desc="encoding labels", unit="batch", disable=len(chunks) == 1 or None):
            if len(chunk):
                tokens = input_ids[chunk]
                vectors[chunk] = gile.text_encoder.pool_labels(tokens, tokens != pad_token_id).to(vectors)
    stored.embeds = LabelEmbeds(state, digest_tokens(input_ids, pad_token_id), vectors)
    if model.config.text_config.text_encoder_type == "static":
        gile.text_encoder.label_embeds = stored.embeds
    return vectors


@torch.no_grad()
def embed_stored_labels(model: PreTrainedModel) -> Tensor:
    """Computes `(L, D)` vectors of the stored labels of a classifier for which `keeps_label_embeds` is true."""
    pooled = pool_stored_labels(model)
    vectors = []
    with torch.autocast(model.device.type, enabled=False):
        for tokens, part in zip(model.label_input_ids.split(LABELS_AT_ONCE), pooled.split(LABELS_AT_ONCE), strict=True):
            mask = tokens != model.config.text_config.pad_token_id
            vectors.append(model.gile.read_labels(None, tokens, mask, part)[0])
    return torch.cat(vectors)


def save_label_embeds(model: PreTrainedModel, folder: Path) -> None:
    """Saves label vectors with a model, if some are known and its encoder has not changed since."""
    embeds = model.stored_labels.embeds
    if embeds is None or not keeps_label_embeds(model.gile):
        return
    state = compute_encoder_state(model.gile)
    if embeds.encoder_state == state:
        pool_stored_labels(model, state)  # encodes labels that were added
        model.stored_labels.embeds.save(folder / EMBEDS_FILE)
