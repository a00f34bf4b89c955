"""Conversion of text to ids: documents as words, or as sentences of words, by any tokenizer.

Shapes: B documents, S sentences, W words, L labels, T words of a label. For a pretrained encoder, words are tokens, and
sentences are windows of whole sentences.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from typing import Any

import torch
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import (
    BatchFeature,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    ProcessorMixin,
)

from .checks_gile import check_largest, check_whole_number, read_json_object
from .languages_gile import check_language
from .lexical_gile import list_features, pad_features
from .saving_gile import SavedTogether, find_file, load_checked
from .texts_gile import (
    PART_CHARACTERS,
    batches_of,
    check_characters,
    pad_rows,
    parts_of,
    split_row,
    split_sentences,
    start_of,
)

WRONG_PIPELINE = (
    "this pipeline is a built-in one of Transformers, which reads GILE models wrongly: without calibration, or stored "
    "labels as entailment. For a loaded model, use pipeline('label-scoring', model=model, processor=processor); for a "
    "folder, pipeline(task, model=folder, trust_remote_code=True)"
)
"""Error of a model or processor that a built-in pipeline calls, as transformers looks for ours in folders only."""

_LIMITS = ("max_words", "max_sentences", "max_sentence_words", "max_label_words")
_CHARACTERS_PER_WORD = 32  # of the start of a document that is read first, a multiple of what a model reads
# The output of a tokenizer takes 200 bytes a character, so texts are encoded in batches, and long texts in parts.
_BATCH = (10_000, 1 << 20)  # texts and characters
_SLACK = 64  # further words, so that the words at the end of the start are not among those that count


class GileProcessor(SavedTogether, ProcessorMixin):
    """Converts documents and labels to inputs of a model.

    For a pretrained encoder, documents, windows and labels are tokenized with special tokens and the prompt of the
    encoder, which count towards the limits. A window contains as many consecutive sentences as fit; longer sentences
    continue in the next window.

    Args:
        tokenizer: Word-level tokenizer from `build_tokenizer`, or the tokenizer of a pretrained encoder.
        reads_sentences: Whether documents consist of sentences of words, or of windows of tokens. `for_config` sets
            this, the limits, `languages` and `lexical` as in the configuration.
        max_words: Maximum number of words of a document.
        max_sentences: Maximum number of sentences or windows of a document.
        max_sentence_words: Maximum number of words of a sentence, or tokens of a window.
        max_label_words: Maximum number of words of a label.
        languages: Languages of the model.
        lexical: Whether to return `lexical_ids` and `lexical_counts` of documents.
        text_prompt: Prompt of the pretrained encoder for texts, such as `"query: "`.
        label_prompt: Prompt of the pretrained encoder for labels.
        label_frame: A sentence with `{}` for a label, such as "A text about {}." A pretrained encoder then reads each
            label twice, as it is and in the sentence, and its vector is the mean.

    Raises:
        ValueError: If the tokenizer has no padding token, a limit is below 1 or too small for the special tokens, or a
            word-level tokenizer gets a prompt, or `label_frame` has no `{}`.

    Example:
        >>> from hf_gile import build_tokenizer
        >>> processor = GileProcessor(build_tokenizer(["a cat sat", "a dog ran"], min_count=1))
        >>> batch = processor(["a dog sat", "cat"], label_text=["dog", "cat: a small animal"], return_tensors="pt")
        >>> {name: tuple(tensor.shape) for name, tensor in batch.items()}
        {'input_ids': (2, 3), 'attention_mask': (2, 3), 'label_input_ids': (2, 2)}
    """

    manifest_part = "processor"

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        reads_sentences: bool = False,
        max_words: int = 300,
        max_sentences: int = 30,
        max_sentence_words: int = 30,
        max_label_words: int = 50,
        languages: Sequence[str] = (),
        text_prompt: str = "",
        label_prompt: str = "",
        label_frame: str = "",
        lexical: bool = False,
        **kwargs: Any,
    ) -> None:
        if not isinstance(reads_sentences, bool):
            raise ValueError(f"reads_sentences must be true or false, got {reads_sentences!r:.100}")
        self.reads_sentences = reads_sentences
        self.lexical = lexical
        self.max_words = max_words
        self.max_label_words = max_label_words
        self.max_sentences = max_sentences
        self.max_sentence_words = max_sentence_words
        for name in _LIMITS:
            check_whole_number(name, getattr(self, name))
        if isinstance(languages, str) or not isinstance(languages, Iterable):
            raise ValueError(f"languages must be a list of languages, got {languages!r}")
        self.languages = list(languages)
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise ValueError(f"tokenizer must be a transformers tokenizer, got {type(tokenizer).__name__}")
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is not None and backend.normalizer is not None:
            _check_normalizer(json.loads(backend.normalizer.__getstate__()))
        self._is_pretrained = backend is None or not isinstance(backend.model, models.WordLevel)
        self._tokenizers: dict[str | None, Tokenizer | None] = {}
        self.text_prompt = text_prompt
        self.label_prompt = label_prompt
        self.label_frame = label_frame
        for name in ("text_prompt", "label_prompt", "label_frame"):
            prompt = getattr(self, name)
            if not isinstance(prompt, str) or (prompt and not self._is_pretrained):
                raise ValueError(f"{name} must be a text, for pretrained encoders only, got {prompt!r:.100}")
            check_largest("prompt", len(prompt), f"the number of characters of {name}")
        if label_frame and "{}" not in label_frame:
            raise ValueError(f"label_frame must contain {{}}, where labels are inserted, got {label_frame!r:.100}")
        text_limit = "max_sentence_words" if reads_sentences else "max_words"
        self._front, self._back = self._special_tokens(tokenizer, text_prompt, text_limit)
        self._label_front, _ = self._special_tokens(tokenizer, label_prompt, "max_label_words")
        if not reads_sentences:  # so that truncation=True has the same effect when the tokenizer is used alone
            tokenizer.model_max_length = max_words
        super().__init__(tokenizer, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        """Loads a processor; see `ProcessorMixin.from_pretrained`.

        Raises:
            OSError: If a file is missing.
            ValueError: If a file is damaged or invalid, or differs from the manifest, or the model is of another save.
        """
        load = partial(cls._load_unchecked, pretrained_model_name_or_path, *args, **kwargs)
        return load_checked(pretrained_model_name_or_path, "processor", load, kwargs)[0]

    @classmethod
    def _load_unchecked(cls, source: str | PathLike[str] | None, *args: Any, **kwargs: Any) -> Any:
        """Loads a processor whose files are checked by the caller."""
        try:
            file = None if source is None else find_file(source, "tokenizer.json", kwargs)
            if file is not None:  # before the library normalizes added tokens
                _check_normalizer(read_json_object(file).get("normalizer"))
            return super().from_pretrained(source, *args, **kwargs)
        except (OSError, ImportError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the tokenizers library raises plain Exceptions, and panics
            raise ValueError(
                f"{source}: the processor or its tokenizer is damaged, or from another model "
                f"({type(error).__name__}: {error!s:.500})"
            ) from error

    def check_argument_for_proper_class(self, argument_name: str, argument: object) -> Any:
        """Returns the class of a part, which `__init__` checks."""
        return type(argument)

    @staticmethod
    def get_possibly_dynamic_module(module_name: str) -> Any:
        """Refuses a class of transformers that is named in files: it may load its weights from anywhere."""
        raise ValueError(
            f"a processor of texts has a tokenizer only, but its files name {module_name!r:.100}, which transformers "
            "may download"
        )

    @property
    def pad_token(self) -> str:
        """Refuses the built-in zero-shot pipeline, which takes a processor for a tokenizer."""
        raise AttributeError(WRONG_PIPELINE)

    @property
    def processor_fingerprint(self) -> str:
        """Hash of what determines the meaning of ids: the vocabulary and the settings except the limits."""
        prompts = [self.text_prompt, self.label_prompt, self.label_frame]
        settings = [self.reads_sentences, self.lexical, self.languages, *prompts]
        words = sorted(self.tokenizer.get_vocab().items())
        return hashlib.sha256(json.dumps([settings, words]).encode()).hexdigest()

    @classmethod
    def for_config(
        cls, tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig, **prompts: Any
    ) -> "GileProcessor":
        """Creates the processor for a model configuration; `prompts` are `text_prompt`, `label_prompt`, `label_frame`.

        Raises:
            ValueError: If the vocabulary or the kind of the tokenizer does not fit the model.
        """
        _check_config(config)
        options = {name: getattr(config.text_config, name) for name in (*_LIMITS, "reads_sentences")} | prompts
        processor = cls(tokenizer, languages=config.languages, lexical=config.lexical, **options)
        processor.check_fits(config)
        return processor

    def check_fits(self, config: PreTrainedConfig) -> None:
        """Checks that the processor fits a model.

        Raises:
            ValueError: If the number of words, the padding word or the shape of documents differs.
        """
        _check_config(config)
        text = config.text_config
        size = len(self.tokenizer)
        # Tables of pretrained encoders often have unused rows.
        has_unused_rows = text.reads_pretrained and size < text.vocab_size
        settings = {
            "reads_pretrained": (self._is_pretrained, text.reads_pretrained),
            "reads_sentences": (self.reads_sentences, text.reads_sentences),
            "languages": (self.languages, config.languages),
            "lexical": (self.lexical, self.lexical or config.lexical),
            "vocab_size": (size, text.vocab_size),
            "pad_token_id": (self.tokenizer.pad_token_id, text.pad_token_id),
        }
        for name, (actual, expected) in settings.items():
            if actual != expected and not (name == "vocab_size" and has_unused_rows):
                raise ValueError(
                    f"the processor has {name}={actual}, but the model needs {name}={expected}: use the processor "
                    "saved with the model; for a new model, create a config with vocab_size=len(tokenizer) and "
                    "pad_token_id=tokenizer.pad_token_id, or start from the pretrained encoder with hf_gile.training"
                )

    def __call__(
        self,
        text: str | Iterable[str] | Iterable[Sequence[str]] | None = None,
        label_text: Iterable[str] | None = None,
        language: str | Sequence[str | None] | None = None,
        label_language: str | Sequence[str | None] | None = None,
        return_tensors: str | None = None,
        **kwargs: Any,
    ) -> BatchFeature:
        """Converts texts to model inputs.

        Args:
            text: A document or a list of documents, each a text or, for encoders that read sentences, a list of
                sentences. An empty text is a document without words, which has a defined score.
            label_text: Texts of labels, such as `LabelSet.texts`. Unknown words are dropped, unless all are unknown.
            language: Language of all documents or of each, for a multilingual model.
            label_language: Language of all labels or of each; by default that of the documents.
            return_tensors: `"pt"` for padded tensors; by default lists without padding, for a dataset.
            kwargs: Not supported; options of other processors are refused.

        Returns:
            `input_ids` and `attention_mask`, `(B, W)` or `(B, S, W)`, for documents; with `lexical`, `lexical_ids` and
            `lexical_counts` `(B, F)` of whole documents, as in `LexicalFeatures`; for a multilingual model, `language`,
            the language of all documents or `(B,)` indices into `languages`; `label_input_ids` `(L, T)` for labels.

        Raises:
            ValueError: If no texts are passed, a value is not a text (the message names its position), a label is
                empty, or an option is unknown.
        """
        if kwargs:
            raise ValueError(
                f"GileProcessor has no option {sorted(kwargs)[0]!r:.100}; limits are arguments of its constructor"
            )
        if text is None and label_text is None:
            raise ValueError("pass text (documents), label_text (labels), or both; got neither")
        if return_tensors not in (None, "pt"):
            raise ValueError(f"return_tensors must be 'pt' or None, got {return_tensors!r:.100}")
        data: dict[str, Any] = {}
        if text is not None:
            texts, languages = self._check_texts(text, language)
            documents = self._read_starts(texts, languages)
            data |= self.pad_documents(documents) if return_tensors else {"input_ids": documents}
            if self.languages:
                data["language"] = languages
                if return_tensors:
                    indices = [self.languages.index(name) for name in languages]
                    is_shared = language is None or isinstance(language, str)
                    data["language"] = languages[0] if is_shared else torch.tensor(indices)
            data |= self.count_words(texts, as_tensors=return_tensors is not None)
        if label_text is not None:
            if label_language is None and isinstance(language, str):
                label_language = language
            labels = self._encode_labels(label_text, label_language)
            data["label_input_ids"] = pad_rows(labels, self.tokenizer.pad_token_id) if return_tensors else labels
        return BatchFeature(data)

    def pieces(
        self,
        text: str | Iterable[str] | Iterable[Sequence[str]],
        language: str | Sequence[str | None] | None = None,
        is_cut: bool = False,
    ) -> list[list[Any]]:
        """Splits documents into pieces that the model can read, while `__call__` truncates them.

        Args:
            text: Documents, as in `__call__`, which raises the same errors.
            language: Language of all documents or of each.
            is_cut: Whether to truncate documents: then each has a single piece.

        Returns:
            Pieces of each document, at least one, for `pad_documents`. Long sentences continue as the next sentence.
        """
        texts, languages = self._check_texts(text, language)
        if is_cut:
            return [[document] for document in self._read_starts(texts, languages)]
        return [self._split_document(row) for row in self._encode_texts(texts, languages)]

    def count_words(self, texts: Sequence[Any], as_tensors: bool = True) -> dict[str, Any]:
        """Returns `lexical_ids` and `lexical_counts` of documents, as `__call__`; nothing without `lexical`."""
        if not self.lexical:
            return {}
        lists = list_features(text if isinstance(text, str) else " ".join(text) for text in texts)
        return pad_features(lists) if as_tensors else lists

    def pad_documents(self, documents: Sequence[Any]) -> dict[str, Tensor]:
        """Pads documents of word ids, from `__call__` without `return_tensors`, to the longest of a batch.

        Returns:
            `input_ids` and `attention_mask`, `(B, W)` or `(B, S, W)`.

        Raises:
            ValueError: If there are no documents, or they are not word ids (the message has the first such document).
        """
        pad = self.tokenizer.pad_token_id
        if not isinstance(documents, Sequence) or len(documents) == 0:
            raise ValueError(f"documents must be a list of at least one document, got {documents!r:.100}")
        try:
            if not self.reads_sentences:
                input_ids = pad_rows(documents, pad)
            else:
                sentences = max(1, *map(len, documents))
                padded = [sentence for document in documents for sentence in [*document, *[[]] * sentences][:sentences]]
                input_ids = pad_rows(padded, pad).unflatten(0, (len(documents), sentences))
        except (TypeError, ValueError, OverflowError):
            for document in documents if len(documents) > 1 else ():
                self.pad_documents([document])
            raise ValueError(
                "a document must be a list of word ids, or of such lists if the model reads sentences, as the "
                f"processor returns it without return_tensors, got {documents!r:.100}"
            ) from None
        return {"input_ids": input_ids, "attention_mask": (input_ids != pad).long()}

    def knows(self, document: Any) -> bool:
        """Checks whether a document of ids, not padded, has a known word."""
        content = slice(len(self._front), -len(self._back) or None)
        unknown = {*self._back, self.tokenizer.unk_token_id}
        return not all(unknown.issuperset(row[content]) for row in (document if self.reads_sentences else [document]))

    def _check_texts(self, text: Any, language: str | Sequence[str | None] | None) -> tuple[list[Any], Sequence[Any]]:
        """Returns the checked documents, and the language of each."""
        if isinstance(text, Mapping) or not isinstance(text, Iterable) or getattr(text, "ndim", 1) == 0:
            self.check_text(text, "text")  # raises an error
        texts = [text] if isinstance(text, str) else list(text)
        if len(texts) == 0:
            raise ValueError("text is an empty list; pass at least one document")
        languages = self._check_languages(language, len(texts), "language")
        for position, text in enumerate(texts):
            self.check_text(text, f"text[{position}]")
        return texts, languages

    def _encode_texts(self, texts: list[Any], languages: Sequence[str | None]) -> list[Any]:
        """Returns all ids of each text or of its non-empty sentences."""
        if not self.reads_sentences:
            return self._encode_words([_gap(self.text_prompt) + text for text in texts], languages)
        documents = [split_sentences(text) if isinstance(text, str) else text for text in texts]
        sentences = [sentence for document in documents for sentence in document]
        pairs = zip(documents, languages, strict=True)
        sentence_languages = [language for document, language in pairs for _ in document]
        encoded = iter(self._encode_words(sentences, sentence_languages))
        return [[words for _ in document if (words := next(encoded))] for document in documents]

    def _read_starts(self, texts: list[Any], languages: Sequence[str | None]) -> list[Any]:
        """Returns the truncated documents; reads as much of a long text as the model does."""
        size = _CHARACTERS_PER_WORD * self.max_document_words
        documents: list[Any] = [None] * len(texts)
        waiting = list(range(len(texts)))
        while waiting:
            starts = ((position, start_of(texts[position], size)) for position in waiting)
            waiting = []
            for batch in batches_of(starts, _count_characters, *_BATCH):
                batch_languages = [languages[position] for position, _ in batch]
                rows = self._encode_texts([start for _, start in batch], batch_languages)
                for (position, start), row in zip(batch, rows, strict=True):
                    if start is texts[position] or self._is_full(row):
                        documents[position] = self._truncate_document(row)
                    else:
                        waiting.append(position)
            size *= 8
        return documents

    def _is_full(self, row: list[Any]) -> bool:
        """Checks whether a document has more than the model reads."""
        if not self.reads_sentences:
            return len(row) >= self.max_words + _SLACK
        if self._is_pretrained:
            row = self._build_windows(row)
        return len(row) > self.max_sentences

    def check_text(self, text: Any, name: str) -> None:
        """Checks a document: a text, or for models that read sentences, a list of sentences. `name` is for errors."""
        sentences = text if self.reads_sentences and isinstance(text, list | tuple) else [text]
        if not all(isinstance(sentence, str) for sentence in sentences):
            raise ValueError(
                f"{name} must be a text, or a list of sentences if the model reads sentences, got "
                f"{type(text).__name__}: pass the text column, drop rows without a text, or join sentences"
            )
        for sentence in sentences:
            check_characters(sentence, name)

    def _truncate_document(self, row: list[Any]) -> list[Any]:
        """Truncates a document to the limits of the model."""
        if self.reads_sentences and not self._is_pretrained:
            return [sentence[: self.max_sentence_words] for sentence in row[: self.max_sentences]]
        return self._split_document(row)[0]

    def _split_document(self, row: list[Any]) -> list[Any]:
        """Splits a document into pieces within the limits of the model."""
        if not self.reads_sentences:
            return [self.framed(part) for part in split_row(row, self.max_words - self._num_special_tokens)]
        if self._is_pretrained:
            return split_row(self._build_windows(row), self.max_sentences)
        sentences = [part for sentence in row for part in split_row(sentence, self.max_sentence_words)]
        return split_row(sentences, self.max_sentences)

    def _build_windows(self, sentences: list[list[int]]) -> list[list[int]]:
        """Returns the windows of a document."""
        limit = self.max_sentence_words - self._num_special_tokens
        windows: list[list[int]] = []
        for sentence in sentences:
            if windows and len(windows[-1]) + len(sentence) <= limit:
                windows[-1] += sentence
            else:
                windows += split_row(sentence, limit)
        # An empty document is a window of special tokens, as some encoders fail for a batch without tokens.
        return [self.framed(window) for window in windows or [[]]]

    @property
    def max_document_words(self) -> int:
        """Maximum number of words or tokens of a document, in all sentences or windows."""
        if self.reads_sentences:
            return self.max_sentences * self.max_sentence_words
        return self.max_words

    @property
    def _num_special_tokens(self) -> int:
        """Number of special tokens around a text."""
        return len(self._front) + len(self._back)

    def framed(self, words: list[int]) -> list[int]:
        """Returns ids of a text with the prompt and the special tokens around them."""
        return [*self._front, *words, *self._back]

    def _special_tokens(self, tokenizer: PreTrainedTokenizerFast, prompt: str, limit: str) -> tuple[list[int], ...]:
        """Returns the special tokens before and after a text, which must leave room in the `limit` of this name."""
        if not self._is_pretrained:
            return [], []
        if tokenizer.pad_token_id is None:
            raise ValueError(
                "the tokenizer has no padding token: set one that does not occur in texts, as in "
                "tokenizer.pad_token = tokenizer.eos_token"
            )
        # This also disables truncation and padding saved with some tokenizers.
        with self._panics_as_errors():
            words = tokenizer("a", add_special_tokens=False)["input_ids"]
            framed = tokenizer("a")["input_ids"]
        starts = range(len(framed) - len(words) + 1)
        start = next(start for start in starts if framed[start : start + len(words)] == words)
        front = framed[:start]
        back = framed[start + len(words) :]
        if prompt:  # trailing white space is moved to the text, as many tokenizers strip it
            with self._panics_as_errors():
                front = front + tokenizer(prompt.rstrip(), add_special_tokens=False)["input_ids"]
        size = len(front) + len(back)
        if getattr(self, limit) <= size:
            raise ValueError(
                f"{limit} must be more than the {size} special tokens and tokens of the prompt {prompt!r:.100} around "
                f"a text, got {getattr(self, limit)}"
            )
        return front, back

    def _encode_labels(self, label_text: Iterable[str], language: str | Sequence[str | None] | None) -> list[list[int]]:
        """Returns the truncated ids of label texts, with special tokens and without unknown words.

        If labels are read twice, padding separates the two sequences of a label.
        """
        if isinstance(label_text, str | Mapping | Tensor) or not isinstance(label_text, Iterable):
            raise ValueError(f"label_text must be a list of label texts, got {type(label_text).__name__}")
        texts = list(label_text)
        if len(texts) == 0:
            raise ValueError("label_text is an empty list; pass at least one label")
        for position, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"label_text[{position}] must be a non-empty text, got {text!r:.100}")
            check_characters(text, f"label_text[{position}]")
            check_largest("label_text", len(text), f"the number of characters of label_text[{position}]")
        labels = []
        unknown = self.tokenizer.unk_token_id
        languages = self._check_languages(language, len(texts), "label_language")
        limit = self.max_label_words - len(self._label_front) - len(self._back)
        for words in self._encode_words([_gap(self.label_prompt) + text for text in texts], languages):
            # Unknown words would make labels similar; pretrained encoders have no unknown words.
            known = [word for word in words if self._is_pretrained or word != unknown]
            # A label without letters and digits, such as an emoji, becomes an unknown word.
            fallback = [] if unknown is None else [unknown]
            labels.append([*self._label_front, *(known or words or fallback)[:limit], *self._back])
        if self.label_frame:
            framed = [_gap(self.label_prompt) + self.label_frame.replace("{}", text) for text in texts]
            for ids, words in zip(labels, self._encode_words(framed, languages), strict=True):
                ids += [self.tokenizer.pad_token_id, *self._label_front, *words[:limit], *self._back]
        return labels

    def _check_languages(self, language: str | Sequence[str | None] | None, size: int, name: str) -> Sequence[Any]:
        """Returns the checked language of each text."""
        if language is not None and (not isinstance(language, Iterable) or getattr(language, "ndim", 1) == 0):
            raise ValueError(f"{name} must be a language, or a language for each text, got {language!r:.100}")
        languages = [language] * size if language is None or isinstance(language, str) else list(language)
        if len(languages) != size:
            raise ValueError(f"{name} must be a language, or a language for each of {size} texts, got {len(languages)}")
        return [check_language(self, item, name) for item in languages]

    def _encode_words(self, texts: Sequence[str], languages: Sequence[str | None]) -> list[list[int]]:
        """Returns all ids of texts in their languages."""
        words: list[list[int]] = [[]] * len(texts)
        if self._is_pretrained:  # language-independent
            languages = [None] * len(texts)
        for language in dict.fromkeys(languages):
            positions = [position for position, other in enumerate(languages) if other == language]
            rows = self._encode([texts[position] for position in positions], language)
            for position, row in zip(positions, rows, strict=True):
                words[position] = row
        return words

    @contextmanager
    def _panics_as_errors(self) -> Iterator[None]:
        """Raises a ValueError for a panic of the tokenizers library, which is no Exception."""
        try:
            yield
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise ValueError(
                f"the tokenizer cannot read a text: a pattern in its tokenizer.json fails ({error!s:.200}); "
                "shorten the text, or change the pattern"
            ) from None

    def _encode(self, texts: list[str], language: str | None) -> list[list[int]]:
        """Returns all ids of texts in a language, without special tokens."""
        tokenizer = self._get_backend(language)
        if tokenizer is None:
            return self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        ids: list[list[int]] = [[] for _ in texts]
        parts = ((row, part) for row, text in enumerate(texts) for part in self._split_text(text, tokenizer))
        for batch in batches_of(parts, _count_characters, *_BATCH):
            with self._panics_as_errors():
                encodings = tokenizer.encode_batch_fast([part for _, part in batch], add_special_tokens=False)
            for (row, _), encoding in zip(batch, encodings, strict=True):
                ids[row] += encoding.ids
        return ids

    def _split_text(self, text: str, tokenizer: Tokenizer) -> list[str]:
        """Splits a long text at white space, so that the ids of its parts are its ids."""
        if len(text) <= PART_CHARACTERS:
            return [text]
        with self._panics_as_errors():
            probes = [tokenizer.encode(words, add_special_tokens=False).ids for words in ("a b", "a", " b")]
        both, first, second = probes
        front, *rest = parts_of(text)
        if both == first + second:
            return [front, *rest]
        # Some tokenizers add the space themselves.
        return [front, *(part.removeprefix(" ") for part in rest)]

    def _get_backend(self, language: str | None) -> Tokenizer | None:
        """Returns the fast tokenizer of a language without limits; None for a Python tokenizer."""
        tokenizer = self._language_tokenizer(language) or getattr(self.tokenizer, "backend_tokenizer", None)
        # Limits are applied to the output, so limits of previous calls are removed. (Only if set, since other threads
        # may be encoding.)
        if tokenizer is not None and (tokenizer.truncation or tokenizer.padding):
            tokenizer.no_truncation()
            tokenizer.no_padding()
        return tokenizer

    def _language_tokenizer(self, language: str | None) -> Tokenizer | None:
        """Returns the tokenizer of a language, without prefixes; None if the vocabulary is shared."""
        if language is not None and language not in self._tokenizers:
            shared = self.tokenizer.backend_tokenizer
            name = f"{language}:"
            vocabulary = shared.get_vocab()
            words = {word.removeprefix(name): row for word, row in vocabulary.items() if word.startswith(name)}
            if not words and any(word.startswith(f"{other}:") for other in self.languages for word in vocabulary):
                raise ValueError(f"the tokenizer has no words of {language}: none starts with {name!r}")
            for word in (self.tokenizer.pad_token, self.tokenizer.unk_token):
                words[word] = vocabulary[word]
            tokenizer = Tokenizer(models.WordLevel(words, unk_token=self.tokenizer.unk_token))
            tokenizer.normalizer = shared.normalizer
            tokenizer.pre_tokenizer = shared.pre_tokenizer
            self._tokenizers[language] = tokenizer if len(words) > 2 else None
        return self._tokenizers.get(language)

    def __getstate__(self) -> dict[str, Any]:
        # Created on demand: copies, and fingerprints of datasets made with this processor, do not depend on it.
        return {**self.__dict__, "_tokenizers": {}}


def check_processor(processor: GileProcessor | None, config: PreTrainedConfig) -> GileProcessor:
    """Returns a processor; refuses anything but a `GileProcessor` that fits the configuration of a model."""
    # Not by its class, which exists twice with remote code.
    if processor is None or not hasattr(processor, "pad_documents"):
        raise ValueError(
            f"processor must be the GileProcessor saved with the model, got {type(processor).__name__}; save it in the "
            "same folder, or pass processor="
        )
    processor.check_fits(config)
    return processor


def _check_config(config: PreTrainedConfig) -> None:
    """Refuses a configuration of another kind of model."""
    if not hasattr(config, "text_config"):
        raise ValueError(f"config must be a GileConfig, such as model.config, got {type(config).__name__}")


def _check_normalizer(normalizer: object) -> None:
    """Refuses normalizers that multiply the length of texts."""
    length = 1
    waiting: list[Any] = [normalizer]
    while waiting:
        step = waiting.pop()
        if not isinstance(step, dict):
            continue
        waiting += step.get("normalizers") or []
        texts = [step.get("content"), step.get("prepend")]
        if step.get("precompiled_charsmap"):  # a trie of the size in its first bytes, then texts
            data = base64.b64decode(step["precompiled_charsmap"])
            texts += data[4 + int.from_bytes(data[:4], "little") :].split(b"\0")
        length *= max([1, *(len(text) for text in texts if text)])
    check_largest("normalized_length", length, "the length of a character after the normalizers of the tokenizer")


def _count_characters(numbered: tuple[int, Any]) -> int:
    """Counts the characters of a numbered text or list of sentences."""
    _, text = numbered
    return len(text) if isinstance(text, str) else sum(map(len, text))


def _gap(prompt: str) -> str:
    """Returns the white space between a prompt and a text."""
    return prompt[len(prompt.rstrip()) :]
