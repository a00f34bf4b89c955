"""Builds tokenizers of words, from texts or from a vocabulary of word vectors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PAD = "[PAD]"
UNK = "[UNK]"
NUM = "NUM"

# A standalone number. Numbers in names (interleukin-2, HLA-A1, 1976-1980) are kept because they are meaningful.
_NUMBER = r"(?<![\w\-.,])[+-]?\d+(?:[.,]\d+)*%?(?![\w\-]|[.,]\d)"
_WORD = r"\w+"


def normalizer_and_splitter() -> tuple[normalizers.Normalizer, pre_tokenizers.PreTokenizer]:
    """Returns the word tokenization: lower case, standalone numbers replaced by NUM, split at other characters.

    Source: section 4.1.1 of GILE (tokenization, number replacements, rare word replacements).
    """
    normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(_NUMBER), NUM)]
    )
    # invert: matches of the pattern are words, everything else is dropped.
    return normalizer, pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)


def build_tokenizer(
    texts: Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    label_texts: Iterable[str] | Mapping[str, Iterable[str]] = (),
    min_count: int = 2,
    max_vocabulary: int | None = None,
) -> PreTrainedTokenizerFast:
    """Builds a word-level tokenizer from texts or from a vocabulary.

    The result is a plain fast tokenizer that `AutoTokenizer` loads without remote code. Id 0 is the padding word, id 1
    the unknown word.

    For a multilingual model, pass texts, vocabulary and label texts by language. Words are then stored with the
    language as a prefix, `"german:gift"`, so a word of two languages has two ids. `GileProcessor` adds these prefixes;
    the tokenizer alone does not. (A single language needs no prefix.)

    Args:
        texts: Texts to count words in; the most frequent word comes first.
        vocabulary: Words in the order of their word vectors, instead of texts. They must be normalized as by
            `normalizer_and_splitter`; other words can never match.
        label_texts: Texts of the training labels. All their words are added, however rare, because label words are
            read at every step and are often the only difference between labels.
        min_count: Minimum count of a word in `texts`; rarer words are unknown.
        max_vocabulary: Maximum number of words from `texts` per language, including padding and unknown word.

    Raises:
        ValueError: If not exactly one of `texts` and `vocabulary` is passed, the vocabulary is empty, or a word is
            repeated.

    Example:
        >>> tokenizer = build_tokenizer(["The cat sat on 3 mats.", "A cat of 12.5 kg; interleukin-2"], min_count=1)
        >>> tokenizer.tokenize("CAT on 99 tables with interleukin-2")
        ['cat', 'on', 'NUM', '[UNK]', '[UNK]', 'interleukin', '2']
    """
    if (texts is None) == (vocabulary is None):
        raise ValueError(f"pass either texts or vocabulary, got {'neither' if texts is None else 'both'}")
    if isinstance(texts, str):
        raise ValueError("texts must be an iterable of texts, got a single string")

    def extract_words(texts_or_words: Any, label_texts: Any) -> list[str]:
        if texts is None:
            return [word for word in texts_or_words if word not in (PAD, UNK)]
        frequent = _count_words(texts_or_words, min_count, max_vocabulary)
        return list(dict.fromkeys([*frequent, *_count_words(label_texts, 1, None)]))

    source = vocabulary if texts is None else texts
    if label_texts and isinstance(label_texts, Mapping) != isinstance(source, Mapping):
        raise ValueError("either both texts and label_texts are mappings by language, or neither is")
    if isinstance(source, Mapping):
        labels = label_texts if isinstance(label_texts, Mapping) else {}
        if unknown := labels.keys() - source.keys():
            raise ValueError(f"label_texts has the language {min(unknown)!r}, but texts does not")
        words = []
        for language, items in source.items():
            prefix = f"{language}:" if len(source) > 1 else ""
            words += [prefix + word for word in extract_words(items, labels.get(language, ()))]
    else:
        words = extract_words(source, label_texts)
    if not words:
        raise ValueError(
            "the vocabulary is empty: no word of the texts is frequent enough"
            + (f" (min_count is {min_count})" if vocabulary is None else "")
        )
    ids = {word: row for row, word in enumerate([PAD, UNK, *words])}
    if len(ids) != len(words) + 2:
        repeated = next(word for row, word in enumerate(words) if ids[word] != row + 2)
        raise ValueError(f"the vocabulary contains {repeated!r} more than once; words must be unique")
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNK))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer_and_splitter()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
    )


def _count_words(texts: Iterable[str], min_count: int, max_vocabulary: int | None) -> list[str]:
    from tokenizers.trainers import WordLevelTrainer

    counter = Tokenizer(models.WordLevel(unk_token=UNK))
    counter.normalizer, counter.pre_tokenizer = normalizer_and_splitter()
    # The limit of the trainer includes the special words.
    trainer = WordLevelTrainer(
        vocab_size=max_vocabulary or 1 << 31,
        min_frequency=min_count,
        special_tokens=[PAD, UNK],
        show_progress=False,
    )
    counter.train_from_iterator(texts, trainer)
    ids = counter.get_vocab()
    return sorted((word for word in ids if word not in (PAD, UNK)), key=ids.__getitem__)
