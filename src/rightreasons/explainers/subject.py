"""The subject of an explanation: a model, samples, and the tensor that is explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from rightreasons.core.memory import Work
from rightreasons.core.model_modes import innermost
from rightreasons.errors import InvalidBatchError
from rightreasons.probe.embeddings import find_embedding, rows_for_batch
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch

__all__ = ["Subject"]

MOST_ROWS = 256
"""Rows of a stacked pass, where memory allows; more are not faster."""


class Subject:
    """A model and the samples at which it is explained, always as at test time.

    Floating point inputs are the features themselves. Integer inputs are token ids: their features
    are the outputs of the first `nn.Embedding`, ``(N, T, E)``.

    Args:
        model: A model that gives logits ``(N, K)``.
        x: The samples, ``(N, *S)``.
        y: The explained class of each sample, ``(N,)``; None takes the predicted classes, from the
            first pass.
        create_graph: Whether gradients of attributions must reach weights and ``x``.
        inputs: What else the model takes, such as ``attention_mask``.

    Example:
        >>> model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
        >>> tokens = torch.tensor([[1, 5, 3]])
        >>> subject = Subject(model, tokens, torch.tensor([0]), create_graph=False)
        >>> subject.features.shape, subject.has_tokens
        (torch.Size([1, 3, 4]), True)
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor | None,
        *,
        create_graph: bool,
        inputs: Mapping[str, Tensor] | None = None,
    ) -> None:
        batch = Batch(x=x, y=_zero_labels(x) if y is None else y, inputs=inputs)
        if not len(batch):
            raise InvalidBatchError("Expected at least one sample to explain, but got none.")
        self.model = innermost(model)
        self.x, self.create_graph = batch.x, create_graph
        self._batch = batch
        self._y = None if y is None else batch.y
        self.has_tokens = not x.is_floating_point()
        self.features = self._embed()

    @property
    def y(self) -> Tensor:
        """The explained classes ``(N,)``; without any given or predicted, the model runs once."""
        if self._y is None:
            self.probe(needs_gradient=False)
        return cast(Tensor, self._y)

    def probe(
        self,
        features: Tensor | None = None,
        samples: Tensor | None = None,
        *,
        needs_gradient: bool = True,
        layers: Sequence[str] = (),
    ) -> Probe:
        """Run the model at the samples' features, or at altered copies of some samples.

        Args:
            features: Altered features, ``(R, *S)``; None takes the samples'.
            samples: The sample of which each row is a copy, ``(R,)``; needed with ``features``.
            needs_gradient: Whether gradients will be taken.
            layers: Names of the model's layers whose activations are recorded.
        """
        features = self.features if features is None else features
        batch = self._batch if samples is None else self._batch[samples]
        y = self._y if samples is None else self.y[samples]
        probe = Probe.at_test_time(
            self.model,
            batch.with_(y=_zero_labels(features) if y is None else y),
            needs_gradient=needs_gradient,
            create_graph=self.create_graph,
            layers=layers,
            features=features,
        )
        if y is None:
            self._y = probe.logits.detach().argmax(dim=1)
            probe = probe.replace(y=self._y)
        return probe

    def rows_for(self, work: Work, max_rows: int | None) -> int:
        """The most rows of a stacked pass: ``max_rows``, or else what fits a memory budget.

        Args:
            work: What the pass keeps.
            max_rows: The setting of an explainer.
        """
        if max_rows is not None:
            return max_rows
        return rows_for_batch(
            self.model, self._batch, work, ceiling=MOST_ROWS, in_training=self.create_graph
        )

    def refuse_tokens(self, explainer: str) -> None:
        """Raise if the samples are token ids, which ``explainer`` cannot explain."""
        if self.has_tokens:
            raise InvalidBatchError(
                f"Expected floating point `x` for {explainer}, but got token ids. Use "
                "InputGradient, SmoothGrad or IntegratedGradients, which explain their embeddings."
            )

    def _embed(self) -> Tensor:
        if not self.has_tokens:
            return self.x if self.create_graph else self.x.detach()
        with torch.set_grad_enabled(self.create_graph):
            features: Tensor = find_embedding(self.model, self._batch)(self.x)
        return features


def _zero_labels(x: Tensor) -> Tensor:
    return torch.zeros(len(x), dtype=torch.long, device=x.device)
