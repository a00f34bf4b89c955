"""From text to ids: documents as words or sentences x words, of the model's own vocabulary or a pretrained tokenizer's.

Shapes: B documents, S sentences, W words, L labels, T words of a label. To a pretrained encoder, words are the tokens
of its tokenizer, and sentences are windows of whole sentences.
"""

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, count, islice, repeat
from os import PathLike
from typing import Any

import numpy as np
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

from .languages_gile import check_language

_LIMITS = ("max_words", "max_sentences", "max_sentence_words", "max_label_words")
# Letters and digits, with the vowel signs of scripts in which they are marks of their own; no run goes on for ever.
_WORD = re.compile(
    "[\\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0eff\u1000-\u109f\u1780-\u17d3]{1,64}"
)
_BATCH = 10_000  # texts that are encoded at once: what a tokenizer returns takes many times the memory of their ids


class GileProcessor(ProcessorMixin):
    """Makes a model's inputs of documents and of label texts.

    A pretrained encoder reads the tokens of its own tokenizer, its special tokens around every document, window and
    label, and the prompt that it was trained with; the limits count tokens then, these included. A window holds as many
    whole sentences as fit, in their order; a sentence that is longer than a window goes on in the next one.

    Args:
        tokenizer: The word-level tokenizer, from `build_tokenizer`, or that of the pretrained encoder.
        reads_sentences: Whether a document is sentences of words, or windows of tokens; this, the four limits,
            `languages` and `lexical` are as in `config.text_config` and `config`, see `for_config`.
        max_words: Words kept of a document of words.
        max_sentences: Sentences or windows kept of a document.
        max_sentence_words: Words kept of a sentence, tokens that a window holds.
        max_label_words: Words kept of a label.
        languages: The languages of the model.
        lexical: Whether it also makes `lexical_ids` of documents.
        text_prompt: What a pretrained encoder expects before each text, such as `"query: "`.
        label_prompt: The same of labels.

    Raises:
        ValueError: A tokenizer without a padding token, a limit below 1 or that leaves no room between the special
            tokens, or a prompt for a word-level tokenizer.

    Example:
        >>> from hf_gile import build_tokenizer
        >>> processor = GileProcessor(build_tokenizer(["a cat sat", "a dog ran"], min_count=1))
        >>> batch = processor(["a dog sat", "cat"], label_text=["dog", "cat: a small animal"], return_tensors="pt")
        >>> {name: tuple(tensor.shape) for name, tensor in batch.items()}
        {'input_ids': (2, 3), 'attention_mask': (2, 3), 'label_input_ids': (2, 2)}
    """

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
        lexical: bool = False,
        **kwargs: Any,
    ) -> None:
        if not isinstance(reads_sentences, bool):
            raise ValueError(f"reads_sentences must be true or false, got {reads_sentences!r:.100}")
        self.reads_sentences, self.lexical = reads_sentences, lexical
        self.max_words, self.max_label_words = max_words, max_label_words
        self.max_sentences, self.max_sentence_words = max_sentences, max_sentence_words
        for name in _LIMITS:
            limit = getattr(self, name)
            if not hasattr(limit, "__index__") or limit < 1:
                raise ValueError(f"{name} must be a whole number, at least 1, got {limit!r}")
        if isinstance(languages, str) or not isinstance(languages, Iterable):
            raise ValueError(f"languages must be a list of languages, got {languages!r}")
        self.languages = list(languages)
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise ValueError(f"tokenizer must be a tokenizer of transformers, got {_shown(tokenizer)}")
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._is_pretrained = backend is None or not isinstance(backend.model, models.WordLevel)
        self._tokenizers: dict[str | None, Tokenizer | None] = {}
        self.text_prompt, self.label_prompt = text_prompt, label_prompt
        for name in ("text_prompt", "label_prompt"):
            prompt = getattr(self, name)
            if not isinstance(prompt, str) or (prompt and not self._is_pretrained):
                raise ValueError(f"{name} must be a text, and is for pretrained encoders only, got {prompt!r:.100}")
        self._front: list[int] = []
        self._back: list[int] = []
        self._label_front: list[int] = []
        if self._is_pretrained:
            self._front, self._back = self._special_tokens(tokenizer, text_prompt, "text")
            self._label_front, _ = self._special_tokens(tokenizer, label_prompt, "label")
        if not reads_sentences:  # so that truncation=True means the same to whoever uses the tokenizer alone
            tokenizer.model_max_length = max_words
        super().__init__(tokenizer, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        """Loads a processor; see `ProcessorMixin.from_pretrained`.

        Raises:
            OSError: A file is missing.
            ValueError: A file is damaged, or holds what makes no processor.
        """
        try:
            return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        except (OSError, ImportError):
            raise
        except Exception as error:  # the tokenizers library has no class of its own for errors
            kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
            raise ValueError(
                f"{pretrained_model_name_or_path}: the processor or its tokenizer is damaged, or of another model "
                f"({kind}{error!s:.500})"
            ) from error

    @classmethod
    def for_config(
        cls, tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig, **prompts: Any
    ) -> "GileProcessor":
        """The processor that fits a model's configuration; `prompts` are `text_prompt` and `label_prompt`.

        Raises:
            ValueError: The tokenizer has other words than the model has room for, or is of another kind than it reads.
        """
        _check_config(config)
        options = {name: getattr(config.text_config, name) for name in (*_LIMITS, "reads_sentences")} | prompts
        processor = cls(tokenizer, languages=config.languages, lexical=config.lexical, **options)
        processor.check_fits(config)
        return processor

    def check_fits(self, config: PreTrainedConfig) -> None:
        """Makes sure that a model reads the words this processor writes.

        Raises:
            ValueError: The model has another number of words, another padding word or another shape of documents.
        """
        _check_config(config)
        text, kind = config.text_config, config.text_config.text_encoder_type
        if self._is_pretrained != text.reads_pretrained:
            what, hint = "is not one of whole words", "one made with build_tokenizer"
            if text.reads_pretrained:
                what, hint = "cuts texts into whole words", "its own: hf_gile.training.processor_from_text_encoder"
            raise ValueError(f"the tokenizer {what}, but the text encoder {kind!r} reads {hint}")
        if self.reads_sentences != text.reads_sentences:
            raise ValueError(
                f"the processor makes documents of {'sentences' if self.reads_sentences else 'words'}, and the text "
                f"encoder {kind!r} does not read those; use the processor saved with the model"
            )
        size, pad = len(self.tokenizer), self.tokenizer.pad_token_id
        # Tables of pretrained encoders often have spare rows, to a round number.
        fits = size <= text.vocab_size if self._is_pretrained else size == text.vocab_size
        if not fits or pad != text.pad_token_id:
            hint = "make a new config with vocab_size=len(tokenizer) and pad_token_id=tokenizer.pad_token_id"
            if self._is_pretrained:
                hint = "make one with hf_gile.training.processor_from_text_encoder"
            raise ValueError(
                f"the tokenizer has {size} words with padding in row {pad}, the model {text.vocab_size} with padding "
                f"in row {text.pad_token_id}: use the processor saved with the model, or {hint}"
            )
        if config.lexical and not self.lexical:
            raise ValueError("the model compares words, which this processor leaves out: set its lexical=True")
        if self.languages != config.languages:
            what = f"the processor makes words of {self.languages}, the model reads {config.languages}"
            raise ValueError(f"{what}; use the processor saved with the model")

    def __call__(
        self,
        text: str | Iterable[str] | Iterable[Sequence[str]] | None = None,
        label_text: Iterable[str] | None = None,
        language: str | Sequence[str | None] | None = None,
        label_language: str | Sequence[str | None] | None = None,
        return_tensors: str | None = None,
        **kwargs: Any,
    ) -> BatchFeature:
        """Makes model inputs.

        Args:
            text: Documents, each a text or, for encoders that read sentences, a list of sentences. One text stands
                for a list of one. An empty text is a document without words, which has a defined score.
            label_text: Texts of labels, such as `LabelSet.texts`. Words that a word-level tokenizer does not know are
                left out, if any is known.
            language: The language of the documents, or of each, if the model has several.
            label_language: The language of the labels, or of each; by default that of the documents.
            return_tensors: `"pt"` for padded tensors; by default lists without padding, for a dataset.
            kwargs: Nothing; other processors' options are refused.

        Returns:
            `input_ids` and `attention_mask`, `(B, W)` or `(B, S, W)`, for documents; with `lexical`, `lexical_ids`
            `(B, F)` of the whole documents, padded with -1; `label_input_ids` `(L, T)` for labels.

        Raises:
            ValueError: Nothing to process, an empty list, something that is not a text (named by its place), an empty
                label, or an option that does not exist.
        """
        if kwargs:
            raise ValueError(f"GileProcessor has no option {sorted(kwargs)[0]!r}; its limits are set when it is made")
        if text is None and label_text is None:
            raise ValueError("pass text (documents), label_text (labels), or both; got neither")
        if return_tensors not in (None, "pt"):
            raise ValueError(f"return_tensors must be 'pt' or None, got {return_tensors!r}")
        data: dict[str, Any] = {}
        if text is not None:
            text = list(text) if isinstance(text, Iterator) else text
            documents = [self._document(row) for row in self._rows(text, language)]
            if return_tensors:
                data.update(self.pad_documents(documents))
            else:
                data["input_ids"] = documents
            if self.lexical:
                texts = [text] if isinstance(text, str) else text
                words = [lexical_ids(one if isinstance(one, str) else " ".join(one)) for one in texts]
                data["lexical_ids"] = pad_rows(words, -1) if return_tensors else words
        if label_text is not None:
            if label_language is None and isinstance(language, str):
                label_language = language
            labels = self._labels(label_text, label_language)
            data["label_input_ids"] = pad_rows(labels, self.tokenizer.pad_token_id) if return_tensors else labels
        return BatchFeature(data)

    def pieces(
        self,
        text: str | Iterable[str] | Iterable[Sequence[str]],
        language: str | Sequence[str | None] | None = None,
        whole: bool = True,
        written: bool = False,
    ) -> list[list[Any]]:
        """Makes documents of all of a text, where `__call__` only makes one of what the model reads first.

        Args:
            text: Documents; this, the next and the errors are as of `__call__`.
            language: The language of the documents, or of each.
            whole: Whether to read all of a text; else its only piece is what `__call__` makes of it.
            written: Whether to give, in the place of an id, the word of the text that it is of, as it is written there:
                `(place, word)`, in which words are numbered, as a word may have many tokens; None for special tokens.

        Returns:
            For each document its pieces, one at least, of as much as the model reads at once, as `pad_documents` takes
            them. A sentence that is longer than a model of sentences reads goes on as the next one.
        """
        rows = self._rows(text, language, written)
        if whole:
            return [self._pieces(row, written) for row in rows]
        return [[self._document(row, written)] for row in rows]

    def pad_documents(self, documents: Sequence[Any]) -> dict[str, Tensor]:
        """Pads documents of word ids, as `__call__` makes them without `return_tensors`, to the longest of a batch.

        Returns:
            `input_ids` and `attention_mask`, `(B, W)` or `(B, S, W)`.

        Raises:
            ValueError: No documents, or something else.
        """
        pad = self.tokenizer.pad_token_id
        try:
            if len(documents) == 0 or not self.reads_sentences:
                input_ids = pad_rows(documents, pad)
            else:
                sentences = max(1, *(len(document) for document in documents))
                padded = [sentence for document in documents for sentence in [*document, *[[]] * sentences][:sentences]]
                input_ids = pad_rows(padded, pad)
                input_ids = input_ids.reshape(len(documents), sentences, input_ids.shape[-1])
        except (TypeError, ValueError, OverflowError) as error:
            self._check_documents(documents)
            raise ValueError(f"documents hold what is no word id ({error!s:.100})") from None
        if len(documents) == 0:
            raise ValueError("documents is an empty list; a batch has at least one document")
        return {"input_ids": input_ids, "attention_mask": (input_ids != pad).long()}

    def _check_documents(self, documents: object) -> None:
        """Says which document is not made of word ids, if that is what is wrong."""
        if isinstance(documents, str | Mapping) or not isinstance(documents, Sequence):
            raise ValueError(f"documents must be a list of documents, got {type(documents).__name__}")
        what = "a list of sentences, each a list of word ids" if self.reads_sentences else "a list of word ids"
        for place, document in enumerate(documents):
            rows = [document]
            if self.reads_sentences:
                rows = list(document) if _is_row(document) else [None]
            if not all(_is_row(row) and all(hasattr(word, "__index__") for word in row) for row in rows):
                raise ValueError(
                    f"document {place} of the batch must be {what}, as the processor makes it of a text without "
                    f"return_tensors, got {_shown(document)}"
                )

    def knows(self, document: Any) -> bool:
        """Whether a document of ids, not padded, holds a word that the tokenizer knows."""
        around = slice(len(self._front), -len(self._back) or None)
        nothing = {*self._back, self.tokenizer.unk_token_id}
        return not all(nothing.issuperset(one[around]) for one in (document if self.reads_sentences else [document]))

    def _rows(self, text: Any, language: str | Sequence[str | None] | None, written: bool = False) -> list[Any]:
        """All ids of each text, or of each of its sentences that has a word; or what is written in their places."""
        if isinstance(text, Mapping) or not isinstance(text, Iterable) or getattr(text, "ndim", 1) == 0:
            self.check_text(text, "text")  # refuses
        texts = [text] if isinstance(text, str) else list(text)
        if len(texts) == 0:
            raise ValueError("text is an empty list; pass at least one document")
        languages = self._languages(language, len(texts), "language")
        for place, text in enumerate(texts):
            self.check_text(text, f"text[{place}]")
        if not self.reads_sentences:
            return self._words([_gap(self.text_prompt) + text for text in texts], languages, written)
        documents = [split_sentences(text) if isinstance(text, str) else list(text) for text in texts]
        sizes = list(map(len, documents))
        of_sentences = list(chain.from_iterable(map(repeat, languages, sizes)))
        words = iter(self._words(list(chain.from_iterable(documents)), of_sentences, written))
        return [[sentence for sentence in islice(words, size) if sentence] for size in sizes]

    def check_text(self, text: Any, name: str) -> None:
        """Refuses what is no document, by a name: a text, or for models that read sentences, a list of these."""
        is_list = isinstance(text, list | tuple) and all(isinstance(one, str) for one in text)
        if isinstance(text, str) or (is_list and self.reads_sentences):
            for one in [text] if isinstance(text, str) else text:
                _check_characters(one, name)
            return
        what = "a text or a list of sentences" if self.reads_sentences else "a text"
        hint = ""
        if text is None:
            hint = ": leave out rows without a text, or pass an empty one"
        elif isinstance(text, Mapping):
            hint = f" of {', '.join(map(str, text))}: pass the column that holds the text"
        elif is_list:
            hint = ", but the model does not read sentences: join them"
        raise ValueError(f"{name} must be {what}, got {type(text).__name__}{hint}")

    def _document(self, row: list[Any], written: bool = False) -> list[Any]:
        """What the model reads of a text."""
        if not self.reads_sentences:
            return self._cut(row, self.max_words, written)
        if not self._is_pretrained:
            return [sentence[: self.max_sentence_words] for sentence in row[: self.max_sentences]]
        return self._windows(row, self.max_sentences, written)[: self.max_sentences]

    def _pieces(self, row: list[Any], written: bool) -> list[Any]:
        """All of a text, in as many documents as it takes."""
        if not self.reads_sentences:
            return [self._cut(part, self.max_words, written) for part in _parts(row, self.max_words - self._specials)]
        if self._is_pretrained:
            return _parts(self._windows(row, None, written), self.max_sentences)
        return _parts([part for one in row for part in _parts(one, self.max_sentence_words)], self.max_sentences)

    def _windows(self, sentences: list[list[Any]], most: int | None, written: bool) -> list[list[Any]]:
        """The windows of a document; the first `most` of them, if more are not needed."""
        room = self.max_sentence_words - self._specials
        windows: list[list[Any]] = []
        for sentence in sentences:
            if windows and len(windows[-1]) + len(sentence) <= room:
                windows[-1] += sentence
            else:
                windows += _parts(sentence, room)
            if most is not None and len(windows) > most:
                break
        # An empty document is a window of special tokens: some encoders have no output for a batch without any token.
        return [self._cut(window, self.max_sentence_words, written) for window in windows or [[]]]

    @property
    def _specials(self) -> int:
        """The number of special tokens around a text."""
        return len(self._front) + len(self._back)

    def _cut(self, words: list[Any], limit: int, written: bool = False) -> list[Any]:
        """The words of a text that are read, with the prompt and special tokens around them."""
        front, back = ([None] * len(self._front), [None] * len(self._back)) if written else (self._front, self._back)
        return [*front, *words[: limit - self._specials], *back]

    def _special_tokens(self, tokenizer: PreTrainedTokenizerFast, prompt: str, of: str) -> tuple[list[int], list[int]]:
        """What stands before and behind a text of tokens, or a label."""
        if tokenizer.pad_token_id is None:
            raise ValueError(
                "the tokenizer has no padding token: give it one that texts do not hold, as in "
                "tokenizer.pad_token = tokenizer.eos_token"
            )
        # This also ends the cutting and padding that some tokenizers were saved with.
        words = tokenizer("a", add_special_tokens=False)["input_ids"]
        whole = tokenizer("a")["input_ids"]
        starts = range(len(whole) - len(words) + 1)
        start = next(start for start in starts if whole[start : start + len(words)] == words)
        front, back = whole[:start], whole[start + len(words) :]
        if prompt:  # the white space at its end goes to the text, as many tokenizers cut it
            front = front + tokenizer(prompt.rstrip(), add_special_tokens=False)["input_ids"]
        of_text = "max_sentence_words" if self.reads_sentences else "max_words"
        name = of_text if of == "text" else "max_label_words"
        if getattr(self, name) <= len(front) + len(back):
            what = f"special tokens and those of the prompt {prompt!r:.100}" if prompt else "special tokens"
            raise ValueError(
                f"{name} must be more than the {len(front) + len(back)} {what} around a {of}, got {getattr(self, name)}"
            )
        return front, back

    def _labels(self, label_text: Iterable[str], language: str | Sequence[str | None] | None) -> list[list[int]]:
        if isinstance(label_text, str | Mapping) or not isinstance(label_text, Iterable):
            raise ValueError(f"label_text must be a list of label texts, got {_shown(label_text)}")
        texts = list(label_text)
        if len(texts) == 0:
            raise ValueError("label_text is an empty list; pass at least one label")
        for place, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"label_text[{place}] must be a non-empty text, got {_shown(text)}")
            _check_characters(text, f"label_text[{place}]")
        labels = []
        unknown = self.tokenizer.unk_token_id
        languages = self._languages(language, len(texts), "label_language")
        room = self.max_label_words - len(self._label_front) - len(self._back)
        for words in self._words([_gap(self.label_prompt) + text for text in texts], languages):
            # An unknown word would pull the labels that have one together; pretrained encoders know theirs.
            known = words if self._is_pretrained else [word for word in words if word != unknown]
            # A label without letters and digits, such as an emoji, is one of an unknown word.
            nothing = [] if unknown is None else [unknown]
            labels.append([*self._label_front, *(known or words or nothing)[:room], *self._back])
        return labels

    def _languages(self, language: str | Sequence[str | None] | None, size: int, name: str) -> Sequence[str | None]:
        """The language of each of a number of texts."""
        if language is not None and (not isinstance(language, Iterable) or getattr(language, "ndim", 1) == 0):
            raise ValueError(f"{name} must be a language, or a language for each text, got {_shown(language)}")
        languages = [language] * size if language is None or isinstance(language, str) else list(language)
        if len(languages) != size:
            raise ValueError(f"{name} must be a language, or a language for each of {size} texts, got {len(languages)}")
        return [check_language(self, one, name) for one in languages]

    def _words(self, texts: Sequence[str], languages: Sequence[str | None], written: bool = False) -> list[list[Any]]:
        words: list[list[Any]] = [[]] * len(texts)
        if self._is_pretrained:  # reads all languages alike
            languages = [None] * len(texts)
        for language in dict.fromkeys(languages):
            places = [place for place, other in enumerate(languages) if other == language]
            encode = self._written if written else self._encoded
            rows = encode([texts[place] for place in places], self._own_tokenizer(language))
            for place, row in zip(places, rows, strict=True):
                words[place] = row
        return words

    def _encoded(self, texts: list[str], own: Tokenizer | None) -> list[list[int]]:
        """All ids of texts, without special tokens."""
        tokenizer = self._backend(own)
        if tokenizer is None:
            return self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        ids: list[list[int]] = []
        for start in range(0, len(texts), _BATCH):
            encodings = tokenizer.encode_batch_fast(texts[start : start + _BATCH], add_special_tokens=False)
            ids += [encoding.ids for encoding in encodings]
        return ids

    def _backend(self, own: Tokenizer | None) -> Tokenizer | None:
        """What cuts texts, without limits; none if it is written in Python."""
        tokenizer = getattr(self.tokenizer, "backend_tokenizer", None) if own is None else own
        # It keeps the limits of whoever called it last; ours are applied to what it returns. (To be set only where
        # needed: other threads may be encoding.)
        if tokenizer is not None and tokenizer.truncation is not None:
            tokenizer.no_truncation()
        if tokenizer is not None and tokenizer.padding is not None:
            tokenizer.no_padding()
        return tokenizer

    def _written(self, texts: list[str], own: Tokenizer | None) -> list[list[Any]]:
        """What is written in the place of each id: `(place, word)`; words are numbered through all texts."""
        places = count()
        tokenizer = self._backend(own)
        if tokenizer is None:  # it does not say where tokens are from
            named = map(self.tokenizer.convert_ids_to_tokens, self._encoded(texts, own))
            return [[(next(places), token) for token in row] for row in named]
        rows: list[list[Any]] = []
        for text in texts:
            encoding = tokenizer.encode(text, add_special_tokens=False)
            words: list[list[int]] = []  # start, end, number of tokens
            before, last = 0, None
            for number, (start, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
                # Some tokenizers take a whole text for one word.
                if not words or number != last or text[before:end][:1].isspace():
                    words.append([start, end, 0])
                words[-1][1] = before = max(words[-1][1], end)
                words[-1][2] += 1
                last = number
            row: list[Any] = []
            before = 0
            for start, end, size in words:
                # Of a number that was replaced by NUM the tokenizer only gives the last character.
                front = None if self._is_pretrained else re.search(r"[+-]?\w\S*$", text[before:start])
                word = (front[0] if front else "") + text[start:end].strip()
                row += [(next(places), word)] * size
                before = end
            rows.append(row)
        return rows

    def _own_tokenizer(self, language: str | None) -> Tokenizer | None:
        """The words of one language, without its name in front; none if the vocabulary is the same for all."""
        if language is not None and language not in self._tokenizers:
            shared, name = self.tokenizer.backend_tokenizer, f"{language}:"
            vocabulary = shared.get_vocab()
            own = {word.removeprefix(name): row for word, row in vocabulary.items() if word.startswith(name)}
            if not own and any(word.startswith(f"{other}:") for other in self.languages for word in vocabulary):
                raise ValueError(f"the tokenizer has no word of {language}: none starts with {name!r}")
            for word in (self.tokenizer.pad_token, self.tokenizer.unk_token):
                own[word] = vocabulary[word]
            tokenizer = Tokenizer(models.WordLevel(own, unk_token=self.tokenizer.unk_token))
            tokenizer.normalizer, tokenizer.pre_tokenizer = shared.normalizer, shared.pre_tokenizer
            self._tokenizers[language] = tokenizer if len(own) > 2 else None
        return self._tokenizers.get(language)

    def __getstate__(self) -> dict[str, Any]:
        # Made when needed: a copy, or the fingerprint of a dataset made with this processor, does not depend on it.
        return {**self.__dict__, "_tokenizers": {}}


def _check_config(config: PreTrainedConfig) -> None:
    if not hasattr(config, "text_config"):
        hint = "; pass model.config" if hasattr(config, "config") else ""
        raise ValueError(f"config must be a GileConfig, got {type(config).__name__}{hint}")


def _is_row(value: object) -> bool:
    return isinstance(value, list | tuple | np.ndarray | Tensor) and (not hasattr(value, "ndim") or value.ndim > 0)


def _shown(value: object) -> str:
    """What to call a value of a wrong kind; a long one is not to fill the message."""
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) < 100 else type(value).__name__


def _check_characters(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} holds half of a character, {text[error.start]!r} at place {error.start}, as texts do that were "
            "cut in UTF-16: text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace') mends it"
        ) from None


def _gap(prompt: str) -> str:
    """The white space between a prompt and a text."""
    return prompt[len(prompt.rstrip()) :]


def _parts(row: list[Any], size: int) -> list[list[Any]]:
    """A row in parts of a size; of an empty row an empty part."""
    return [row[start : start + size] for start in range(0, max(1, len(row)), size)]


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Pads N rows of ids to the longest, `(N, T)`; T is 1 at least: a batch of empty texts is `(B, 1)` padding."""
    # All rows at once: a batch of documents of sentences has thousands.
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    padded = np.full((len(rows), max(1, lengths.max(initial=0))), pad, np.int64)
    ids = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = ids
    return torch.from_numpy(padded)


LEXICAL_BUCKETS = 1 << 20
"""Lexical features are below this, and a text of any length has no more of them."""


def lexical_ids(text: str) -> list[int]:
    """The lexical features of a text, ascending, each plus `LEXICAL_BUCKETS` times (its count - 1), at most 2,047.

    What stands in a title, the first line of a text of several, counts three times.
    """
    title, _, rest = text.strip().partition("\n")
    counts = Counter(lexical_features(text) + (2 * lexical_features(title) if rest else []))
    return [feature + LEXICAL_BUCKETS * (min(counts[feature], 2048) - 1) for feature in sorted(counts)]


def lexical_features(text: str) -> list[int]:
    """Numbers the words of a text and, of longer words, the parts: what makes a document and a label share words.

    Words are read as NFKC and casefolded. A word of more than 4 letters has its 4-grams beside it, so that compounds
    and other forms of a word share something with it; of more than 2 letters 2-grams, in scripts of East Asia.

    Returns:
        Hashes, as often as they occur and in their order: even of words, odd of n-grams.

    Example:
        >>> len(set(lexical_features("steamboats")) & set(lexical_features("steamboat")))
        6
    """
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return list(chain.from_iterable(map(_features, words)))


@lru_cache(1 << 15)
def _features(word: str) -> tuple[int, ...]:
    size = 2 if word[0] >= "\u2e80" else 4
    parts = [word[start : start + size] for start in range(len(word) - size + 1)] if len(word) > size else []
    words = [zlib.crc32(part.encode()) << 1 for part in (word, *parts)]
    return tuple((number | (place > 0)) % LEXICAL_BUCKETS for place, number in enumerate(words))


def split_sentences(text: str) -> list[str]:
    """Cuts a text after full stops, question and exclamation marks, and at line ends.

    Abbreviations are cut too; pass a document as a list of sentences to use a better splitter.
    """
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+|\s*\n\s*", text.strip()) if sentence]
