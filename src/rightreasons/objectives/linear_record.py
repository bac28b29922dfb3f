"""Products of linear layers that a search has computed, for the pass that is differentiated twice.

A search takes gradients of several texts and keeps the worst. The worst text is then passed again,
with a graph. Most of the time of a transformer goes into its linear layers. What the search
computed in them, their outputs and the gradients of their inputs, need not be computed again. Only
the products that a second derivative adds are left.

In comments, y = x W^T is a layer, g the gradient for y, and h the gradient for g W in the second
backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

__all__ = ["LinearRecord"]


@dataclass
class _Product:
    """The output of one call of a linear layer, and the gradient of its input, if there was one."""

    output: Tensor
    gradient: Tensor | None = None

    @property
    def is_whole(self) -> bool:
        """Whether there is a gradient, and the model did not write over the output."""
        return self.gradient is not None and not self.output._version


@dataclass
class _Pass:
    """The products of a pass over some texts, in the order of the calls.

    Args:
        size: The first two sizes of what a layer must get to count: texts and tokens.
        keeps: Whether products are written, not read.
        products: The products.
        calls: How many layers were called.
        inputs_alone: Leave out the gradients for weights; autograd does not say who reads them.
    """

    size: tuple[int, int]
    keeps: bool
    products: list[_Product]
    calls: int = 0
    inputs_alone: bool = True


@dataclass
class LinearRecord:
    """The products of linear layers in passes over parts of some texts.

    Values and derivatives of a pass that reads them are those of a pass that computes them. Each
    text must be alone in its row of a layer's input, ``(rows, tokens, ...)``. Layers with another
    input are computed, and so are all if there are as many rows as tokens: no size tells then
    which is which.

    Example:
        >>> layer, x = torch.nn.Linear(3, 3), torch.rand(2, 4, 3, requires_grad=True)
        >>> record = LinearRecord()
        >>> with record.keep(0, (2, 4)):
        ...     found = torch.autograd.grad(layer(x).sum(), x)[0]
        >>> with record.read(0, (2, 4)):
        ...     again = torch.autograd.grad(layer(x).sum(), x, create_graph=True)[0]
        >>> torch.equal(found, again)
        True
    """

    parts: dict[int, list[_Product]] = field(default_factory=dict)

    @contextmanager
    def keep(self, first: int, size: tuple[int, int]) -> Iterator[None]:
        """Write the products of a pass and its gradient, inside the context.

        Args:
            first: The number of the part's first text.
            size: Number of texts and tokens.
        """
        made = _Pass(size, True, [])
        with _Linear(made):
            yield
        self.parts[first] = made.products

    @contextmanager
    def read(self, first: int, size: tuple[int, int]) -> Iterator[None]:
        """Read the products of a pass and its gradient, inside the context."""
        made = _Pass(size, False, self.parts.get(first, []))
        with _Linear(made):
            yield
        made.inputs_alone = False

    def take(self, other: LinearRecord, better: Tensor) -> None:
        """Take the products of other texts where these are better, ``(N,)``.

        Args:
            other: The products of the same layers and parts.
            better: Which texts to take.
        """
        for first, products in self.parts.items():
            others = other.parts.get(first, [])
            if len(products) != len(others):  # another text takes another way through the model
                products.clear()
                continue
            for mine, its in zip(products, others, strict=True):
                rows = better[first : first + len(mine.output)].nonzero().flatten()
                if not mine.is_whole or not its.is_whole or mine.output.shape != its.output.shape:
                    mine.gradient = None
                    continue
                if len(rows):
                    both = ((mine.output, its.output), (mine.gradient, its.gradient))
                    mine.output, mine.gradient = (
                        one.index_copy(0, rows, two[rows])  # type: ignore[union-attr, index]
                        for one, two in both
                    )


class _Linear(TorchFunctionMode):
    """Intercepts calls of linear layers."""

    def __init__(self, made: _Pass) -> None:
        super().__init__()
        self.made = made

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        del types
        kwargs, made = kwargs or {}, self.made
        if func is functional.linear and _counts(made.size, *args[:1]):
            return _linear(made, *args, **kwargs)
        return func(*args, **kwargs)


def _counts(size: tuple[int, int], x: object = None) -> bool:
    if not isinstance(x, Tensor) or x.ndim != 3 or size[0] == size[1]:
        return False
    return tuple(x.shape[:2]) == size


def _linear(made: _Pass, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    number = made.calls
    made.calls += 1
    if made.keeps:
        kept: Tensor = _Kept.apply(x, weight, bias, made.products)  # type: ignore[no-untyped-call]
        return kept
    product = made.products[number] if number < len(made.products) else None
    # Where memory allows fewer texts a pass than in the search, parts have another size.
    if product is None or not product.is_whole or product.output.shape[:2] != made.size:
        return functional.linear(x, weight, bias)
    read: Tensor = _Read.apply(x, weight, bias, product, made)  # type: ignore[no-untyped-call]
    return read


class _Kept(torch.autograd.Function):
    """A layer whose output, and whose input's gradient, are written down."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, products: list[_Product]
    ) -> Tensor:
        y = functional.linear(x, weight, bias)
        ctx.product = _Product(y.detach())
        products.append(ctx.product)
        ctx.save_for_backward(weight)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.needs_input_grad[0]:
            return (None,) * 4
        (weight,) = ctx.saved_tensors
        ctx.product.gradient = gradients[0] @ weight
        return ctx.product.gradient, None, None, None


class _Read(torch.autograd.Function):
    """A layer whose output is known, and the gradient of its input too."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, product: _Product, made: _Pass
    ) -> Tensor:
        del bias
        ctx.save_for_backward(x, weight)
        ctx.known, ctx.made = product.gradient, made
        return product.output.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (g,) = gradients
        x, weight = ctx.saved_tensors
        if ctx.made.inputs_alone:  # the gradient that the search has taken
            return _ReadGradient.apply(g, weight, ctx.known), None, None, None, None  # type: ignore[no-untyped-call]
        for_x, for_weight, for_bias = ctx.needs_input_grad[:3]
        return (
            g @ weight if for_x else None,
            _weight_gradient(g, x) if for_weight else None,
            g.sum(dim=(0, 1)) if for_bias else None,
            *(None, None),
        )


class _ReadGradient(torch.autograd.Function):
    """g and W -> g W, which is known; linear in both. Its transpose in g is the layer itself."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, weight: Tensor, known: Tensor) -> Tensor:
        ctx.save_for_backward(g, weight)
        return known.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (h,) = gradients
        g, weight = ctx.saved_tensors
        for_g, for_weight = ctx.needs_input_grad[:2]
        return (
            functional.linear(h, weight) if for_g else None,
            _weight_gradient(g, h) if for_weight else None,
            None,
        )


def _weight_gradient(g: Tensor, x: Tensor) -> Tensor:
    return g.flatten(0, 1).T @ x.flatten(0, 1)
