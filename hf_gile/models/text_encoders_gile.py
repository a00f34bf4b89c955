"""Encoders of documents: NN, HNN, WAN and HAN of the paper, pretrained encoders, and static encoders.

A dense encoder processes words separately, so its output for a word does not depend on the position. Word encoders
therefore take the distinct words of a batch and their positions: a batch of 16,000 words has about 5,000 distinct
words, and only these are encoded. A recurrent encoder reads the word at each position except padding.

The vectors of pretrained encoders have very different lengths, so pooled hidden states are scaled to a root mean square
of 1: then all encoders work with the same head and learning rate.

Shapes: B documents, S sentences or windows, W words or tokens, N distinct words of the batch, R sequences of T items
(the words of documents or of sentences, the sentences of documents), D word-embedding size, P size of the hidden states
of a pretrained encoder, H document size.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN

from .languages_gile import per_language, select_module
from .losses_gile import widened


def rms_normalized(vectors: Tensor) -> Tensor:
    """Scales `(..., D)` vectors to a root mean square of 1, in float32 or better; zeros stay zeros."""
    return (functional.normalize(widened(vectors), dim=-1) * vectors.shape[-1] ** 0.5).to(vectors.dtype)


def weighted_sum(vectors: Tensor, positions: Tensor, weights: Tensor) -> Tensor:
    """Computes `(R, D)` sums of rows of `(N, D)` vectors at `(R, T)` positions, with `(R, T)` weights."""
    if torch.compiler.is_compiling():  # matrix products are better supported by compilers and exports
        return (weights[:, None] @ vectors[positions]).squeeze(1)
    if vectors.is_cuda and vectors.dtype == torch.bfloat16:  # has no gradient of the weights
        return weighted_sum(vectors.float(), positions, weights.float()).to(vectors.dtype)
    # Never builds (R, T, D).
    return functional.embedding_bag(positions, vectors, per_sample_weights=weights, mode="sum")


class DenseEncoder(nn.Module):
    """The feed-forward encoder g of Eq. 1: `act(W x + c)` at every position."""

    def __init__(self, input_size: int, hidden_size: int, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(input_size, hidden_size)
        self.activation = ACT2FN[activation]

    def forward(self, vectors: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes every position separately: `(N, H)` hidden states, and the unchanged positions."""
        return self.activation(self.dense(vectors)), positions


class RecurrentEncoder(nn.Module):
    """The recurrent encoder g of Eq. 1: a GRU over each sequence, or a GRU in each direction.

    Sequences are packed, so a state depends only on its sequence, not on padding or on the rest of the batch.
    `hidden_size` is that of each direction.
    """

    def __init__(self, input_size: int, hidden_size: int, bidirectional: bool) -> None:
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, bidirectional=bidirectional)

    def forward(self, vectors: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes sequences and skips masked positions; arguments are as in `AttentionPooling`.

        Returns:
            `(M, H)` hidden states of the M positions that are not masked, and `(R, T)` rows of these (0 if masked).
        """
        if not bool(mask.any()):  # still uses the weights: in distributed training, all processes must
            mask = torch.zeros_like(mask)
            mask[0, 0] = True
        lengths = mask.sum(1)
        longest_first = lengths.argsort(descending=True, stable=True)
        in_front = mask.long().argsort(dim=1, descending=True, stable=True)
        steps = torch.arange(int(lengths.max()), device=mask.device)
        has_step = steps[:, None] < lengths[longest_first]  # (steps, R): the order of a packed sequence
        flat = (longest_first[:, None] * mask.shape[1] + in_front[longest_first]).T[: len(steps)]
        read = flat[has_step]
        packed = PackedSequence(vectors[positions.flatten()[read]], has_step.sum(1).cpu())
        hidden = self.gru(packed)[0].data
        rows = torch.zeros_like(positions).flatten()
        rows[read] = torch.arange(len(read), device=rows.device)
        return hidden, rows.reshape(positions.shape)


class AttentionPooling(nn.Module):
    """The attention of Eq. 2: `sum_t softmax_t(v_t . u) h_t` with `v_t = act(W h_t + c)`.

    `projection` is W and c, `context` is u; v and u have the attention size.
    """

    def __init__(self, hidden_size: int, attention_size: int, activation: str, bias: bool = False) -> None:
        super().__init__()
        self.projection = nn.Linear(hidden_size, attention_size)
        self.context = nn.Linear(attention_size, 1, bias=bias)
        self.activation = ACT2FN[activation]

    def score(self, hidden: Tensor) -> Tensor:
        """Computes `(N, 1)` scores v . u of `(N, H)` hidden states."""
        return self.context(self.activation(self.projection(hidden)))

    def forward(self, hidden: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Averages hidden states by attention.

        Args:
            hidden: `(N, H)` hidden states.
            positions: `(R, T)` rows of `hidden` at each position.
            mask: `(R, T)` booleans, true for words or sentences, false for padding.

        Returns:
            `(R, H)` weighted averages and `(R, T)` weights: zero on padding, summing to one over the rest. If
            everything is masked, all weights and the average are zero.
        """
        scores = self.score(hidden).squeeze(-1)[positions]  # (R, T)
        # The lowest finite number, not -inf: the softmax of a row of -inf is NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1) * mask
        # Autocast runs only the softmax in float32.
        return weighted_sum(hidden, positions, weights.to(hidden.dtype)), weights


class MeanPooling(nn.Module):
    """The mean of the items of each sequence, or the sum, as in the published BioASQ models; it has no weights."""

    def __init__(self, is_sum: bool = False) -> None:
        super().__init__()
        self.is_sum = is_sum

    def forward(self, hidden: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Averages or sums hidden states; arguments and results as in `AttentionPooling`; weights of a sum are 1."""
        weights = mask.to(hidden.dtype)
        if not self.is_sum:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=1)
        return weighted_sum(hidden, positions, weights), weights


class FirstToken(nn.Module):
    """The hidden state of the first token, which many pretrained encoders are trained to use as a summary."""

    def forward(self, hidden: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Selects the first states; arguments and results are as in `AttentionPooling`."""
        weights = torch.zeros_like(positions, dtype=hidden.dtype)
        weights[:, 0] = 1
        return hidden[positions[:, 0]], weights * mask


def make_encoder(config: PreTrainedConfig, input_size: int) -> nn.Module:
    """Creates the configured encoder g of Eq. 1 for vectors of `input_size`, shared or for each language."""
    text = config.text_config

    def make() -> nn.Module:
        if text.encoder_cell == "dense":
            return DenseEncoder(input_size, text.hidden_size, text.hidden_act)
        return RecurrentEncoder(input_size, text.hidden_size, text.encoder_cell == "bigru")

    return per_language(config, config.sharing in ("encoders", "both"), make)


def make_pooling(config: PreTrainedConfig, kind: str, size: int) -> nn.Module:
    """Creates the pooling of a `text_config.pooling` kind for hidden states of a size, shared or for each language."""
    if kind == "cls":
        return FirstToken()
    if kind != "attention":
        return MeanPooling(is_sum=kind == "sum")
    text = config.text_config
    shared = config.sharing in ("attention", "both")
    return per_language(config, shared, lambda: AttentionPooling(size, text.attention_size, text.hidden_act))


def mean_of_words(table: nn.Module, input_ids: Tensor, pad_token_id: int) -> Tensor:
    """Computes the label encoder of section 2.2: `(L, D)` means of word vectors, zero for labels without words.

    `input_ids` are `(L, T)`, padded with `pad_token_id`, as the table may have no padding index.
    """
    words, positions = torch.unique(input_ids, return_inverse=True)
    # Not table.weight: an adapter may have wrapped or moved the table. NEFTune needs three dimensions of its output.
    vectors = table(words[None])[0]
    weights = (input_ids != pad_token_id).to(vectors.dtype)
    return weighted_sum(vectors, positions, weights / weights.sum(-1, keepdim=True).clamp(min=1))


class WordEncoder(nn.Module):
    """Encodes documents by an encoder and attention over words (WAN), or over words and then over sentences (HAN).

    NN and HNN average instead of attending (section 4.1.1). Labels use the same word vectors (section 2.2).
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        text = config.text_config
        self.word_embeddings: Any = nn.Embedding(text.vocab_size, text.embedding_size, padding_idx=text.pad_token_id)
        self.make_parts(config)

    def make_parts(self, config: PreTrainedConfig) -> None:
        """Creates the layers above the word vectors."""
        text = config.text_config
        self.word_encoder: Any = None if text.text_encoder_type == "nn" else make_encoder(config, text.embedding_size)
        pooling = text.pooling if text.text_encoder_type in ("wan", "han") else "mean"
        self.word_attention = make_pooling(config, pooling, text.encoder_size)
        if text.reads_sentences:
            self.sentence_encoder = make_encoder(config, text.encoder_size)
            self.sentence_attention = make_pooling(config, pooling, text.encoder_size)

    def forward(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor,
        inputs_embeds: Tensor | None = None,
        pooled: Tensor | None = None,
        language: str | None = None,
        hidden_states: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents.

        Args:
            input_ids: `(B, W)` or `(B, S, W)` word ids.
            attention_mask: Booleans of this shape, true for words. Sentences without words are masked.
            inputs_embeds: `(B, W, D)` or `(B, S, W, D)` word vectors, instead of `input_ids`.
            pooled: `(B, P)` or `(B, S, P)` precomputed output of `TransformerEncoder.pool`, for this encoder only.
            language: Language of all documents, for a multilingual model.
            hidden_states: List to which a pretrained encoder adds those of each layer, `(B, W, P)` or `(B, S, W, P)`.

        Returns:
            `(B, H)` document vectors and attention weights: `(B, W)`; or `(B, S, W)`, normalized in each sentence, and
            `(B, S)`. The weights of `pooled` are missing.
        """
        adds_noise = hasattr(self.word_embeddings, "neftune_noise_alpha")  # to the word at each position
        if input_ids is not None and not torch.compiler.is_compiling() and not adds_noise:
            words, positions = torch.unique(input_ids, return_inverse=True)
            return self.encode(self.word_embeddings(words), positions, attention_mask, language)
        if inputs_embeds is None:  # the number of distinct words is unknown to a compiler
            assert input_ids is not None
            inputs_embeds = self.word_embeddings(input_ids.flatten(1)).unflatten(1, input_ids.shape[1:])
        # A weight of zero would not remove NaN from a sum.
        vectors = inputs_embeds.flatten(0, -2).masked_fill(~attention_mask.reshape(-1, 1), 0)
        positions = torch.arange(vectors.shape[0], device=vectors.device).reshape(attention_mask.shape)
        return self.encode(vectors, positions, attention_mask, language)

    def encode(
        self, word_vectors: Tensor, positions: Tensor, mask: Tensor, language: str | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents from `(N, D)` distinct words at `(B, W)` or `(B, S, W)` positions; see `forward`."""
        hidden = word_vectors
        rows = positions.flatten(0, -2)
        word_mask = mask.flatten(0, -2)
        if self.word_encoder is not None:
            hidden, rows = select_module(self.word_encoder, language)(hidden, rows, word_mask)
        vectors, weights = select_module(self.word_attention, language)(hidden, rows, word_mask)
        if mask.dim() == 2:
            return vectors, (weights,)
        document, sentence_weights = over_sentences(self, vectors, mask.any(-1), language)
        return document, (weights.reshape(mask.shape), sentence_weights)


def over_sentences(
    encoder: "WordEncoder | HierarchicalTransformerEncoder", vectors: Tensor, mask: Tensor, language: str | None
) -> tuple[Tensor, Tensor]:
    """Encodes documents from vectors of sentences or windows with a `(B, S)` mask; also returns their attention."""
    rows = torch.arange(vectors.shape[0], device=vectors.device).view(mask.shape)
    if encoder.sentence_encoder is not None:
        vectors, rows = select_module(encoder.sentence_encoder, language)(vectors, rows, mask)
    return select_module(encoder.sentence_attention, language)(vectors, rows, mask)


def without_pooler(transformer: PreTrainedModel) -> PreTrainedModel:
    """Removes layers above the hidden states of an encoder, whose weights would have no gradients."""
    if isinstance(getattr(transformer, "pooler", None), nn.Module):
        transformer.pooler = None
    return transformer


TOKENS_AT_ONCE = 8192
"""Maximum number of tokens encoded together on a CPU."""

GPU_TOKENS_AT_ONCE = 1 << 15
"""The same on other devices, where small batches take twice the time (docs/gpu.md)."""


_PADDING = 128
"""Number of padding tokens that take as long as another batch, on a CPU."""


def group_by_length(sizes: Sequence[int], max_tokens: int, most_padding: float = math.inf) -> Iterator[list[int]]:
    """Groups the indices of rows of tokens into batches of about equal length, from the `sizes` of the rows.

    Empty rows are omitted. A batch has at most `max_tokens` tokens, at most `most_padding` of them padding, or a single
    row.
    """
    batch: list[int] = []
    padding = 0
    for row in sorted((row for row, size in enumerate(sizes) if size), key=sizes.__getitem__):
        padding += len(batch) * (sizes[row] - sizes[batch[-1]] if batch else 0)
        if batch and ((len(batch) + 1) * sizes[row] > max_tokens or padding > most_padding):
            yield batch
            batch = []
            padding = 0
        batch.append(row)
    if batch:
        yield batch


def position_limit(transformer: nn.Module) -> int | None:
    """Returns the number of positions of an encoder, which limits its input; None if it has no position table."""
    for name, module in transformer.named_modules():
        if name.endswith(("position_embeddings", "wpe")) and isinstance(module, nn.Embedding):
            # In encoders like RoBERTa, positions start after the padding index.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - first
    return None


class TransformerEncoder(nn.Module):
    """Encodes documents of tokens by pooling the hidden states of a pretrained encoder.

    Raises:
        ValueError: If a limit of the configuration exceeds the number of positions of the encoder.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        text = config.text_config
        # The dtype of the surrounding model, not the dtype in which the encoder was saved.
        dtype = torch.get_default_dtype()
        transformer = AutoModel.from_config(text.text_encoder_config, dtype=dtype, trust_remote_code=False)
        self.transformer = without_pooler(transformer)
        self.max_positions = position_limit(transformer)
        limits = {
            "max_words": not text.reads_sentences,
            "max_sentence_words": text.reads_sentences,
            "max_label_words": config.pools_labels,
        }
        for name, is_read in limits.items():
            if is_read and self.max_positions is not None and getattr(text, name) > self.max_positions:
                raise ValueError(
                    f"{name} must be at most {self.max_positions}, the number of positions of the pretrained encoder, "
                    f"got {getattr(text, name)}"
                )
        self.is_frozen = text.freeze_text_encoder
        self.trusted_vectors: Any = None  # used by hf_gile.training.losses
        if self.is_frozen:
            transformer.eval()
        self.pooled_size = text.pooled_size
        self.pooling = make_pooling(config, text.pooling, text.pooled_size)

    def train(self, mode: bool = True) -> "TransformerEncoder":
        """Switches between training and evaluation; a frozen encoder has no dropout in either."""
        if mode != self.training:  # weights may have been changed through `.data`, which has no version counter
            self.trusted_vectors = None
        super().train(mode)
        if self.is_frozen:
            self.transformer.eval()
        return self

    def forward(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        inputs_embeds: Tensor | None = None,
        pooled: Tensor | None = None,
        language: str | None = None,
        hidden_states: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents; see `WordEncoder.forward`."""
        if pooled is not None:
            return pooled, ()
        assert attention_mask is not None
        vectors, weights = self.pool(input_ids, attention_mask, inputs_embeds, language, hidden_states)
        return vectors, (weights,)

    def pool(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor,
        inputs_embeds: Tensor | None = None,
        language: str | None = None,
        hidden_states: list[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Encodes and pools `(..., W)` tokens, in batches of rows of about equal length, to avoid padding.

        The hidden states of each layer, `(..., W, P)`, are added to `hidden_states`, if passed; zero for padding.

        Returns:
            `(..., P)` vectors with a root mean square of 1, zero for a row without tokens, and the `(..., W)` weights
            of the pooling.

        Raises:
            ValueError: If a row has more tokens than the encoder has positions.
        """
        shape = attention_mask.shape
        mask = attention_mask.flatten(0, -2)
        inputs = {"input_ids": input_ids, "inputs_embeds": inputs_embeds}
        tokens = {name: x.flatten(0, len(shape) - 2) for name, x in inputs.items() if x is not None}
        if self.max_positions is not None and mask.shape[1] > self.max_positions:
            raise ValueError(
                f"the pretrained encoder reads at most {self.max_positions} tokens, got {mask.shape[1]}; use the "
                "processor saved with the model, or its tokenizer with truncation=True"
            )
        returns_states = hidden_states is not None
        if returns_states or torch.compiler.is_compiling():  # a compiler does not know the number of batches
            vectors, weights, layers = self._pool_rows(tokens, mask, language, returns_states)
            if hidden_states is not None:
                hidden_states += [layer.masked_fill(~mask[..., None], 0).view(*shape, -1) for layer in layers]
            vectors = vectors.masked_fill(~mask.any(-1, keepdim=True), 0)
            return vectors.view(*shape[:-1], self.pooled_size), weights.view(shape)
        lengths = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        sizes = (mask * lengths).amax(-1).tolist()  # up to the last token
        vectors = torch.zeros(len(mask), self.pooled_size, dtype=self.transformer.dtype, device=mask.device)
        weights = torch.zeros_like(mask, dtype=vectors.dtype)
        limits = (TOKENS_AT_ONCE, _PADDING) if mask.device.type == "cpu" else (GPU_TOKENS_AT_ONCE, math.inf)
        for rows in group_by_length(sizes, *limits):
            width = sizes[rows[-1]]
            batch = {name: x[rows, :width] for name, x in tokens.items()}
            pooled, row_weights, _ = self._pool_rows(batch, mask[rows, :width], language)
            vectors[rows] = pooled
            weights[rows, :width] = row_weights.to(weights.dtype)
        return vectors.view(*shape[:-1], self.pooled_size), weights.view(shape)

    def pool_labels(self, input_ids: Tensor, attention_mask: Tensor, language: str | None = None) -> Tensor:
        """Returns the `(L, P)` outputs for `(L, T)` tokens of labels, means over sequences that padding separates."""
        is_first = attention_mask & ~functional.pad(attention_mask, (1, -1))
        sequences = is_first.cumsum(1) * attention_mask
        if not bool((sequences > 1).any()):
            return self.pool(input_ids, attention_mask, language=language)[0]
        outputs = []
        for sequence in range(1, int(sequences.max()) + 1):
            is_part = sequences == sequence
            width = int(is_part.sum(1).max())
            order = (~is_part).byte().argsort(dim=1, stable=True)[:, :width]
            outputs.append(self.pool(input_ids.gather(1, order), is_part.gather(1, order), language=language)[0])
        return rms_normalized(torch.stack(outputs).sum(0))

    def _pool_rows(
        self, tokens: dict[str, Tensor], mask: Tensor, language: str | None, returns_states: bool = False
    ) -> tuple[Tensor, Tensor, Sequence[Tensor]]:
        """Encodes and pools rows with tokens in a single batch; also returns the hidden states of each layer."""
        options = {"output_hidden_states": True} if returns_states else {}
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_frozen):
            output = self.transformer(**tokens, attention_mask=mask.long(), **options)
        hidden = output.last_hidden_state.flatten(0, 1).to(self.transformer.dtype)  # autocast may return 16 bits
        positions = torch.arange(hidden.shape[0], device=mask.device).view(mask.shape)
        vectors, weights = select_module(self.pooling, language)(hidden, positions, mask)
        return rms_normalized(vectors), weights, output.get("hidden_states", ())


class HierarchicalTransformerEncoder(TransformerEncoder):
    """Encodes long documents: each window separately, then attention over windows, like that of a HAN over sentences.

    With `encoder_cell="none"`, document vectors are in the vector space of the pretrained encoder.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        text = config.text_config
        self.sentence_encoder = None if text.encoder_cell == "none" else make_encoder(config, text.pooled_size)
        self.sentence_attention = make_pooling(config, "attention", text.encoder_size)

    def forward(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        inputs_embeds: Tensor | None = None,
        pooled: Tensor | None = None,
        language: str | None = None,
        hidden_states: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents of `(B, S, W)` tokens; also returns `(B, S)` attention over windows.

        Windows without tokens are masked; without `attention_mask`, those whose `pooled` vectors are zero.
        """
        windows, weights = super().forward(input_ids, attention_mask, inputs_embeds, pooled, language, hidden_states)
        mask = windows.any(-1) if attention_mask is None else attention_mask.any(-1)
        document, attention = over_sentences(self, windows.flatten(0, 1), mask, language)
        if self.sentence_encoder is None:
            document = rms_normalized(document)
        return document, (*weights, attention)


class StaticEncoder(nn.Module):
    """Encodes documents by a table of vectors, for tokens and for pairs of neighbouring tokens that occur in texts.

        h = sum_t v(a_t) + sum_t v(a_t, a_t+1), scaled to a root mean square of 1

    The vectors v contain the weights of tokens and pairs. They were fitted to the document vectors of a pretrained
    encoder, the teacher (`hf_gile.training.distill`). Labels have vectors of the teacher, which are saved with the
    model. The table has 16 bits a number, as integers, so that it keeps them whatever the type of the model.

    Attributes:
        label_embeds: `LabelEmbeds` of labels that the teacher encoded, or None.
        read_other_labels: Encodes `(L, T)` tokens of other labels, `(L, P)`; None without the teacher.
    """

    of_model_type: Tensor

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        text = config.text_config
        self.vocab_size = text.vocab_size
        self.pad_token_id = text.pad_token_id
        self.pooled_size = text.pooled_size
        self.teacher_name = getattr(text.text_encoder_config, "_name_or_path", "")
        self.keys = nn.Parameter(torch.zeros(text.num_vectors, dtype=torch.long), requires_grad=False)
        bits = torch.zeros(text.num_vectors, text.pooled_size, dtype=torch.int16)
        self.bits = nn.Parameter(bits, requires_grad=False)
        self.register_buffer("of_model_type", torch.zeros(0), persistent=False)
        self.label_embeds: Any = None
        self.read_other_labels: Callable[[Tensor], Tensor] | None = None

    @staticmethod
    def keys_of(input_ids: Tensor, mask: Tensor, vocab_size: int) -> Tensor:
        """Numbers the tokens, then the pairs of `(B, W)` documents: `(B, 2 W - 1)`, -1 for padding."""
        tokens = input_ids.masked_fill(~mask, -1)
        pairs = (input_ids[:, :-1] + 1) * vocab_size + input_ids[:, 1:]
        return torch.cat([tokens, pairs.masked_fill(~(mask[:, :-1] & mask[:, 1:]), -1)], 1)

    def set_vectors(self, keys: Tensor, vectors: Tensor) -> None:
        """Sets the table: `(N,)` ascending keys of `keys_of`, and `(N, P)` vectors."""
        self.keys.data = keys
        self.bits.data = vectors.to(torch.float16).contiguous().view(torch.int16)

    def forward(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        inputs_embeds: Tensor | None = None,
        pooled: Tensor | None = None,
        language: str | None = None,
        hidden_states: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Encodes documents; see `WordEncoder.forward`.

        Raises:
            ValueError: If word vectors are passed.
        """
        if pooled is not None:
            return pooled, ()
        if input_ids is None or attention_mask is None:
            raise ValueError("a static encoder looks up tokens: pass input_ids, not inputs_embeds")
        vectors, weights = self.pool(input_ids, attention_mask)
        return vectors, (weights,)

    def pool(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes `(B, W)` tokens: `(B, P)` vectors, zero for documents without known tokens, and `(B, W)` weights."""
        keys = self.keys_of(input_ids, attention_mask, self.vocab_size)
        rows = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        is_known = self.keys[rows] == keys
        table = self.bits.view(torch.float16)
        shares = is_known / is_known.sum(1, keepdim=True).clamp(min=1)
        vectors = weighted_sum(table, rows * is_known, shares.to(table.dtype))
        vectors = rms_normalized(vectors.float()).to(self.of_model_type.dtype)
        return vectors, shares[:, : input_ids.shape[1]]

    def pool_labels(self, input_ids: Tensor, attention_mask: Tensor, language: str | None = None) -> Tensor:
        """Returns `(L, P)` vectors of `(L, T)` tokens of labels, those of the teacher.

        Raises:
            ValueError: If a label is not stored, and the teacher is not there.
        """
        rows = torch.full((len(input_ids),), -1)
        if self.label_embeds is not None:
            rows = self.label_embeds.find_rows(input_ids, self.pad_token_id)
        vectors = self.of_model_type.new_zeros(len(rows), self.bits.shape[1])
        is_known = (rows >= 0).to(vectors.device)
        if bool(is_known.any()):
            vectors[is_known] = self.label_embeds.vectors[rows[rows >= 0]].to(vectors)
        if bool(is_known.all()):
            return vectors
        if self.read_other_labels is None:
            raise ValueError(
                f"{int((~is_known).sum())} labels are new to this model, whose static text encoder reads documents "
                f"only: its teacher {self.teacher_name} must read labels. hf_gile.training.attach_teacher(model) loads "
                "it, and hf-gile labels does so itself; or add the labels to the model that was distilled, and distill "
                "again"
            )
        vectors[~is_known] = self.read_other_labels(input_ids[~is_known]).to(vectors)
        return vectors


PRETRAINED = {
    "transformer": TransformerEncoder,
    "hierarchical_transformer": HierarchicalTransformerEncoder,
    "static": StaticEncoder,
}
"""Encoders of documents from the tokens of a pretrained encoder, by `text_encoder_type`."""
