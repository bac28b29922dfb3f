"""Small nets for texts: the mean of embeddings, a convolution over words, an LSTM."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_integer
from rightreasons.models.layers import Activation
from rightreasons.models.mlp import mlp

__all__ = ["MeanMLP", "TextCNN", "TextLSTM", "text_cnn", "text_lstm", "text_mlp"]


class MeanMLP(nn.Module):
    r"""A fully connected net on the mean of the embeddings of a text.

    .. math:: f(x) = h\Big(\sum_t w_t \, e(x_t)\Big), \qquad w_t = a_t / \sum_s a_s

    with the attention mask :math:`a`. Each token enters by addition alone, so bounds over all
    substitutes of some tokens are cheap; see `certify`.

    Args:
        embedding: The embedding of token ids.
        head: The net behind the mean.
    """

    def __init__(self, embedding: nn.Embedding, head: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.head = head

    def pooling_weights(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The weight of each token in the mean, ``(N, T)``; 0 for padding."""
        counts = _attention(x, attention_mask).to(self.embedding.weight)
        return counts / counts.sum(dim=1, keepdim=True).clamp(min=1)

    @override
    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Token ids ``(N, T)``, 1 for each that counts ``(N, T)`` -> logits ``(N, K)``."""
        weights = self.pooling_weights(x, attention_mask)
        logits: Tensor = self.head((weights[..., None] * self.embedding(x)).sum(dim=1))
        return logits


class TextCNN(nn.Module):
    """Convolutions over words of several widths, the largest value of each, a linear layer.

    Args:
        embedding: The embedding of token ids.
        convolutions: One convolution for each width, padded at both ends.
        head: The net behind the largest values.
    """

    def __init__(
        self, embedding: nn.Embedding, convolutions: Sequence[nn.Conv1d], head: nn.Module
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.convolutions = nn.ModuleList(convolutions)
        self.head = head

    @override
    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Token ids ``(N, T)``, 1 for each that counts ``(N, T)`` -> logits ``(N, K)``."""
        counts = _attention(x, attention_mask)[:, None]
        features = self.embedding(x).transpose(1, 2) * counts
        # A value is at least 0 behind the ReLU, so that padding, set to 0, is never the largest.
        largest = [
            (functional.relu(convolve(features))[..., : x.shape[1]] * counts).amax(dim=2)
            for convolve in self.convolutions
        ]
        logits: Tensor = self.head(torch.cat(largest, dim=1))
        return logits


class TextLSTM(nn.Module):
    """An LSTM from left to right, the mean of its states, a linear layer.

    Args:
        embedding: The embedding of token ids.
        recurrence: The LSTM, with the batch as its first axis.
        head: The net behind the mean state.
    """

    def __init__(self, embedding: nn.Embedding, recurrence: nn.LSTM, head: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.recurrence = recurrence
        self.head = head

    @override
    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Token ids ``(N, T)``, 1 for each that counts ``(N, T)`` -> logits ``(N, K)``."""
        counts = _attention(x, attention_mask)[..., None].to(self.embedding.weight)
        states = self.recurrence(self.embedding(x))[0]
        mean = (counts * states).sum(dim=1) / counts.sum(dim=1).clamp(min=1)
        logits: Tensor = self.head(mean)
        return logits


def text_mlp(
    *,
    vocabulary: int,
    classes: int,
    width: int = 64,
    hidden: Sequence[int] = (64,),
    activation: Activation = "relu",
) -> MeanMLP:
    """Fully connected net on the mean of a text's embeddings; it has bounds.

    Args:
        vocabulary: How many token ids there are.
        classes: How many classes there are.
        width: The length of an embedding.
        hidden: The width of each hidden layer.
        activation: Name of the activation, see `mlp`.

    Shape:
        x ``(N, T)`` token ids; logits ``(N, classes)``.

    Example:
        >>> text_mlp(vocabulary=9, classes=2)(torch.tensor([[1, 5, 3]])).shape
        torch.Size([1, 2])
    """
    table = _embedding(vocabulary, width)
    return MeanMLP(table, mlp(inputs=width, hidden=hidden, classes=classes, activation=activation))


def text_cnn(
    *,
    vocabulary: int,
    classes: int,
    width: int = 64,
    filters: int = 64,
    kernels: Sequence[int] = (1, 3, 5),
) -> TextCNN:
    """Convolutions over words, the largest value of each, a linear layer.

    Differs from the paper: widths are odd, embeddings are drawn and learned, nothing is dropped.

    Args:
        vocabulary: How many token ids there are.
        classes: How many classes there are.
        width: The length of an embedding.
        filters: Number of filters of each width.
        kernels: How many words a filter sees, odd numbers.

    Shape:
        x ``(N, T)`` token ids; logits ``(N, classes)``.

    Example:
        >>> text_cnn(vocabulary=9, classes=2)(torch.tensor([[1, 5, 3]])).shape
        torch.Size([1, 2])

    References:
        kim2014convolutional
    """
    table = _embedding(vocabulary, width)
    sides = [check_integer("kernels", kernel) // 2 * 2 + 1 for kernel in kernels]
    convolutions = [nn.Conv1d(width, filters, side, padding=side // 2) for side in sides]
    head = mlp(inputs=filters * len(sides), hidden=(), classes=classes)
    return TextCNN(table, convolutions, head)


def text_lstm(
    *, vocabulary: int, classes: int, width: int = 64, states: int = 64, layers: int = 1
) -> TextLSTM:
    """LSTM from left to right, the mean of its states, a linear layer.

    Args:
        vocabulary: How many token ids there are.
        classes: How many classes there are.
        width: The length of an embedding.
        states: The length of a state.
        layers: Number of LSTM layers.

    Shape:
        x ``(N, T)`` token ids; logits ``(N, classes)``.

    Example:
        >>> text_lstm(vocabulary=9, classes=2)(torch.tensor([[1, 5, 3]])).shape
        torch.Size([1, 2])

    References:
        hochreiter1997long
    """
    table = _embedding(vocabulary, width)
    recurrence = nn.LSTM(width, states, num_layers=layers, batch_first=True)
    return TextLSTM(table, recurrence, mlp(inputs=states, hidden=(), classes=classes))


def _embedding(vocabulary: int, width: int) -> nn.Embedding:
    return nn.Embedding(check_integer("vocabulary", vocabulary), check_integer("width", width))


def _attention(x: Tensor, attention_mask: Tensor | None) -> Tensor:
    return torch.ones_like(x) if attention_mask is None else attention_mask
