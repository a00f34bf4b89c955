"""From document and label vectors to scores: the joint embedding of the paper, and the linear unit it replaces.

Both give a document a code and a label a code whose inner product, plus a constant, is the score. Label codes can
therefore be computed once and kept.

Shapes: B documents, L labels, D word-embedding size, H document size, J joint size.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN


class MeanLabelEncoder(nn.Module):
    """The label encoder of section 2.2: a label vector e is the mean of the label's word vectors; no parameters.

    Args:
        config: A `GileConfig`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        # Not the table's own padding_idx, which a table of given word vectors may lack.
        self.pad_token_id = config.pad_token_id

    def forward(self, label_input_ids: Tensor, word_embeddings: nn.Embedding) -> Tensor:
        """Encodes labels.

        Args:
            label_input_ids: `(L, T)` word ids, padded with the padding word of the table.
            word_embeddings: The `(vocab_size, D)` table that documents use too.

        Returns:
            `(L, D)` label vectors; zero for a label without words.
        """
        # embedding_bag never builds the (L, T, D) word vectors of all labels.
        return functional.embedding_bag(
            label_input_ids, word_embeddings.weight, mode="mean", padding_idx=self.pad_token_id
        )


class ClassificationUnit(nn.Linear):
    """The last weights w and b before the logit; a class of its own because b starts at the label prior."""


class JointInputLabelEmbedding(nn.Module):
    """Scores any label of a document in a joint input-label space.

        score(h, e) = w . (act(U e + b_u) * act(V h + b_v)) + b          GILE, section 3, Eq. 7-14

    No parameter depends on the number of labels, so labels unseen in training are scored the same way. Computed as
    one matrix product, `(act(V h + b_v) * w) @ act(U e + b_u).T + b`; `literal_scores` is the formula as printed, and
    tests hold the two together.

    U and b_u are `label_projection`, V and b_v are `input_projection`, w and b are `classifier`. The paper writes
    e U where nn.Linear computes U e, with U transposed.

    Args:
        config: A `GileConfig`.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.label_projection = nn.Linear(config.embedding_size, config.joint_size)
        self.input_projection = nn.Linear(config.hidden_size, config.joint_size)
        self.classifier = ClassificationUnit(config.joint_size, 1)
        self.activation = ACT2FN[config.joint_act]

    def encode_labels(self, label_embeds: Tensor) -> Tensor:
        """The labels' side of the score, Eq. 7.

        Args:
            label_embeds: `(L, D)` label vectors e.

        Returns:
            `(L, J)` label codes, act(U e + b_u).
        """
        return self.activation(self.label_projection(label_embeds))

    def encode_texts(self, text_embeds: Tensor) -> Tensor:
        """The documents' side of the score, Eq. 8, with the weights w of Eq. 11 already applied.

        Args:
            text_embeds: `(B, H)` document vectors h.

        Returns:
            `(B, J)` text codes, w * act(V h + b_v).
        """
        return self.activation(self.input_projection(text_embeds)) * self.classifier.weight[0]

    def score(self, text_codes: Tensor, label_codes: Tensor) -> Tensor:
        """The score of every document with every label, Eq. 12.

        Args:
            text_codes: `(B, J)` from `encode_texts`.
            label_codes: `(L, J)` from `encode_labels`.

        Returns:
            `(B, L)` logits.
        """
        return functional.linear(text_codes, label_codes) + self.classifier.bias

    def literal_scores(self, text_embeds: Tensor, label_embeds: Tensor) -> Tensor:
        """The paper's formula, step by step: for tests and for readers; it holds (B, L, J).

        Args:
            text_embeds: `(B, H)` document vectors h.
            label_embeds: `(L, D)` label vectors e.

        Returns:
            `(B, L)` logits.
        """
        labels = self.activation(self.label_projection(label_embeds))  # e', Eq. 7
        texts = self.activation(self.input_projection(text_embeds))  # h', Eq. 8
        joint = texts[:, None, :] * labels[None, :, :]  # g_joint (B, L, J), Eq. 10
        return self.classifier(joint).squeeze(-1)  # p_val, Eq. 11-12


class LinearOutput(nn.Module):
    """The typical linear unit: `W h + b`, one row of W and one number of b for each label (Eq. 3).

    It has no use for what a label says, so it scores the labels it was trained on and no others.

    Args:
        config: A `GileConfig`; `config.num_labels` gives L.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.classifier = ClassificationUnit(config.hidden_size, config.num_labels)

    def label_codes(self, columns: Tensor | None = None) -> Tensor:
        """The rows of W with b as a last column: a label's code is learned, not made of its words.

        Args:
            columns: `(C,)` labels wanted; all of them by default.

        Returns:
            `(C, H + 1)` label codes.
        """
        weight, bias = self.classifier.weight, self.classifier.bias[:, None]
        if columns is not None:
            weight, bias = weight[columns], bias[columns]
        return torch.cat([weight, bias], dim=-1)

    def encode_texts(self, text_embeds: Tensor) -> Tensor:
        """The document vector with a one behind it, which picks up b.

        Args:
            text_embeds: `(B, H)` document vectors h.

        Returns:
            `(B, H + 1)` text codes.
        """
        return functional.pad(text_embeds, (0, 1), value=1.0)

    def score(self, text_codes: Tensor, label_codes: Tensor) -> Tensor:
        """The score of every document with every label.

        Args:
            text_codes: `(B, H + 1)` from `encode_texts`.
            label_codes: `(L, H + 1)` from `label_codes`.

        Returns:
            `(B, L)` logits.
        """
        return functional.linear(text_codes, label_codes)


__all__ = ["ClassificationUnit", "JointInputLabelEmbedding", "LinearOutput", "MeanLabelEncoder"]
