"""Exports a model to a Sentence Transformers folder, with precomputed label vectors."""

import tempfile
from copy import deepcopy
from os import PathLike
from pathlib import Path

from safetensors.torch import save_file
from transformers import PreTrainedTokenizerBase

from ..extras import needs_extra
from ..models import GileForSequenceClassification, GileProcessor
from ..models.labels_gile import LABELS_FILE
from ..writing import new_files
from .codes import dense_layer, label_codes

VECTORS_FILE = "labels.safetensors"
"""`codes`, `(L, J)`, and `bias`, `(1,)`: `model.encode(texts) @ codes.T + bias` are logits."""


def export_sentence_transformers(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    folder: str | PathLike[str],
    without_words: bool = False,
) -> None:
    """Saves a model for Sentence Transformers, with the vectors of its labels.

    Args:
        model: A model with a pretrained encoder. It is moved to the CPU.
        processor: The processor of the model.
        folder: Output folder, which also gets `labels.safetensors` and `labels.jsonl`.
        without_words: Whether to leave out lexical terms.

    Raises:
        ValueError: If Sentence Transformers cannot compute the score; the message gives the reason.
        ImportError: If the extra `export` is not installed.
    """
    with needs_extra("export", "a Sentence Transformers folder"):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
    labels, codes, bias = label_codes(model.cpu(), without_words)
    dense = dense_layer(model)
    text = model.config.text_config
    with tempfile.TemporaryDirectory() as scratch:
        model.gile.text_encoder.transformer.save_pretrained(scratch)
        _without_processor(processor.tokenizer).save_pretrained(scratch)
        transformer = Transformer(scratch, max_seq_length=processor.max_words)
    rows, columns = dense.weight.shape
    modules = [
        transformer,
        Pooling(columns, "cls" if text.pooling == "cls" else "mean"),  # a sum has the same direction
        Normalize(),
        Dense(columns, rows, True, dense.activation, dense.weight, dense.bias),
    ]
    prompts = {"text": processor.text_prompt} if processor.text_prompt else {}
    exported = SentenceTransformer(
        modules=modules,
        prompts=prompts,
        default_prompt_name="text" if prompts else None,
        similarity_fn_name="dot",
    )
    with new_files(Path(folder)) as new:
        exported.save_pretrained(str(new), create_model_card=False)
        save_file({"codes": codes * dense.scale, "bias": codes.new_tensor([bias])}, new / VECTORS_FILE)
        labels.save(new / LABELS_FILE)


def _without_processor(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Returns a copy of a tokenizer that does not name the processor it was loaded with.

    A folder that names it would be loaded as the processor, whose code needs `trust_remote_code=True`.
    """
    tokenizer = deepcopy(tokenizer)
    for name in ("auto_map", "processor_class"):
        tokenizer.init_kwargs.pop(name, None)
    tokenizer._set_processor_class(None)
    return tokenizer
