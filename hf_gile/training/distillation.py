"""Teaches a static text encoder, a table of vectors, what a pretrained encoder says of texts, by ridge regression.

Shapes: N texts, F vectors (of tokens and of pairs of neighbouring tokens), P size of a document vector.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..models import GileConfig, GileForSequenceClassification, GileModel, GileProcessor, get_towers
from ..models.label_embeds_gile import compute_encoder_state, embed_stored_labels
from .encoders import locate_encoder
from .encoding import Progress, batches_by_length
from .starting import model_from_text_encoder

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MOST_TEXTS = 30_000
"""Number of texts at most that a pretrained encoder should read: four minutes for short texts."""

_MOST_VECTORS = 60_000
"""Number of vectors of a table at most: 47 MB at a size of 384."""

_MOST_TOKENS = 40_000
"""Size of a vocabulary up to which tokens that no text has get a vector, too."""

_MAX_WORDS = 1 << 15
"""Number of tokens of a document that a static encoder reads."""

_SMOOTHING = 1e-3
"""The weight of a token or pair with a share p of all is a / (a + p) (SIF; Arora et al., 2017)."""

_OF_PAIRS = 0.7
"""Weight of pairs, beside tokens."""

_FEWEST = 2
"""Number of occurrences of a pair with a vector."""

_RIDGE = 0.5
"""Strength of the ridge."""

_STEPS = 25
"""Number of steps of conjugate gradients."""

_TESTED = 500
"""Number of texts at most that measure the table, and that it is not fitted to; at most a tenth."""

_AT_ONCE = 256
"""Number of texts that a table reads at once."""

_READ_AT_ONCE = 64
"""Number of texts that a pretrained encoder reads at once."""


@dataclass(frozen=True)
class Distilled:
    """A model with a static text encoder.

    Args:
        model: The model, with the head and the labels of its teacher.
        processor: Its processor.
        cosine: Mean cosine of its document vectors and those of the teacher, of texts that it is not fitted to.
    """

    model: GileForSequenceClassification
    processor: GileProcessor
    cosine: float


@torch.no_grad()
def teach(
    teacher: GileForSequenceClassification, processor: GileProcessor, texts: Sequence[str], bf16: bool = False
) -> Tensor:
    """Returns the `(N, P)` document vectors of a teacher, which takes most of the time of a distillation.

    Args:
        teacher: A model with a pretrained encoder.
        processor: Its processor.
        texts: N texts.
        bf16: Whether to run the encoder in bfloat16 (autocast).
    """
    check_teacher(teacher)
    vectors = torch.zeros(len(texts), teacher.config.document_size)
    progress = Progress("running the text encoder", len(texts), "text")
    for rows in batches_by_length([len(text) for text in texts], _READ_AT_ONCE):
        with torch.autocast(teacher.device.type, torch.bfloat16, enabled=bf16):
            vectors[rows] = _embed(teacher, processor, processor([texts[n] for n in rows])["input_ids"])
        progress.count(len(rows))
    return vectors


@torch.no_grad()
def distill(
    teacher: GileForSequenceClassification, processor: GileProcessor, texts: Sequence[str], vectors: Tensor
) -> Distilled:
    """Replaces the pretrained encoder of a model by a table of vectors that is fitted to its document vectors.

        argmin_v  sum_n |h_n - x_n (v_0 + v)|^2 + c |v|^2

    x_n are the weighted counts of the tokens and pairs of a text, of length 1, h_n the vector of the teacher, and v_0
    the vectors of the teacher for each single token, zero for pairs.

    Args:
        teacher: A model with a pretrained encoder that reads labels, and stored labels.
        processor: Its processor.
        texts: N texts.
        vectors: `(N, P)` document vectors of the teacher.

    Raises:
        ValueError: If the model has no such encoder, or there are no texts.
    """
    check_teacher(teacher)
    if len(texts) == 0:
        raise ValueError("no texts to learn from: pass texts like those to score")
    tokenizer = copy.deepcopy(processor.tokenizer)
    config = static_config(teacher.config, 1)
    reader = GileProcessor.for_config(  # reads long texts
        tokenizer, config, label_prompt=processor.label_prompt, label_frame=processor.label_frame
    )
    ids = reader([*texts])["input_ids"]
    vocab_size = teacher.config.text_config.vocab_size
    is_tested = np.zeros(len(ids), bool)
    is_tested[:: max(10, len(ids) // _TESTED)] = len(ids) > 1
    taught = np.flatnonzero(~is_tested)
    keys, counts = count_features([ids[n] for n in taught], vocab_size, tokenizer.all_special_ids)
    start = single_vectors(teacher, processor, keys)
    targets = functional.normalize(vectors.float(), dim=-1)
    table = fit_vectors(counts, keys < vocab_size, start, targets[taught].numpy())
    model = with_table(teacher, keys, table)
    learned = torch.cat([_embed(model, reader, ids[n : n + _AT_ONCE]) for n in range(0, len(ids), _AT_ONCE)])
    measured = is_tested if is_tested.any() else ~is_tested
    cosines = functional.cosine_similarity(learned, targets, dim=-1)[measured]
    return Distilled(model.to(teacher.device), reader, float(cosines.mean()))


def _embed(model: GileForSequenceClassification, processor: GileProcessor, documents: list[Any]) -> Tensor:
    """Returns the `(N, P)` document vectors of N encoded documents, on the CPU."""
    padded = processor.pad_documents(documents)
    inputs: Any = {name: tensor.to(model.device) for name, tensor in padded.items()}
    return model.gile.embed_texts(**inputs)[0].float().cpu()


def check_teacher(model: GileForSequenceClassification) -> None:
    """Refuses a model whose document vectors and label vectors are not of a pretrained encoder that reads both."""
    config = model.config
    is_static = config.text_config.text_encoder_type == "static"
    is_one_space = config.text_config.encoder_size == config.text_config.pooled_size
    if is_static or not (config.pools_labels and is_one_space) or config.languages:
        raise ValueError(
            "only a model with a pretrained encoder that reads texts and labels can be distilled, without "
            f"languages, or an encoder over windows; got text_encoder_type {config.text_config.text_encoder_type!r}, "
            f"label_encoder_type {config.label_encoder_type!r}, languages {config.languages}. hf-gile train makes such "
            "a model by default"
        )


def static_config(teacher: GileConfig, num_vectors: int) -> GileConfig:
    """Returns the configuration of a model with another text encoder."""
    fields = teacher.to_dict()
    text = teacher.text_config
    fields["text_config"] = {
        "text_encoder_type": "static",
        "text_encoder_config": text.text_encoder_config.to_dict(),
        "pooling": text.pooling,
        "num_vectors": num_vectors,
        "max_words": _MAX_WORDS,
        "max_label_words": text.max_label_words,
    }
    config = GileConfig.from_dict(fields)
    config.text_config.text_encoder_config._name_or_path = text.text_encoder_config._name_or_path
    return config


def count_features(
    documents: Sequence[Sequence[int]], vocab_size: int, special: Sequence[int] = ()
) -> tuple[NDArray[np.int64], "csr_matrix"]:
    """Counts the tokens, and the pairs of neighbouring tokens, that get a vector.

    Args:
        documents: N texts as token ids, at least one of them not empty.
        vocab_size: Number of tokens V.
        special: Tokens that get no vector by themselves.

    Returns:
        `(F,)` ascending keys, as in `StaticEncoder.keys_of`, and `(N, F)` counts.

    Example:
        >>> keys, counts = count_features([[1, 2, 1, 2], [2]], vocab_size=10)
        >>> keys.tolist(), counts.toarray().astype(int).tolist()
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 22], [[0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]])
    """
    from scipy.sparse import csr_matrix

    tokens = np.concatenate([np.asarray(ids, np.int64) for ids in documents])
    rows = np.arange(len(documents)).repeat([len(ids) for ids in documents])
    neighbours = rows[:-1] == rows[1:]
    pairs = ((tokens[:-1] + 1) * vocab_size + tokens[1:])[neighbours]
    is_plain = ~np.isin(tokens, special)
    distinct, numbers = np.unique(np.concatenate([tokens[is_plain], pairs]), return_counts=True)
    is_token = distinct < vocab_size
    chosen = distinct[is_token]
    if vocab_size <= _MOST_TOKENS:
        chosen = np.setdiff1d(np.arange(vocab_size), special)
    often = np.flatnonzero(~is_token & (numbers >= _FEWEST))
    room = max(0, _MOST_VECTORS - len(chosen))
    often = often[np.argsort(-numbers[often], kind="stable")[:room]]
    keys = np.sort(np.concatenate([chosen, distinct[often]]))
    every = np.concatenate([tokens, pairs])
    rows = np.concatenate([rows, rows[:-1][neighbours]])
    has_vector = np.isin(every, keys)
    columns = np.searchsorted(keys, every[has_vector])
    ones = np.ones(len(columns), np.float32)
    return keys, csr_matrix((ones, (rows[has_vector], columns)), (len(documents), len(keys)))


@torch.no_grad()
def single_vectors(
    teacher: GileForSequenceClassification, processor: GileProcessor, keys: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Returns the teacher's `(F, P)` vectors of single tokens, centred, of a mean length of 1; zeros for keys of pairs.

    Special tokens and the prompt of the processor are around each token.
    """
    vectors = np.zeros((len(keys), teacher.config.document_size), np.float32)
    tokens = np.flatnonzero(keys < teacher.config.text_config.vocab_size)
    progress = Progress("reading single tokens", len(tokens), "token")
    for batch in np.split(tokens, range(_AT_ONCE, len(tokens), _AT_ONCE)):
        documents: list[Any] = [processor.framed([int(key)]) for key in keys[batch]]
        if processor.reads_sentences:
            documents = [[window] for window in documents]
        vectors[batch] = _embed(teacher, processor, documents).numpy()
        progress.count(len(batch))
    if len(tokens):
        vectors[tokens] -= vectors[tokens].mean(0)
        vectors[tokens] /= max(float(np.linalg.norm(vectors[tokens], axis=1).mean()), 1e-9)
    return vectors


def fit_vectors(
    counts: "csr_matrix", is_token: NDArray[np.bool_], start: NDArray[np.float32], targets: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Fits vectors of tokens and pairs to vectors of texts, as in `distill`, by conjugate gradients.

    Args:
        counts: `(N, F)` counts.
        is_token: `(F,)`, true for tokens and false for pairs.
        start: `(F, P)` vectors to start from, which are scaled to fit.
        targets: `(N, P)` vectors of the texts, of length 1.
    """
    from scipy.sparse import diags

    shares = (np.asarray(counts.sum(0)).ravel() + 0.5) / max(1.0, float(counts.sum()))
    weights = _SMOOTHING / (_SMOOTHING + shares)
    weights = np.where(is_token, weights, _OF_PAIRS * weights).astype(np.float32)
    x = counts @ diags(weights)
    lengths = np.sqrt(np.asarray(x.multiply(x).sum(1)).ravel())
    x = (diags(1 / np.maximum(lengths, 1e-9)) @ x).astype(np.float32).tocsr()
    back = x.T.tocsr()
    guess = x @ start
    start = start * ((guess * targets).sum() / max(float((guess * guess).sum()), 1e-9))
    residual = targets - x @ start
    dual = np.zeros_like(residual)
    direction = residual.copy()
    norms = (residual * residual).sum(0)
    for _ in range(_STEPS):  # for (X X' + c I) dual = residual, each column separately
        image = x @ (back @ direction) + _RIDGE * direction
        steps = norms / np.maximum((direction * image).sum(0), 1e-20)
        dual += steps * direction
        residual -= steps * image
        before = norms
        norms = (residual * residual).sum(0)
        direction = residual + norms / np.maximum(before, 1e-20) * direction
    return np.asarray((start + back @ dual) * weights[:, None], np.float32)


def with_table(
    teacher: GileForSequenceClassification, keys: NDArray[np.int64], vectors: NDArray[np.float32]
) -> GileForSequenceClassification:
    """Returns a model with a table of `(F,)` keys and `(F, P)` vectors, and the head and labels of its teacher."""
    config = static_config(teacher.config, len(keys))
    model = GileForSequenceClassification(config).to(teacher.dtype).eval()
    encoder = "gile.text_encoder."
    weights = teacher.state_dict()
    others = {name: weights[name] for name in weights if not name.startswith(encoder)}
    model.load_state_dict(others, strict=False)
    largest = max(float(np.abs(vectors).max(initial=0)), 1e-9)  # scaled: the length of a document vector is fixed
    scaled = torch.from_numpy(vectors / largest)
    model.gile.text_encoder.set_vectors(torch.from_numpy(keys), scaled)
    embed_stored_labels(teacher)
    model.label_set = teacher.label_set
    model.processor_fingerprint = None
    model.stored_labels.embeds = teacher.stored_labels.embeds
    model.gile.text_encoder.label_embeds = teacher.stored_labels.embeds
    return model


def attach_teacher(
    model: GileForSequenceClassification, teacher: GileForSequenceClassification | None = None
) -> GileForSequenceClassification:
    """Lets a static model encode new labels, by the pretrained encoder that encoded its labels.

    The encoder is loaded when a new label is read. It is not saved with the model.

    Args:
        model: A model of `distill`.
        teacher: The model that was distilled; by default a model with the encoder of the name that the model keeps,
            from the cache of the Hub, an installed package or the Hub.

    Returns:
        The model. Reading a new label raises a ValueError if the encoder is not available, or is another.
    """
    gile = get_towers(model)

    def read(input_ids: Tensor) -> Tensor:
        nonlocal teacher
        teacher = teacher or _load_teacher(gile)
        if compute_encoder_state(get_towers(teacher)) != compute_encoder_state(gile):
            raise ValueError(
                "new labels cannot be read: this is not the encoder that the labels of the static model were encoded "
                "by; add the labels to the model that was distilled, and distill it again"
            )
        return get_towers(teacher).embed_labels(input_ids.to(teacher.device))

    gile.text_encoder.read_other_labels = torch.no_grad()(read)
    return model


def _load_teacher(gile: GileModel) -> GileForSequenceClassification:
    """Loads the encoder whose name a static model has."""
    text = gile.config.text_config
    name = text.text_encoder_config._name_or_path
    encoder = locate_encoder(name) if name else None
    if encoder is None:
        raise ValueError(
            f"new labels need {name or 'the encoder'}, which taught this static model and is not available here: add "
            "the labels to the model that was distilled, and distill it again"
        )
    fields = {"pooling": text.pooling, "max_label_words": text.max_label_words}
    return model_from_text_encoder(encoder.folder, **fields)
