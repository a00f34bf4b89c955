"""One class that scores batches of columns, for whatever engine goes through a data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForSequenceClassification

from ..data.schema import joined_text
from ..data.table_files import no_column
from ..label_index import LabelIndex, fingerprint
from ..models import GileForSequenceClassification, GileProcessor, LabelScoringPipeline, LabelSet

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_OF_A_TOKEN = 4  # about, of many languages and tokenizers; batches need no more


class GileScorer:
    """Scores a batch of columns: what the command, Ray Data, Spark and `datasets.map` call.

    To the columns of a batch it adds `labels` (names, best first), `scores` (probabilities) and `note`, as the
    label-scoring pipeline has them. A row that cannot be scored has no `labels`, and its `note` says why. Rows keep
    their order; within a batch those of like length are scored together, so larger batches are faster.

        scorer = GileScorer("runs/mesh/model", text=["title", "abstract"], threshold="stored")
        dataset.map(scorer, batched=True, batch_size=4096)
        ray_dataset.map_batches(GileScorer, fn_constructor_args=("runs/mesh/model",), batch_format="pyarrow", ...)

    A scorer of a saved model is pickled as its arguments: another process loads the model itself.

    Args:
        model: The folder of a saved model or its name on the Hub, or a `GileForSequenceClassification`.
        labels: What to score with: a `LabelSet`, a `LabelIndex` or the folder of one, which is mapped, so that
            processes share it; by default the labels stored with the model.
        processor: Of the model; by default what is saved with it.
        text: The column of the text; several are joined by line ends.
        batch_tokens: Tokens of a batch at most, padding among them, as their bytes tell.
        bf16: Whether texts are read in 16 bits: faster, and scores differ in the third digit.
        device: Where to score; by default where the model is, a GPU for one that is loaded here.
        options: Those of the pipeline, see `hf_gile.models.pipeline_gile.Options`; the ten best labels if neither
            `top_k` nor `threshold` is set.

    Raises:
        FileNotFoundError: There is no such model or index.
        ValueError: An option that makes no sense, an index of another model, or `bf16` on a processor without
            instructions for it, which would be slower.
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
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        for name in ("return_evidence", "return_parents", "shortlist"):
            if options.get(name):
                raise ValueError(f"{name} is for the pipeline: a batch of columns has no place for it")
        self._arguments = {"model": model, "labels": labels, "processor": processor, "text": text, **options}
        self._arguments |= {"batch_tokens": batch_tokens, "bf16": bf16, "device": device}
        loaded: Any = model
        if isinstance(model, str | PathLike):
            device = device or ("cuda" if torch.cuda.is_available() else "cpu")
            processor = processor or GileProcessor.from_pretrained(model, trust_remote_code=False)
            loaded = AutoModelForSequenceClassification.from_pretrained(model, trust_remote_code=False)
        loaded = loaded.eval() if device is None else loaded.eval().to(device)
        if bf16 and not has_bf16(loaded.device):
            raise ValueError("this processor has no instructions for bf16, and would be slower with it: leave it out")
        if isinstance(labels, str | PathLike):
            labels = LabelIndex.from_pretrained(labels, loaded)
        if isinstance(labels, LabelIndex):
            self.index = labels.to(loaded.device)
        else:
            language, label_language = options.get("language"), options.get("label_language")
            self.index = LabelIndex.build(loaded, processor, labels, language=language, label_language=label_language)
        self.pipe = LabelScoringPipeline(model=loaded, processor=processor, device=loaded.device)
        self.columns = [text] if isinstance(text, str) else list(text)
        self.batch_tokens, self.bf16 = batch_tokens, bf16
        self.options = options if {"top_k", "threshold"} & set(options) else {"top_k": 10, **options}

    def __reduce__(self) -> tuple[Any, ...]:
        return _scorer_again, (self._arguments, fingerprint(self.pipe.model))

    def __call__(self, batch: Mapping[str, Any] | pa.Table) -> Any:
        """Scores the rows of a batch.

        Args:
            batch: Columns by name, or a table of Arrow.

        Returns:
            The same with the columns `labels`, `scores` and `note`: a dictionary, or a table of Arrow.

        Raises:
            ValueError: There is no column of the text.
        """
        names = list(batch) if isinstance(batch, Mapping) else batch.column_names
        for column in self.columns:
            if column not in names:
                raise no_column(column, names, "the batch")
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
        answers: list[dict[str, Any]] = []
        for row in rows:
            try:
                text = joined_text(dict(zip(self.columns, row, strict=True)), self.columns)
                self.pipe.processor.check_text(text, "the text")
                answers.append({"text": text})
            except ValueError as error:
                answers.append({"note": str(error)})
        texts = {place: answer["text"] for place, answer in enumerate(answers) if "text" in answer}
        for places in self._batches(texts):
            for place, answer in zip(places, self._answers([texts[place] for place in places]), strict=True):
                answers[place] = answer
        return {name: [answer.get(name) for answer in answers] for name in ("labels", "scores", "note")}

    def _batches(self, texts: Mapping[int, str]) -> Iterator[list[int]]:
        """The places of texts of like length, the longest first, which show at once whether memory is enough."""
        processor = self.pipe.processor
        most = processor.max_words
        if processor.reads_sentences:
            most = processor.max_sentences * processor.max_sentence_words
        sizes = {place: min(most, 1 + len(text.encode()) // _BYTES_OF_A_TOKEN) for place, text in texts.items()}
        order = sorted(sizes, key=lambda place: -sizes[place])
        start = 0
        while start < len(order):
            stop = start + max(1, self.batch_tokens // sizes[order[start]])
            yield order[start:stop]
            start = stop

    def _answers(self, texts: list[str]) -> list[dict[str, Any]]:
        """The answers to texts that are scored together."""
        self.pipe.call_count = 0  # else Transformers advises, on a GPU, against what this does
        device = self.pipe.model.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.bf16):
            return self.pipe(texts, self.index, batch_size=len(texts), **self.options)


def has_bf16(device: torch.device) -> bool:
    """Whether a device has instructions for numbers of 16 bits.

    Args:
        device: Any.
    """
    return device.type != "cpu" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _scorer_again(arguments: dict[str, Any], made_by: str) -> GileScorer:
    scorer = GileScorer(**arguments)
    if fingerprint(scorer.pipe.model) != made_by:
        raise ValueError(f"{arguments['model']} has changed since the scorer was made: make it again")
    return scorer
