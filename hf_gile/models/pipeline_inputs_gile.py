"""What a pipeline is called with: texts from lists, columns, datasets or generators, each checked."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch.utils.data import Dataset, IterableDataset


def checked_texts(inputs: Any, processor: Any) -> Any:
    """Makes of whatever holds texts what a pipeline reads.

    Args:
        inputs: A text, or texts in anything that can be read through.
        processor: The `GileProcessor` that says what a text is.

    Returns:
        A text; a list of texts, of all that is in memory anyway; a dataset, which is read when it is its turn; or a
        generator, of anything else that can be read through.

    Raises:
        ValueError: No texts, a whole dataset or table in the place of one column, or something that is not a text. The
            message names its place; that of a generator or dataset comes when it is its turn.

    Example:
        >>> from hf_gile import GileProcessor, build_tokenizer
        >>> processor = GileProcessor(build_tokenizer(["a cat"], min_count=1))
        >>> checked_texts(("a", "cat"), processor), list(checked_texts(iter(["a", "cat"]), processor))
        (['a', 'cat'], ['a', 'cat'])
    """
    if isinstance(inputs, str):
        return inputs
    if hasattr(inputs, "names") and hasattr(inputs, "texts"):
        raise ValueError("a label set is not texts: pass it as pipe(texts, candidate_labels=label_set)")
    columns = getattr(inputs, "column_names", getattr(inputs, "columns", None))
    if columns is not None or hasattr(inputs, "column_names"):
        names = ", ".join(map(repr, () if columns is None else columns))
        raise ValueError(
            f"a whole dataset is not texts: pass the column that holds them, as in pipe(dataset[name]); it has {names}"
        )
    if hasattr(inputs, "tolist"):  # numpy and pandas
        inputs = inputs.tolist()
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable | Dataset):
        processor.check_text(inputs, "text[0]")  # refuses
    has_length = hasattr(inputs, "__len__") and not isinstance(inputs, IterableDataset)
    if has_length and len(inputs) == 0:
        raise ValueError("no texts to score: pass at least one")
    if isinstance(inputs, Dataset) and has_length:
        return _CheckedDataset(inputs, processor)
    texts = _checked(inputs, processor)
    return list(texts) if has_length else texts


def _checked(texts: Iterable[Any], processor: Any) -> Iterator[Any]:
    for place, text in enumerate(texts):
        processor.check_text(text, f"text[{place}]")
        yield text


class _CheckedDataset(Dataset[Any]):
    def __init__(self, texts: Any, processor: Any) -> None:
        self.texts = texts
        self.processor = processor

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, place: int) -> Any:
        text = self.texts[place]
        self.processor.check_text(text, f"text[{place}]")
        return text


__all__ = ["checked_texts"]
