"""Models of tokens: the embedding that reads the ids, and the model behind its output."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from rightreasons.core.memory import Work, rows_within_budget
from rightreasons.core.model_modes import innermost
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = [
    "EmbeddingOutput",
    "FeatureModel",
    "call_model",
    "embed_tokens",
    "feature_model",
    "find_embedding",
    "read_embeddings",
    "rows_for_batch",
]


def call_model(model: nn.Module, x: Tensor, inputs: Mapping[str, Tensor] | None) -> Tensor:
    """Run a model on ``x`` and on what else it takes.

    Raises:
        InvalidBatchError: The model's forward does not take one of ``inputs``.
    """
    if not inputs:
        return model(x)  # type: ignore[no-any-return]
    parameters = inspect.signature(innermost(model).forward).parameters.values()
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    unknown = [name for name in inputs if name not in {one.name for one in parameters}]
    if unknown and not takes_any:
        raise InvalidBatchError(
            f"Expected a model whose forward takes `{unknown[0]}` beside `x`, but that of "
            f"{type(innermost(model)).__name__} does not. Without it, padding would change the "
            "logits. Add the argument, or adapt the model with rr.models.huggingface."
        )
    return model(x, **inputs)  # type: ignore[no-any-return]


def rows_for_batch(
    model: nn.Module, batch: Batch, work: Work, *, ceiling: int, in_training: bool
) -> int:
    """The most rows of a pass over samples like those of a batch, see `rows_within_budget`."""
    x, inputs = batch.x, batch.inputs
    return rows_within_budget(
        model, x, work, ceiling=ceiling, in_training=in_training, inputs=inputs
    )


@dataclass
class EmbeddingOutput:
    """The output of an embedding in one pass.

    Args:
        given: What the output becomes, ``(N, T, E)``; None leaves it.
        needs_gradient: Whether the output must be differentiable, also behind frozen weights.
        reach_weights: Whether gradients at ``given`` must reach the embedding as well. The given
            features then count as the embedding's output with a constant added.
        output: The output, once the pass is over.
    """

    given: Tensor | None = None
    needs_gradient: bool = False
    reach_weights: bool = False
    output: Tensor | None = None

    def replace(self, embedded: Tensor) -> Tensor:
        """What the model gets in place of what the embedding gives."""
        if self.given is not None:
            features = self.given
            if self.reach_weights and embedded.requires_grad:
                features = features + (embedded - embedded.detach())
        elif self.needs_gradient and not embedded.requires_grad:
            features = embedded.detach().requires_grad_()
        else:
            features = embedded
        self.output = features if self.given is None else self.given
        return features


@contextmanager
def read_embeddings(model: nn.Module, batch: Batch, wanted: EmbeddingOutput) -> Iterator[None]:
    """Record or replace the output of the embedding that reads ``batch.x``, inside the context.

    A model without one has no features to replace or differentiate, and is refused if it must.
    """
    table = _find(model, batch)
    if table is None and (wanted.needs_gradient or wanted.given is not None):
        table = find_embedding(model, batch)

    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        del module
        return wanted.replace(output) if _are_same(inputs[0], batch.x) else None

    handle = None if table is None else table.register_forward_hook(hook)
    try:
        yield
    finally:
        if handle is not None:
            handle.remove()


class FeatureModel(nn.Module):
    """A model as a function of features alone, for the samples of a batch.

    Args:
        model: The model.
        batch: Its samples. If they are token ids, the features are their embeddings.
    """

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        super().__init__()
        self.model = model
        self.batch = batch

    @property
    def pools(self) -> bool:
        """Whether the model reads the weighted mean of embeddings alone, as `MeanMLP` does."""
        return not self.batch.x.is_floating_point() and hasattr(self.model, "pooling_weights")

    def forward(self, features: Tensor) -> Tensor:
        """Features of the samples, or of copies of them, copy after copy -> logits."""
        num_copies = len(features) // max(1, len(self.batch))
        batch = self.batch if num_copies == 1 else self.batch.repeat(num_copies)
        if batch.x.is_floating_point():
            return call_model(self.model, features, batch.inputs)
        with read_embeddings(self.model, batch, EmbeddingOutput(given=features)):
            return call_model(self.model, batch.x, batch.inputs)


def feature_model(model: nn.Module, batch: Batch) -> nn.Module:
    """The model as a function of features: itself, or a `FeatureModel` if it takes more."""
    is_plain = batch.x.is_floating_point() and not batch.inputs
    return innermost(model) if is_plain else FeatureModel(innermost(model), batch)


def embed_tokens(model: nn.Module, batch: Batch, tokens: Tensor) -> Tensor:
    """The embeddings of other token ids, ``(..., T) -> (..., T, E)``, without a graph.

    Args:
        model: The model.
        batch: Texts that it takes, by which its embedding is found.
        tokens: The other token ids.
    """
    with torch.no_grad():
        embedded: Tensor = find_embedding(model, batch)(tokens)
    return embedded


class _Found(Exception):
    """Ends a pass as soon as the embedding is known."""


_names: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
_NONE = "no embedding"  # no module can have this name


def find_embedding(model: nn.Module, batch: Batch) -> nn.Embedding:
    """The `nn.Embedding` of a model that reads the token ids; looked for once a model.

    Raises:
        InvalidBatchError: No embedding reads them.
    """
    table = _find(model, batch)
    if table is None:
        raise InvalidBatchError(
            f"Expected floating point `x`, or token ids that an nn.Embedding of the model reads, "
            f"but got {batch.x.dtype} and no such layer. Give the model the embeddings."
        )
    return table


def _find(model: nn.Module, batch: Batch) -> nn.Embedding | None:
    core = innermost(model)
    tables = {n: one for n, one in core.named_modules() if isinstance(one, nn.Embedding)}
    if not tables:
        return None
    if _names.get(core, "") not in {*tables, _NONE}:
        _names[core] = _name_of_reader(core, batch[:1], tables)
    return tables.get(_names[core])


def _name_of_reader(core: nn.Module, one: Batch, tables: Mapping[str, nn.Embedding]) -> str:
    found: list[str] = []

    def watch(name: str, table: nn.Embedding) -> torch.utils.hooks.RemovableHandle:
        def stop(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            del module
            if _are_same(inputs[0], one.x):
                found.append(name)
                raise _Found

        return table.register_forward_pre_hook(stop)

    handles = [watch(name, table) for name, table in tables.items()]
    try:
        with torch.no_grad():
            call_model(core, one.x, one.inputs)
    except _Found:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else _NONE


def _are_same(given: Tensor, tokens: Tensor) -> bool:
    return given is tokens or (given.shape == tokens.shape and bool((given == tokens).all()))
