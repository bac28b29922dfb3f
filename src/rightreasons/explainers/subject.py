"""The subject of an explanation: a model, samples, and the tensor that is explained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from rightreasons.core.memory import Work, rows_within_budget
from rightreasons.core.model_modes import innermost
from rightreasons.errors import InvalidBatchError
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

    Example:
        >>> model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
        >>> tokens = torch.tensor([[1, 5, 3]])
        >>> subject = Subject(model, tokens, torch.tensor([0]), create_graph=False)
        >>> subject.features.shape, subject.has_tokens
        (torch.Size([1, 3, 4]), True)
    """

    def __init__(
        self, model: nn.Module, x: Tensor, y: Tensor | None, *, create_graph: bool
    ) -> None:
        batch = Batch(x=x, y=_zero_labels(x) if y is None else y)
        if not len(batch):
            raise InvalidBatchError("Expected at least one sample to explain, but got none.")
        self.model = innermost(model)
        self.x, self.create_graph = batch.x, create_graph
        self._y = None if y is None else batch.y
        self.has_tokens = not x.is_floating_point()
        self._embedding = _first_embedding(self.model, x) if self.has_tokens else None
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
        y = self._y if samples is None else self.y[samples]
        model, prefix = self.model, ""
        if self._embedding is not None:
            tokens = self.x if samples is None else self.x[samples]
            model, prefix = _BehindEmbedding(self.model, self._embedding, tokens), "model."
        probe = Probe.at_test_time(
            model,
            Batch.trusted(x=features, y=_zero_labels(features) if y is None else y),
            needs_gradient=needs_gradient,
            create_graph=self.create_graph,
            layers=[prefix + layer for layer in layers],
        )
        if y is None:
            self._y = probe.logits.detach().argmax(dim=1)
            probe = probe.replace(y=self._y)
        if not prefix:
            return probe
        activations = {name.removeprefix(prefix): a for name, a in probe.activations.items()}
        return probe.replace(activations=activations)

    def rows_for(self, work: Work, max_rows: int | None) -> int:
        """The most rows of a stacked pass: ``max_rows``, or else what fits a memory budget.

        Args:
            work: What the pass keeps.
            max_rows: The setting of an explainer.
        """
        if max_rows is not None:
            return max_rows
        return rows_within_budget(
            self.model, self.x, work, ceiling=MOST_ROWS, in_training=self.create_graph
        )

    def refuse_tokens(self, explainer: str) -> None:
        """Raise if the samples are token ids, which ``explainer`` cannot explain."""
        if self.has_tokens:
            raise InvalidBatchError(
                f"Expected floating point `x` for {explainer}, but got token ids. Use "
                "InputGradient, SmoothGrad or IntegratedGradients, which explain their embeddings."
            )

    def _embed(self) -> Tensor:
        if self._embedding is None:
            return self.x if self.create_graph else self.x.detach()
        with torch.set_grad_enabled(self.create_graph):
            features: Tensor = self._embedding(self.x)
        return features


def _zero_labels(x: Tensor) -> Tensor:
    return torch.zeros(len(x), dtype=torch.long, device=x.device)


class _BehindEmbedding(nn.Module):
    """A token model as a function of its tokens' embeddings, which replace those it looks up."""

    def __init__(self, model: nn.Module, embedding: nn.Embedding, tokens: Tensor) -> None:
        super().__init__()
        self.model, self.embedding, self.tokens = model, embedding, tokens

    def forward(self, features: Tensor) -> Tensor:
        def replace_output(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            del module
            return features if _are_same_tokens(inputs[0], self.tokens) else output

        hook = self.embedding.register_forward_hook(replace_output)
        try:
            logits: Tensor = self.model(self.tokens)
        finally:
            hook.remove()
        return logits


class _FoundEmbedding(Exception):
    """Ends a pass as soon as the embedding is known."""


def _first_embedding(model: nn.Module, tokens: Tensor) -> nn.Embedding:
    embeddings: list[nn.Embedding] = []

    def stop(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(module, nn.Embedding) and _are_same_tokens(inputs[0], tokens):
            embeddings.append(module)
            raise _FoundEmbedding

    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    hooks = [table.register_forward_pre_hook(stop) for table in tables]
    try:
        if tables:
            with torch.no_grad():
                model(tokens)
    except _FoundEmbedding:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    if not embeddings:
        raise InvalidBatchError(
            f"Expected floating point `x`, or token ids that an nn.Embedding of the model reads, "
            f"but got {tokens.dtype} and no such layer. Give the model the embeddings."
        )
    return embeddings[0]


def _are_same_tokens(given: Tensor, tokens: Tensor) -> bool:
    return given is tokens or (given.shape == tokens.shape and bool((given == tokens).all()))
