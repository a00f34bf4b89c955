"""Scores batches of columns in any data engine: datasets, Ray Data, Spark and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForSequenceClassification

from ..data.schema import join_columns
from ..data.table_files import describe_missing_column
from ..label_index import LabelIndex, fingerprint
from ..models import GileForSequenceClassification, GileProcessor, LabelScoringPipeline, LabelSet

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_PER_TOKEN = 4  # an average over languages and tokenizers, precise enough to form batches


class GileScorer:
    """Scores batches of columns; can be called by the command line, Ray Data, Spark and `datasets.map`.

    The columns `labels` (names, best first), `scores` (probabilities) and `note` of the label-scoring pipeline are
    added to a batch. If a row cannot be scored, its `labels` are missing and its `note` gives the reason. Rows keep
    their order; texts of similar length are scored together, so larger batches are faster.

        scorer = GileScorer("runs/mesh/model", text=["title", "abstract"], threshold="stored")
        dataset.map(scorer, batched=True, batch_size=4096)
        ray_dataset.map_batches(GileScorer, fn_constructor_args=("runs/mesh/model",), batch_format="pyarrow", ...)

    A scorer is pickled as its arguments, so with a saved model, other processes load the model themselves.

    Args:
        model: Folder of a saved model, its name on the Hub, or a `GileForSequenceClassification`.
        labels: A `LabelSet`, a `LabelIndex`, or the folder of an index, which is memory-mapped, so that processes share
            it; by default the labels stored with the model.
        processor: Processor of the model; by default the processor saved with the model.
        text: Text column; several columns are joined by line breaks.
        batch_tokens: Maximum number of tokens of a batch, including padding, estimated from the bytes of texts.
        bf16: Whether the text encoder runs in bfloat16: faster, but scores differ in the third digit.
        device: Device; by default the device of a loaded model, or a GPU if available.
        options: Options of the pipeline, see `hf_gile.models.pipeline_gile.Options`; the ten best labels if neither
            `top_k` nor `threshold` is set.

    Raises:
        FileNotFoundError: If the model or the index does not exist.
        ValueError: If an option is invalid, the index belongs to another model, or the processor does not support
            `bf16` instructions.
    """

    def __init__(
        self,
        model: GileForSequenceClassification | str | PathLike[str],
        labels: LabelSet | LabelIndex | str | PathLike[str] | None = None,
        *,
        processor: GileProcessor | None = None,
        text: str | Sequence[str] = "text",
        batch_tokens: int = 1 << 14,
        bf16: bool = False,
        device: str | None = None,
        **options: Any,
    ) -> None:
        for name in ("return_parents", "shortlist"):
            if options.get(name):
                raise ValueError(f"{name} is supported by the pipeline only, not for batches of columns")
        self._arguments = {
            "model": model,
            "labels": labels,
            "processor": processor,
            "text": text,
            "batch_tokens": batch_tokens,
            "bf16": bf16,
            "device": device,
            **options,
        }
        loaded: Any = model
        if isinstance(model, str | PathLike):
            device = device or ("cuda" if torch.cuda.is_available() else "cpu")
            processor = processor or GileProcessor.from_pretrained(model, trust_remote_code=False)
            loaded = AutoModelForSequenceClassification.from_pretrained(model, trust_remote_code=False)
        loaded = loaded.eval() if device is None else loaded.eval().to(device)
        if bf16 and not has_bf16(loaded.device):
            raise ValueError("this processor has no instructions for bf16, which would be slower: leave it out")
        if isinstance(labels, str | PathLike):
            labels = LabelIndex.from_pretrained(labels, loaded)
        if isinstance(labels, LabelIndex):
            self.index = labels.to(loaded.device)
        else:
            language = options.get("language")
            label_language = options.get("label_language")
            self.index = LabelIndex.build(loaded, processor, labels, language=language, label_language=label_language)
        self.pipe = LabelScoringPipeline(model=loaded, processor=processor, device=loaded.device)
        self.columns = [text] if isinstance(text, str) else list(text)
        self.batch_tokens = batch_tokens
        self.bf16 = bf16
        self.options = options if {"top_k", "threshold"} & set(options) else {"top_k": 10, **options}

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._arguments, fingerprint(self.pipe.model))

    def __call__(self, batch: Mapping[str, Any] | pa.Table) -> Any:
        """Scores the rows of a batch.

        Args:
            batch: Columns by name, or an Arrow table.

        Returns:
            The batch with the columns `labels`, `scores` and `note`: a dictionary, or an Arrow table.

        Raises:
            ValueError: If a text column is missing.
        """
        names = list(batch) if isinstance(batch, Mapping) else batch.column_names
        for column in self.columns:
            if column not in names:
                raise ValueError(f"the batch: {describe_missing_column(column, names)}")
        if isinstance(batch, Mapping):
            return {**batch, **self._scored(zip(*(batch[column] for column in self.columns), strict=True))}
        import pyarrow as pa

        scored = self._scored(zip(*(batch[column].to_pylist() for column in self.columns), strict=True))
        for name, kind in (
            ("labels", pa.list_(pa.string())),
            ("scores", pa.list_(pa.float32())),
            ("note", pa.string()),
        ):
            batch = batch.append_column(name, pa.array(scored[name], kind))
        return batch

    def _scored(self, rows: Iterator[tuple[Any, ...]]) -> dict[str, list[Any]]:
        """Returns the columns `labels`, `scores` and `note` of rows of text columns."""
        answers: list[dict[str, Any]] = []
        for row in rows:
            try:
                text = join_columns(dict(zip(self.columns, row, strict=True)), self.columns)
                self.pipe.processor.check_text(text, "the text")
                answers.append({"text": text})
            except ValueError as error:
                answers.append({"note": str(error)})
        texts = {index: answer["text"] for index, answer in enumerate(answers) if "text" in answer}
        for indices in self._batches(texts):
            for index, answer in zip(indices, self._answers([texts[index] for index in indices]), strict=True):
                answers[index] = answer
        return {name: [answer.get(name) for answer in answers] for name in ("labels", "scores", "note")}

    def _batches(self, texts: Mapping[int, str]) -> Iterator[list[int]]:
        """Yields indices of texts of similar length, longest first, so that a lack of memory shows at once."""
        max_tokens = self.pipe.processor.max_document_words
        sizes = {index: min(max_tokens, 1 + len(text.encode()) // _BYTES_PER_TOKEN) for index, text in texts.items()}
        order = sorted(sizes, key=lambda index: -sizes[index])
        start = 0
        while start < len(order):
            stop = start + max(1, self.batch_tokens // sizes[order[start]])
            yield order[start:stop]
            start = stop

    def _answers(self, texts: list[str]) -> list[dict[str, Any]]:
        """Scores texts in a single batch."""
        self.pipe.call_count = 0  # prevents a warning of Transformers about sequential calls on a GPU
        with torch.autocast(self.pipe.device.type, torch.bfloat16, enabled=self.bf16):
            return self.pipe(texts, self.index, batch_size=len(texts), **self.options)


def has_bf16(device: torch.device) -> bool:
    """Checks whether a device has instructions for bfloat16."""
    return device.type != "cpu" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _unpickle(arguments: dict[str, Any], model_fingerprint: str) -> GileScorer:
    """Creates a pickled scorer again, and checks that its model has not changed."""
    scorer = GileScorer(**arguments)
    if fingerprint(scorer.pipe.model) != model_fingerprint:
        raise ValueError(f"{arguments['model']} has changed since the scorer was created: create it again")
    return scorer
