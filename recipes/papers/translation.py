"""Subwords, and translation metrics: BLEU with confidence intervals and paired tests, and word F1 by frequency."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from hf_gile.extras import needs_extra

THIRDS = ("low", "medium", "high")
"""Groups of words by training frequency, rarest first; each has a third of the distinct words."""


def compare_translations(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], samples: int = 1000
) -> dict[str, dict[str, float]]:
    """Computes BLEU with sacrebleu, and compares systems to the first by paired bootstrap (Koehn 2004).

    Args:
        systems: Translations of each system, by name.
        references: Reference translations.
        samples: Number of bootstrap samples.

    Returns:
        For each system `bleu`; `interval`, half the width of its 95 % confidence interval; and, except for the first
        system, the `p_value` of a paired bootstrap test.

    Raises:
        ImportError: If sacrebleu is not installed.
        ValueError: If the numbers of translations and references differ.

    Example:
        >>> lines = ["the cat sat on the mat", "a dog runs in the park"]
        >>> figures = compare_translations({"right": lines, "wrong": lines[::-1]}, lines)
        >>> figures["right"]["bleu"], sorted(figures["wrong"])
        (100.0, ['bleu', 'interval', 'p_value'])
    """
    with needs_extra("data", "BLEU"):
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.significance import PairedTest
    for name, lines in systems.items():
        if len(lines) != len(references):
            raise ValueError(f"{name} has {len(lines):,} translations, but there are {len(references):,} references")
    named: Any = [(name, [*lines]) for name, lines in systems.items()]
    scores: Any = PairedTest(named, {"BLEU": BLEU()}, [[*references]], test_type="bs", n_samples=samples)()[1]
    figures: dict[str, dict[str, float]] = {}
    for name, result in zip(systems, scores["BLEU"], strict=True):
        figures[name] = {"bleu": float(result.score), "interval": float(result.ci)}
        if len(figures) > 1:
            same = named[0][1] == [*systems[name]]  # sacrebleu would report a significant difference
            figures[name]["p_value"] = 1.0 if same else float(result.p_value)
    return figures


def word_f1_by_frequency(
    translations: Sequence[str], references: Sequence[str], training: Iterable[str]
) -> dict[str, float]:
    """Computes the F1 of words by training frequency, like compare-mt (Neubig et al. 2019).

    A word of a translation is correct up to as many times as it occurs in the reference. Words are lower-cased; words
    that do not occur in training are ignored.

    Args:
        translations: Translations of a system.
        references: Reference translations.
        training: Training texts in the target language.

    Returns:
        The F1, 0 to 1, of each group in `THIRDS`.

    Example:
        >>> word_f1_by_frequency(["a cat", "a dog"], ["a cat", "a fox"], ["a a a", "cat cat dog", "fox"])
        {'low': 0.0, 'medium': 1.0, 'high': 1.0}
    """
    ranked = [word for word, _ in sorted(_count_words(training).items(), key=lambda pair: (pair[1], pair[0]))]
    third = {word: rank * len(THIRDS) // len(ranked) for rank, word in enumerate(ranked)}
    correct, predicted, expected = ([0] * len(THIRDS) for _ in range(3))
    for translation, reference in zip(translations, references, strict=True):
        ours, theirs = _count_words([translation]), _count_words([reference])
        for total, counts in ((correct, ours & theirs), (predicted, ours), (expected, theirs)):
            for word, count in counts.items():
                if word in third:
                    total[third[word]] += count
    return {
        name: 2 * hits / max(1, ours + theirs)
        for name, hits, ours, theirs in zip(THIRDS, correct, predicted, expected, strict=True)
    }


def _count_words(texts: Iterable[str]) -> Counter[str]:
    return Counter(word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower()))


def build_piece_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Builds a byte-pair encoding tokenizer, as used by translation models.

    It is case-sensitive, so `decode` restores the original text. Each text ends with `</s>`.

    Args:
        texts: Texts in all languages that share the vocabulary.
        vocab_size: Maximum number of pieces, including the first four: `<pad>`, `<s>`, `</s>` and `<unk>`.

    Example:
        >>> tokenizer = build_piece_tokenizer(["Zwei Katzen schlafen.", "Two cats sleep."], vocab_size=60)
        >>> tokenizer.decode(tokenizer("Two Katzen sleep.")["input_ids"], skip_special_tokens=True)
        'Two Katzen sleep.'
    """
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
