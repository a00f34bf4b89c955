"""From text to word ids: a word-level tokenizer, and a processor that cuts documents into words or sentences x words.

Shapes: B documents, S sentences, W words, L labels, T words of a label.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor
from transformers import BatchFeature, PreTrainedTokenizerFast
from transformers.processing_utils import ProcessorMixin

from .text_encoders_gile import TEXT_ENCODERS

PAD, UNK, NUM = "[PAD]", "[UNK]", "NUM"

# A number that stands alone: part of a name (interleukin-2, HLA-A1, 1976-1980) it says which one is meant, and stays.
_NUMBER = r"(?<![\w\-.,])[+-]?\d+(?:[.,]\d+)*%?(?![\w\-]|[.,]\d)"
_WORD = r"\w+"


def normalizer_and_splitter() -> tuple[normalizers.Normalizer, pre_tokenizers.PreTokenizer]:
    """How text becomes words: lower case, numbers that stand alone replaced by NUM, cut at all but letters and digits.

    Source: section 4.1.1 of GILE (tokenization, number replacements, rare word replacements).
    """
    normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(_NUMBER), NUM)]
    )
    # invert: what matches the pattern is a word, all between is dropped.
    return normalizer, pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)


def build_tokenizer(
    texts: Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    label_texts: Iterable[str] | Mapping[str, Iterable[str]] = (),
    min_count: int = 2,
    max_vocabulary: int | None = None,
) -> PreTrainedTokenizerFast:
    """Makes a word-level tokenizer, from texts or of a given vocabulary.

    The result is a plain fast tokenizer that `AutoTokenizer` loads without trusting any code. Row 0 is the padding
    word, row 1 stands for every unknown word.

    For a model of several languages, texts, vocabulary and texts of labels come by language. Each language then has its
    own words, which stand in the vocabulary with its name in front, `"german:gift"`: a word of two languages is two
    words. `GileProcessor` knows; the tokenizer alone does not find them. (One language alone needs no names.)

    Args:
        texts: Texts to count words in; the most frequent word comes first.
        vocabulary: Words in the order of their word vectors, instead of texts; written as they come out of
            `normalizer_and_splitter`, since other words can never match.
        label_texts: Texts of the labels to train on: their words are kept however rare (behind the others), for a word
            of a label is read at every step, and often is all that tells the label from another.
        min_count: Words of `texts` counted fewer times are unknown.
        max_vocabulary: Number of words of `texts` kept at most, padding and unknown word included; of each language.

    Raises:
        ValueError: Not exactly one of `texts` and `vocabulary`, no word left, or a word that stands there twice.

    Example:
        >>> tokenizer = build_tokenizer(["The cat sat on 3 mats.", "A cat of 12.5 kg; interleukin-2"], min_count=1)
        >>> tokenizer.tokenize("CAT on 99 tables with interleukin-2")
        ['cat', 'on', 'NUM', '[UNK]', '[UNK]', 'interleukin', '2']
    """
    normalizer, splitter = normalizer_and_splitter()
    if (texts is None) == (vocabulary is None):
        raise ValueError(f"pass either texts or vocabulary, got {'neither' if texts is None else 'both'}")
    if isinstance(texts, str):
        raise ValueError("texts must be an iterable of texts, got one text")

    def words_of(given: Any, label_texts: Any) -> list[str]:
        if texts is None:
            return [word for word in given if word not in (PAD, UNK)]
        counted = _count_words(given, normalizer, splitter, min_count, max_vocabulary)
        return list(dict.fromkeys([*counted, *_count_words(label_texts, normalizer, splitter, 1, None)]))

    given = vocabulary if texts is None else texts
    by_language = isinstance(given, Mapping)
    if label_texts and isinstance(label_texts, Mapping) != by_language:
        raise ValueError("texts and label_texts must both be given by language, or neither")
    if isinstance(given, Mapping):
        labels = label_texts if isinstance(label_texts, Mapping) else {}
        strange = [language for language in labels if language not in given]
        if strange:
            raise ValueError(f"label_texts has {strange[0]!r}, which is not among the languages of the texts")
        for language, own in [*given.items(), *labels.items()]:
            if isinstance(own, str):
                raise ValueError(f"the texts of {language} must be an iterable of texts, got one text")
        words = []
        for language, own in given.items():
            name = f"{language}:" if len(given) > 1 else ""
            words += [name + word for word in words_of(own, labels.get(language, ()))]
    else:
        words = words_of(given, label_texts)
    if not words:
        raise ValueError(
            "the vocabulary is empty: the texts hold no word often enough"
            + (f" (min_count is {min_count})" if vocabulary is None else "")
        )
    ids = {word: row for row, word in enumerate([PAD, UNK, *words])}
    if len(ids) != len(words) + 2:
        repeated = next(word for row, word in enumerate(words) if ids[word] != row + 2)
        raise ValueError(f"the vocabulary lists {repeated!r} more than once; every word needs one row")
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNK))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
    )


def _count_words(
    texts: Iterable[str],
    normalizer: normalizers.Normalizer,
    splitter: pre_tokenizers.PreTokenizer,
    min_count: int,
    max_vocabulary: int | None,
) -> list[str]:
    from tokenizers.trainers import WordLevelTrainer

    counter = Tokenizer(models.WordLevel(unk_token=UNK))
    counter.normalizer, counter.pre_tokenizer = normalizer, splitter
    # The trainer's own limit counts the special words too.
    trainer = WordLevelTrainer(
        vocab_size=max_vocabulary or 1 << 31,
        min_frequency=min_count,
        special_tokens=[PAD, UNK],
        show_progress=False,
    )
    counter.train_from_iterator(texts, trainer)
    ids = counter.get_vocab()
    return sorted((word for word in ids if word not in (PAD, UNK)), key=ids.__getitem__)


def split_sentences(text: str) -> list[str]:
    """Cuts a text after full stops, question and exclamation marks, and at line ends.

    Abbreviations are cut too; pass a document as a list of sentences to use a better splitter.

    Example:
        >>> split_sentences("Milk was tested. Was it safe? Yes, at 4.5 degrees.")
        ['Milk was tested.', 'Was it safe?', 'Yes, at 4.5 degrees.']
    """
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+|\s*\n\s*", text.strip()) if sentence]


class GileProcessor(ProcessorMixin):
    """Makes a model's inputs of documents and of label texts.

    Args:
        tokenizer: The word-level tokenizer, from `build_tokenizer`.
        text_encoder_type: As in `GileConfig`: `"nn"` and `"wan"` read documents of words, the others documents of
            sentences of words.
        max_words: Words kept of a document (nn, wan).
        max_sentences: Sentences kept of a document (hnn, han).
        max_sentence_words: Words kept of a sentence (hnn, han).
        max_label_words: Words kept of a label.
        languages: The languages of the model.

    Example:
        >>> processor = GileProcessor(build_tokenizer(["a cat sat", "a dog ran"], min_count=1))
        >>> batch = processor(["a dog sat", "cat"], label_text=["dog", "cat: a small animal"], return_tensors="pt")
        >>> {name: tuple(tensor.shape) for name, tensor in batch.items()}
        {'input_ids': (2, 3), 'attention_mask': (2, 3), 'label_input_ids': (2, 2)}
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        text_encoder_type: str = "wan",
        max_words: int = 300,
        max_sentences: int = 30,
        max_sentence_words: int = 30,
        max_label_words: int = 50,
        languages: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        if text_encoder_type not in TEXT_ENCODERS:
            raise ValueError(f"text_encoder_type must be one of {', '.join(TEXT_ENCODERS)}, got {text_encoder_type!r}")
        self.text_encoder_type = text_encoder_type
        self.max_words = max_words
        self.max_sentences = max_sentences
        self.max_sentence_words = max_sentence_words
        self.max_label_words = max_label_words
        self.languages = list(languages)
        self._reads_sentences = TEXT_ENCODERS[text_encoder_type].input_dims == "(B, S, W)"
        self._tokenizers: dict[str | None, Tokenizer | None] = {}
        if not self._reads_sentences:  # so that truncation=True means the same to whoever uses the tokenizer alone
            tokenizer.model_max_length = max_words
        super().__init__(tokenizer, **kwargs)

    @classmethod
    def for_config(cls, tokenizer: PreTrainedTokenizerFast, config: Any) -> "GileProcessor":
        """The processor that fits a model's configuration.

        Raises:
            ValueError: The tokenizer has other words than the model has room for.
        """
        names = (
            "text_encoder_type",
            "max_words",
            "max_sentences",
            "max_sentence_words",
            "max_label_words",
            "languages",
        )
        processor = cls(tokenizer, **{name: getattr(config, name) for name in names})
        processor.check_fits(config)
        return processor

    def check_fits(self, config: Any) -> None:
        """Makes sure that a model reads the words this processor writes.

        Raises:
            ValueError: The model has another number of words, another padding word or another shape of documents.
        """
        tokenizer = self.tokenizer
        if len(tokenizer) != config.vocab_size or tokenizer.pad_token_id != config.pad_token_id:
            raise ValueError(
                f"the tokenizer has {len(tokenizer)} words with padding in row {tokenizer.pad_token_id}, the model "
                f"{config.vocab_size} with padding in row {config.pad_token_id}: use the processor saved with the "
                "model, or make a new config with vocab_size=len(tokenizer) and pad_token_id=tokenizer.pad_token_id"
            )
        if self.text_encoder_type != config.text_encoder_type:
            raise ValueError(
                f"the processor makes documents for {self.text_encoder_type!r}, the model reads those for "
                f"{config.text_encoder_type!r}; use the processor saved with the model"
            )
        if self.languages != config.languages:
            raise ValueError(
                f"the processor makes words of {self.languages}, the model reads {config.languages}; use the processor "
                "saved with the model"
            )

    def __call__(
        self,
        text: str | Iterable[str] | Iterable[Sequence[str]] | None = None,
        label_text: Iterable[str] | None = None,
        language: str | Sequence[str] | None = None,
        label_language: str | Sequence[str] | None = None,
        return_tensors: str | None = None,
        **kwargs: Any,
    ) -> BatchFeature:
        """Makes model inputs.

        Args:
            text: Documents, each a text or (han) a list of sentences. One text stands for a list of one. An empty
                text is a document without words, which has a defined score.
            label_text: Texts of labels, such as `LabelSet.texts`. Their unknown words are left out, if any is known.
            language: The language of the documents, or of each, if the model has several.
            label_language: The language of the labels, or of each; by default that of the documents.
            return_tensors: `"pt"` for padded tensors; by default lists without padding, for a dataset.
            kwargs: Nothing; other processors' options are refused.

        Returns:
            `input_ids` and `attention_mask`, `(B, W)` (wan) or `(B, S, W)` (han), for documents; `label_input_ids`
            `(L, T)` for labels.

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
            documents = self._documents([text] if isinstance(text, str) else list(text), language)
            if return_tensors:
                data.update(self.pad_documents(documents))
            else:
                data["input_ids"] = documents
        if label_text is not None:
            if label_language is None and isinstance(language, str):
                label_language = language
            labels = self._labels(label_text if isinstance(label_text, str) else list(label_text), label_language)
            data["label_input_ids"] = _pad(labels, self.tokenizer.pad_token_id) if return_tensors else labels
        return BatchFeature(data)

    def pad_documents(self, documents: Sequence[Any]) -> dict[str, Tensor]:
        """Pads documents of word ids to the longest of a batch.

        Args:
            documents: For each document a list of ids, or a list of sentences of ids (hnn, han), as `__call__` makes
                them without `return_tensors`.

        Returns:
            `input_ids` and `attention_mask`, `(B, W)` or `(B, S, W)`.

        Raises:
            ValueError: No documents.
        """
        if len(documents) == 0:
            raise ValueError("documents is an empty list; a batch has at least one document")
        pad = self.tokenizer.pad_token_id
        if not self._reads_sentences:
            input_ids = _pad(documents, pad)
        else:
            sentences = max(1, *(len(document) for document in documents))
            padded = [sentence for document in documents for sentence in [*document, *[[]] * sentences][:sentences]]
            input_ids = _pad(padded, pad)
            input_ids = input_ids.reshape(len(documents), sentences, input_ids.shape[-1])
        return {"input_ids": input_ids, "attention_mask": (input_ids != pad).long()}

    def _documents(self, texts: Sequence[Any], language: str | Sequence[str] | None) -> list[Any]:
        if len(texts) == 0:
            raise ValueError("text is an empty list; pass at least one document")
        languages = self._languages(language, len(texts), "language")
        if not self._reads_sentences:
            for place, text in enumerate(texts):
                if not isinstance(text, str):
                    raise ValueError(f"text[{place}] must be a text, got {type(text).__name__}")
            return [words[: self.max_words] for words in self._words(texts, languages)]
        documents = []
        for place, text in enumerate(texts):
            sentences = split_sentences(text) if isinstance(text, str) else text
            if not isinstance(sentences, list | tuple) or not all(isinstance(one, str) for one in sentences):
                raise ValueError(f"text[{place}] must be a text or a list of sentences, got {type(text).__name__}")
            words = self._words(sentences, [languages[place]] * len(sentences)) if sentences else []
            cut = [sentence[: self.max_sentence_words] for sentence in words if sentence]
            documents.append(cut[: self.max_sentences])
        return documents

    def _labels(self, texts: Sequence[str], language: str | Sequence[str] | None) -> list[list[int]]:
        if isinstance(texts, str):
            raise ValueError("label_text must be a list of label texts, got one text")
        if len(texts) == 0:
            raise ValueError("label_text is an empty list; pass at least one label")
        for place, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"label_text[{place}] must be a text that is not empty, got {text!r}")
        labels = []
        unknown = self.tokenizer.unk_token_id
        languages = self._languages(language, len(texts), "label_language")
        for place, words in enumerate(self._words(texts, languages)):
            if not words:
                raise ValueError(f"label_text[{place}] holds no word (letters or digits): {texts[place]!r}")
            # An unknown word would pull the labels that have one together.
            known = [word for word in words if word != unknown]
            labels.append((known or words)[: self.max_label_words])
        return labels

    def _languages(self, language: str | Sequence[str] | None, size: int, name: str) -> Sequence[str | None]:
        if not self.languages and language is None:
            return [None] * size
        if language is None and len(self.languages) == 1:
            language = self.languages[0]
        known = ", ".join(self.languages) or "none"
        if language is None:
            raise ValueError(f"this processor makes words of several languages: name one of {known} ({name}=...)")
        languages = [language] * size if isinstance(language, str) else list(language)
        if len(languages) != size:
            raise ValueError(f"{name} must be one language, or one for each of {size} texts, got {len(languages)}")
        unknown = [one for one in languages if one not in self.languages]
        if unknown:
            raise ValueError(f"{name} must be one of the languages of the model ({known}), got {unknown[0]!r}")
        return languages

    def _words(self, texts: Sequence[str], languages: Sequence[str | None]) -> list[list[int]]:
        words: list[list[int]] = [[]] * len(texts)
        for language in dict.fromkeys(languages):
            places = [place for place, other in enumerate(languages) if other == language]
            given = [texts[place] for place in places]
            own = self._own_tokenizer(language)
            # Limits are for the caller to apply: the tokenizer would keep that of its last call in what is saved.
            if own is None:
                rows = self.tokenizer(given, add_special_tokens=False, verbose=False)["input_ids"]
            else:
                rows = [encoding.ids for encoding in own.encode_batch_fast(given, add_special_tokens=False)]
            for place, row in zip(places, rows, strict=True):
                words[place] = row
        return words

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


def _pad(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    # All rows at once: a batch of documents of sentences has thousands. At least one column: a batch of empty texts is
    # (B, 1) padding.
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    padded = np.full((len(rows), max(1, lengths.max(initial=0))), pad, np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.fromiter(
        chain.from_iterable(rows), np.int64, lengths.sum()
    )
    return torch.from_numpy(padded)


__all__ = ["NUM", "PAD", "UNK", "GileProcessor", "build_tokenizer", "normalizer_and_splitter", "split_sentences"]
