"""The translation model of "Beyond Weight Tying": an LSTM encoder-decoder with global attention.

As in OpenNMT (2017), which the paper used, encoder and decoder are stacked LSTMs that share no weights, with "general"
attention and input feeding (Luong et al. 2015). `NmtForConditionalGeneration` has the output layer "NMT" of the paper.
`replace_output_embeddings` replaces this layer and returns a `JointNmtForConditionalGeneration`.

Shapes: B sentences, S source tokens, T target tokens, L layers, V words, D embedding size, H hidden size.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from .joint_models import with_joint_output


@strict
class NmtConfig(PreTrainedConfig):
    """Configuration of an `NmtForConditionalGeneration`, with the defaults of the paper (section 4.2).

    Args:
        vocab_size: Number of words V of each language. Whether or not the languages share a vocabulary, each has an
            embedding table of its own.
        embedding_size: Embedding size D.
        hidden_size: Hidden size H of all LSTMs.
        num_hidden_layers: Number of layers L of the encoder and of the decoder, 1 to 8.
        dropout: Dropout probability after each layer.
    """

    model_type = "nmt"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]

    vocab_size: int = 32000
    embedding_size: int = 512
    hidden_size: int = 512
    num_hidden_layers: int = 2
    dropout: float | int = 0.3
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = False
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 1

    def validate_layers(self) -> None:
        """Checks the number of layers: the paper tried up to 8."""
        if not 1 <= self.num_hidden_layers <= 8:
            raise ValueError(f"num_hidden_layers must be between 1 and 8, got {self.num_hidden_layers}")


@strict
class JointNmtConfig(NmtConfig):
    """Configuration of a `JointNmtForConditionalGeneration`, so that auto classes load the right class.

    Args:
        joint_output: Arguments of `replace_output_embeddings`.
    """

    model_type = "joint_nmt"

    joint_output: dict[str, Any] | None = None


@dataclass
class NmtEncoderOutput(BaseModelOutput):
    """Output of the encoder.

    Args:
        last_hidden_state: `(B, S, H)` hidden states of the last layer.
        state: `(B, 2 L, H)` final h of each layer, followed by the final c of each layer.
    """

    state: Tensor | None = None


class NmtEncoder(nn.Module):
    """Reads source sentences from left to right.

    Args:
        config: Sizes.
    """

    main_input_name = "input_ids"

    def __init__(self, config: NmtConfig) -> None:
        super().__init__()
        layers = config.num_hidden_layers
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.lstm = nn.LSTM(
            config.embedding_size,
            config.hidden_size,
            layers,
            batch_first=True,
            dropout=config.dropout if layers > 1 else 0.0,
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> NmtEncoderOutput:
        """Encodes `(B, S)` token ids, padded on the right.

        Raises:
            ValueError: If a sentence is empty or padded on the left.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if not mask[:, 0].all() or (mask[:, 1:] > mask[:, :-1]).any():
            raise ValueError(
                "sentences must have at least one token and be padded on the right: set tokenizer.padding_side"
            )
        packed = pack_padded_sequence(
            self.embed_tokens(input_ids), mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, ends = self.lstm(packed)
        memory, _ = pad_packed_sequence(states, batch_first=True, total_length=input_ids.shape[1])
        return NmtEncoderOutput(last_hidden_state=memory, state=torch.cat(ends).transpose(0, 1))


class NmtDecoder(nn.Module):
    """Stacked LSTM cells with attention to the source and input feeding.

    Args:
        config: Sizes.
    """

    def __init__(self, config: NmtConfig) -> None:
        super().__init__()
        size = config.hidden_size
        sizes = [config.embedding_size + size, *[size] * (config.num_hidden_layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(entering, size) for entering in sizes)
        self.attention = nn.Linear(size, size, bias=False)
        self.combine = nn.Linear(2 * size, size, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, embedded: Tensor, state: Tensor, memory: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Decodes the target words.

        Args:
            embedded: `(B, T, D)` embeddings of the target words.
            state: `(B, 2 L + 1, H)`: h of each layer, c of each layer, and the last attentional state.
            memory: `(B, S, H)` hidden states of the encoder.
            padding: `(B, S)`, 0 for words and minus infinity for padding.

        Returns:
            `(B, T, H)` attentional states, and the state after the last word.
        """
        keys = self.attention.weight @ memory.mT  # (B, H, S): score(h, s) = h W s, as in "general"
        hidden, cells = ([*part.unbind(1)] for part in state[:, :-1].chunk(2, 1))
        attentional = state[:, -1]
        outputs = []
        for word in embedded.unbind(1):
            top = torch.cat([word, attentional], 1)
            for layer, cell in enumerate(self.cells):
                hidden[layer], cells[layer] = cell(
                    top if layer == 0 else self.dropout(top), (hidden[layer], cells[layer])
                )
                top = hidden[layer]
            weights = ((top[:, None] @ keys)[:, 0] + padding).softmax(1)
            context = (weights[:, None] @ memory)[:, 0]
            attentional = self.dropout(self.combine(torch.cat([context, top], 1)).tanh())
            outputs.append(attentional)
        return torch.stack(outputs, 1), torch.stack([*hidden, *cells, attentional], 1)


class NmtForConditionalGeneration(PreTrainedModel, GenerationMixin):
    """An LSTM encoder-decoder with the output layer `W h + b`.

    `get_input_embeddings` returns `embed_tokens`, the table E of target words. The table of source words is
    `encoder.embed_tokens`. `resize_token_embeddings` resizes both.

    Args:
        config: Sizes.

    Example:
        >>> config = NmtConfig(vocab_size=50, embedding_size=8, hidden_size=8)
        >>> model = NmtForConditionalGeneration(config).eval()
        >>> model.generate(torch.tensor([[5, 6, 2]]), max_new_tokens=3, do_sample=False).shape[0]
        1
    """

    config_class = NmtConfig
    main_input_name = "input_ids"

    def __init__(self, config: NmtConfig) -> None:
        super().__init__(config)
        self.encoder = NmtEncoder(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.decoder = NmtDecoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Initializes all weights as OpenNMT does."""
        if isinstance(module, nn.Linear | nn.Embedding | nn.LSTM | nn.LSTMCell):
            for parameter in module.parameters():
                init.uniform_(parameter, -0.1, 0.1)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        use_cache: bool = True,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput | tuple[Tensor, ...]:
        """Scores all words at all positions of the target sentences.

        Args:
            input_ids: `(B, S)` source sentences; not needed with `encoder_outputs`.
            attention_mask: `(B, S)`, 0 for padding, on the right.
            decoder_input_ids: `(B, T)` target words; by default `labels` shifted to the right.
            encoder_outputs: Output of the encoder.
            past_key_values: `(B, 2 L + 1, H)` state before the first target word; by default the final state of the
                encoder.
            labels: `(B, T)` target words, -100 for positions to ignore.
            num_items_in_batch: Divisor of the summed loss; by default the number of labels that are not ignored.
            use_cache: Whether to return the state after the last word.
            return_dict: False to return a tuple.
            kwargs: Ignored arguments that generation and training pass to any model.

        Returns:
            The loss (with `labels`), `(B, T, V)` logits and the state.

        Raises:
            ValueError: If source or target sentences are missing.
        """
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError(
                    "pass the target sentences as labels or decoder_input_ids, or translate with generate()"
                )
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if encoder_outputs is None:
            if input_ids is None:
                raise ValueError("pass the sentences to translate as input_ids, or encoder_outputs")
            encoder_outputs = self.encoder(input_ids, attention_mask)
        memory = encoder_outputs.last_hidden_state
        state = past_key_values
        if state is None:
            state = functional.pad(encoder_outputs.state, (0, 0, 0, 1))  # the first attentional state is zero
        padding = memory.new_zeros(memory.shape[:2])
        if attention_mask is not None:
            padding = padding.masked_fill(attention_mask == 0, -torch.inf)
        hidden, state = self.decoder(self.embed_tokens(decoder_input_ids), state, memory, padding)
        logits = self.lm_head(hidden)
        loss = None
        if labels is not None and logits.shape[1]:
            total = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            loss = total / ((labels != -100).sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch)
        output: Any = Seq2SeqLMOutput(loss=loss, logits=logits, past_key_values=state if use_cache else None)
        return output.to_tuple() if return_dict is False else output

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Saves the model, also for `AutoModel`; see `PreTrainedModel.save_pretrained`."""
        classes = getattr(self.config, "auto_map", None) or {}
        self.config.auto_map = {**classes, "AutoModel": f"joint_nmt.{type(self).__name__}"}
        super().save_pretrained(*args, **kwargs)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Shifts `(B, T)` labels to the right, after the start token."""
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        return torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] == -100, self.config.pad_token_id)], 1)

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Resizes the tables of both languages and the output layer."""
        resized = super().resize_token_embeddings(*args, **kwargs)
        mean = kwargs.get("mean_resizing", True)
        source = self.encoder.embed_tokens
        self.encoder.embed_tokens = self._get_resized_embeddings(source, resized.num_embeddings, mean_resizing=mean)
        return resized

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the state is a tensor

    def _reorder_cache(self, past_key_values: Tensor, beam_idx: Tensor) -> Tensor:
        return past_key_values.index_select(0, beam_idx)


JointNmtForConditionalGeneration: Any = with_joint_output(
    NmtForConditionalGeneration, "AutoModelForSeq2SeqLM", __name__
)
JointNmtForConditionalGeneration.config_class = JointNmtConfig
NmtForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
for config_class in (NmtConfig, JointNmtConfig):
    config_class.register_for_auto_class()
