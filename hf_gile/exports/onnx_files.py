"""Exports the text tower to ONNX, and the whole model with its label codes as constants."""

import logging
import warnings
from copy import copy
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..extras import needs_extra
from ..models import GileForSequenceClassification, GileProcessor
from ..models.labels_gile import LABELS_FILE
from ..writing import whole_file
from .codes import label_codes

TEXT_FILE = "text.onnx"
MODEL_FILE = "model.onnx"
INT8_FILE = "model_int8.onnx"


class _TextTower(nn.Module):
    """Maps `(B, W)` or `(B, S, W)` integer word ids and their mask to `(B, J)` text codes."""

    def __init__(self, model: GileForSequenceClassification) -> None:
        super().__init__()
        self.gile = model.gile

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.gile.project_texts(input_ids, attention_mask)


class _Classifier(_TextTower):
    """Maps the same inputs to `(B, L)` logits."""

    def __init__(self, model: GileForSequenceClassification, codes: Tensor, bias: float) -> None:
        super().__init__(model)
        self.codes = nn.Parameter(codes, requires_grad=False)
        self.bias = nn.Parameter(torch.full((len(codes),), bias))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return functional.linear(super().forward(input_ids, attention_mask), self.codes, self.bias)


def export_onnx(
    model: GileForSequenceClassification,
    processor: GileProcessor,
    folder: str | PathLike[str],
    *,
    int8: bool = False,
    without_words: bool = False,
) -> None:
    """Writes `text.onnx` (word ids to text codes) and `model.onnx` (word ids to logits of the stored labels).

    Both take `input_ids` and `attention_mask` as the processor returns them, for any number of texts and words.

    Args:
        model: The model. It is moved to the CPU.
        processor: The processor of the model, whose tokenizer is saved with the files.
        folder: Output folder, which also gets `labels.jsonl`.
        int8: Whether to also write `model_int8.onnx` with 8-bit weights.
        without_words: Whether to leave out lexical terms.

    Raises:
        ValueError: If the score is not an inner product of codes; the message gives the reason.
        ImportError: If the extra `export` is not installed.
    """
    with needs_extra("export", "an ONNX file"):
        import onnxscript  # noqa: F401
        from onnxruntime.quantization import quantize_dynamic
    if model.config.text_config.encoder_cell in ("gru", "bigru"):
        raise ValueError("encoder_cell gru runs a loop over words that torch cannot export to ONNX")
    if model.config.text_config.text_encoder_type == "static":
        raise ValueError("a static text encoder looks up pairs of tokens, for which ONNX has no operator")
    labels, codes, bias = label_codes(model.cpu(), without_words)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    processor = copy(processor)
    processor.lexical = False  # returns the inputs of the files only
    inputs = processor(["A text of some words.", "Another."], return_tensors="pt")
    example = inputs["input_ids"], inputs["attention_mask"]
    for name, module, output in (
        (TEXT_FILE, _TextTower(model), "text_codes"),
        (MODEL_FILE, _Classifier(model, codes, bias), "logits"),
    ):
        with whole_file(folder / name) as staged:
            _write(module.eval(), example, output, staged)
    if int8:
        with whole_file(folder / INT8_FILE) as staged:
            logging.disable(logging.WARNING)  # it advises a preprocessing step that the exporter has already done
            try:
                # 7-bit weights: processors without VNNI add pairs of 8-bit products in 16 bits, which would overflow
                quantize_dynamic(folder / MODEL_FILE, staged, per_channel=True, reduce_range=True)
            finally:
                logging.disable(logging.NOTSET)
    processor.save_pretrained(folder)
    labels.save(folder / LABELS_FILE)


def _write(module: nn.Module, example: tuple[Tensor, Tensor], output: str, path: Path) -> None:
    axes = dict(enumerate(("texts", "sentences", "words") if example[0].dim() == 3 else ("texts", "words")))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # silences a message about missing torchvision
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about its own code
        program = torch.onnx.export(
            module,
            example,
            input_names=["input_ids", "attention_mask"],
            output_names=[output],
            dynamic_shapes=(axes, axes),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.save(path)
