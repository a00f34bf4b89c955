"""Makes tokenizers: of words, of the texts at hand or those that have vectors, and of pieces of words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

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
    if (texts is None) == (vocabulary is None):
        raise ValueError(f"pass either texts or vocabulary, got {'neither' if texts is None else 'both'}")
    if isinstance(texts, str):
        raise ValueError("texts must be an iterable of texts, got one text")

    def words_of(texts_or_words: Any, label_texts: Any) -> list[str]:
        if texts is None:
            return [word for word in texts_or_words if word not in (PAD, UNK)]
        counted = _count_words(texts_or_words, min_count, max_vocabulary)
        return list(dict.fromkeys([*counted, *_count_words(label_texts, 1, None)]))

    source = vocabulary if texts is None else texts
    if label_texts and isinstance(label_texts, Mapping) != isinstance(source, Mapping):
        raise ValueError("texts and label_texts must both be given by language, or neither")
    if isinstance(source, Mapping):
        labels = label_texts if isinstance(label_texts, Mapping) else {}
        _check_languages(source, labels)
        words = []
        for language, own in source.items():
            name = f"{language}:" if len(source) > 1 else ""
            words += [name + word for word in words_of(own, labels.get(language, ()))]
    else:
        words = words_of(source, label_texts)
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
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer_and_splitter()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
    )


def build_piece_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Makes a tokenizer of pieces of words by byte-pair encoding, as translation models have it.

    Upper and lower case stay, and so `decode` gives texts as they were written. `</s>` follows each text.

    Args:
        texts: Texts, of all languages that are to share the vocabulary.
        vocab_size: Number of pieces at most; `<pad>`, `<s>`, `</s>` and `<unk>`, the first four, included.

    Example:
        >>> tokenizer = build_piece_tokenizer(["Zwei Katzen schlafen.", "Two cats sleep."], vocab_size=60)
        >>> tokenizer.decode(tokenizer("Two Katzen sleep.")["input_ids"], skip_special_tokens=True)
        'Two Katzen sleep.'
    """
    from tokenizers.trainers import BpeTrainer

    special = ["<pad>", "<s>", "</s>", "<unk>"]
    pieces = Tokenizer(models.BPE(unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    pieces.decoder = decoders.Metaspace()
    pieces.train_from_iterator(texts, BpeTrainer(vocab_size=vocab_size, special_tokens=special, show_progress=False))
    pieces.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces, padding_side="right", model_input_names=["input_ids", "attention_mask"], **names
    )


def _check_languages(texts: Mapping[str, Any], label_texts: Mapping[str, Any]) -> None:
    for language in label_texts:
        if language not in texts:
            raise ValueError(f"label_texts has {language!r}, which is not among the languages of the texts")
    for language, own in [*texts.items(), *label_texts.items()]:
        if isinstance(own, str):
            raise ValueError(f"the texts of {language} must be an iterable of texts, got one text")


def _count_words(texts: Iterable[str], min_count: int, max_vocabulary: int | None) -> list[str]:
    from tokenizers.trainers import WordLevelTrainer

    counter = Tokenizer(models.WordLevel(unk_token=UNK))
    counter.normalizer, counter.pre_tokenizer = normalizer_and_splitter()
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


__all__ = ["NUM", "PAD", "UNK", "build_tokenizer", "normalizer_and_splitter"]
