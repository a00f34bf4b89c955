"""Initializes models: pretrained encoders, word vectors and token weights.

Shapes: D word-embedding size.
"""

import inspect
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, PreTrainedConfig

from ..models import GileConfig, GileForSequenceClassification, GileProcessor, Scorer, get_towers
from ..models.checks_gile import check_fetches_nothing
from ..models.lexical_gile import LEXICAL_BUCKETS
from ..models.saving_gile import LOCATION
from ..models.stored_labels_gile import is_finite
from ..models.text_encoders_gile import position_limit, without_pooler
from ..settings import PRETRAINED_DEFAULTS
from .encoders import hub_name_of
from .losses import GileLoss


def model_from_text_encoder(
    pretrained_model_name_or_path: str | PathLike[str] | None,
    *,
    text_encoder_options: dict[str, Any] | None = None,
    **fields: Any,
) -> GileForSequenceClassification:
    """Creates a model with a pretrained encoder. Other weights are initialized randomly.

    By default, the same encoder reads documents and labels, with mean pooling of its last hidden states, up to 256
    tokens per document and 64 per label.

    Args:
        pretrained_model_name_or_path: Argument of `AutoModel.from_pretrained`: an encoder on the Hub, or a folder.
        text_encoder_options: Further arguments, such as `{"revision": ..., "attn_implementation": "sdpa"}`, or fields
            of the encoder configuration, such as `{"attention_probs_dropout_prob": 0.0}`. The model is in float32
            unless they have another `dtype`.
        fields: Fields of `GileConfig`.

    Returns:
        The model, in evaluation mode. `processor_from_text_encoder` creates its processor.

    Raises:
        ValueError: If the model is an encoder-decoder, does not read texts, has no attention mask or has custom code,
            its configuration would make transformers download something else, or fields are incompatible.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     encoder = BertConfig(vocab_size=31, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        ...     BertModel(encoder).save_pretrained(folder)
        ...     model = model_from_text_encoder(folder, joint_size=5)
        >>> model.config.document_size, model.config.label_size
        (8, 8)
    """
    options = {"dtype": torch.float32, **(text_encoder_options or {})}
    trust = options.pop("trust_remote_code", False)
    if pretrained_model_name_or_path is not None and not {"config", "attn_implementation"} & options.keys():
        hub = {name: options[name] for name in (*LOCATION, "proxies") if name in options}
        content, _ = PreTrainedConfig.get_config_dict(pretrained_model_name_or_path, **hub)
        check_fetches_nothing(content, "")
    transformer = AutoModel.from_pretrained(pretrained_model_name_or_path, trust_remote_code=trust, **options)
    if type(transformer).__module__.startswith("transformers_modules."):
        raise ValueError(
            f"{pretrained_model_name_or_path} is a {type(transformer).__name__} with custom code, which could not "
            "be saved with the model: use an encoder of transformers"
        )
    if "attention_mask" not in inspect.signature(transformer.forward).parameters:
        raise ValueError(
            f"{pretrained_model_name_or_path} is a {type(transformer).__name__} without attention_mask: its "
            "outputs would depend on padding"
        )
    positions = position_limit(transformer) or 256
    fields = {"text_encoder_type": "transformer", **(fields.pop("text_config", None) or {}), **fields}
    defaults = PRETRAINED_DEFAULTS.get(fields["text_encoder_type"], {}) | {"max_label_words": min(64, positions)}
    if fields["text_encoder_type"] == "transformer":
        defaults["max_words"] = min(256, positions)
    else:
        defaults["max_sentence_words"] = min(128, positions)
    if fields.get("output_layer") != "linear":
        defaults["label_encoder_type"] = "text_encoder"
    # Not a local folder, which should not be published.
    transformer.config._name_or_path = hub_name_of(str(pretrained_model_name_or_path)) or ""
    attention = transformer.config._attn_implementation
    config = GileConfig(**{**defaults, **fields, "text_encoder_config": transformer.config})
    # Creating a configuration resets this field of nested configurations.
    config.text_config.text_encoder_config._attn_implementation = attention
    model = GileForSequenceClassification(config).to(transformer.dtype)
    model.gile.text_encoder.transformer.load_state_dict(without_pooler(transformer).state_dict())
    if config.pools_labels and config.text_config.has_fixed_pooling:
        model.loss_function = GileLoss()  # caches encodings of labels by the frozen encoder
    return model.eval()


def processor_from_text_encoder(
    name_or_path: str | PathLike[str],
    config: GileConfig,
    *,
    text_prompt: str = "",
    label_prompt: str = "",
    label_frame: str = "",
    **tokenizer_options: Any,
) -> GileProcessor:
    """Creates the processor of a model with a pretrained encoder.

    Args:
        name_or_path: Name of the encoder on the Hub, or its folder.
        config: Configuration of the model.
        text_prompt: Prompt of the encoder for texts, such as `"query: "`, which is saved with the processor.
        label_prompt: Prompt of the encoder for labels.
        label_frame: Sentence such as `"A text about {}."`, in which each label is read a second time.
        tokenizer_options: Further arguments of `AutoTokenizer.from_pretrained`, such as `revision`.

    Raises:
        ValueError: As in `GileProcessor.for_config`.

    Example:
        ```python
        model = model_from_text_encoder("sentence-transformers/all-MiniLM-L6-v2")
        processor = processor_from_text_encoder("sentence-transformers/all-MiniLM-L6-v2", model.config)
        ```
    """
    # Inputs of the model, since pipelines with only a tokenizer pass all of its outputs.
    options = {"model_input_names": ["input_ids", "attention_mask"], **tokenizer_options}
    trust = options.pop("trust_remote_code", False)
    tokenizer = AutoTokenizer.from_pretrained(name_or_path, trust_remote_code=trust, **options)
    return GileProcessor.for_config(
        tokenizer, config, text_prompt=text_prompt, label_prompt=label_prompt, label_frame=label_frame
    )


@torch.no_grad()
def set_word_vectors(model: Scorer, vectors: Tensor | ArrayLike) -> None:
    """Sets word vectors, such as those of `hf_gile.data.load_word_vectors`.

    Call `model.get_input_embeddings().requires_grad_(False)` to freeze them.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification`.
        vectors: `(vocab_size, D)` vectors in the order of the tokenizer. The row of the padding word is ignored.

    Raises:
        ValueError: If the shape is wrong, or vectors contain NaN or infinity.
    """
    numbers = torch.as_tensor(vectors)
    weight = model.get_input_embeddings().weight
    if numbers.shape != weight.shape:
        raise ValueError(f"word vectors must have shape {tuple(weight.shape)}, got {tuple(numbers.shape)}")
    if not is_finite(numbers):
        raise ValueError(f"word vector {int((~numbers.isfinite()).any(1).nonzero()[0])} contains NaN or infinity")
    weight.copy_(numbers)
    weight[model.config.text_config.pad_token_id] = 0


def latent_word_vectors(
    documents: Iterable[Sequence[int]], vocab_size: int, size: int, ignored: Sequence[int] = ()
) -> NDArray[np.float32]:
    """Computes word vectors by latent semantic analysis of training documents.

        v_w = idf_w V_w,  X ~ U S V',  X_dw = count_dw idf_w / |.|

    The mean of the word vectors of a document has the direction of its row of U S.

    Args:
        documents: N training documents as word ids.
        vocab_size: Number of words V.
        size: Size D of a vector.
        ignored: Ids of words with zero vectors, such as special tokens.

    Returns:
        `(V, D)` vectors; zeros for words that no document has, and in components beyond the rank of X.
    """
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.utils.extmath import randomized_svd

    ids = [np.asarray(document, np.int64) for document in documents]
    ends = np.cumsum([0, *map(len, ids)])
    words = np.concatenate([*ids, np.zeros(0, np.int64)])
    counted = ~np.isin(words, [*ignored])
    counts = csr_matrix((counted.astype(np.float32), words, ends), shape=(len(ids), vocab_size))
    counts.sum_duplicates()
    counts.eliminate_zeros()
    weighting = TfidfTransformer()
    x = weighting.fit_transform(counts)
    rank = min(size, *x.shape)
    _, _, right = randomized_svd(x, rank, n_iter=4, random_state=0)
    used = counts.getnnz(0) > 0
    vectors = np.zeros((vocab_size, size), np.float32)
    vectors[used, :rank] = (right.T * weighting.idf_[:, None])[used]
    return vectors


@torch.no_grad()
def set_lexical_weights(model: Scorer, documents: Iterable[Sequence[int]]) -> None:
    """Sets the idf of lexical features, log((1 + N) / (1 + document frequency)) + 1.

    Args:
        model: A `GileModel` or a `GileForSequenceClassification` with `config.lexical`.
        documents: N training documents as lexical ids, the column `lexical_ids` of an encoded dataset.
    """
    counts = np.zeros(2 * LEXICAL_BUCKETS)  # the second half for titles
    number = 0
    for ids in documents:
        counts[np.asarray(ids, np.int64)] += 1
        number += 1
    idf = get_towers(model).output_layer.lexical.idf
    idf.copy_(torch.from_numpy(np.log((1 + number) / (1 + counts[:LEXICAL_BUCKETS])) + 1))
