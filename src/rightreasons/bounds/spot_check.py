"""Bounds compared with the model itself at a few points of the box, before they are returned.

Bounds are computed from a trace and from one rule for each layer. If the model's code does what
tracing cannot see, or if a rule is wrong, the model's own values show it here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rightreasons.bounds.box import Box, precision, widen_overflowed
from rightreasons.bounds.network import Network, core_of
from rightreasons.core.model_modes import test_time_mode
from rightreasons.core.tracing import restored_attributes
from rightreasons.errors import CertificateError
from rightreasons.types import Target

__all__ = ["refuse_wrong_gradients", "refuse_wrong_margins", "refuse_wrong_outputs"]

Ends = tuple[Tensor, Tensor]


def refuse_wrong_outputs(
    model: nn.Module, network: Network, inputs: Ends, ends: Ends, *, outward: bool
) -> None:
    """Raise unless the bounds hold the model's outputs at the centre and at some corners.

    Args:
        model: The model itself.
        network: What tracing made of it.
        inputs: The ends of the box of inputs.
        ends: The bounds of the outputs over the box.
        outward: Whether the bounds must hold despite rounding.
    """
    for name, point in _points(inputs):
        values = _outputs(model, point)
        if name == "centre":
            _refuse_another_function(network, point, values)
        slack = 0.0 if outward else _slack(values)
        _refuse_outside("outputs", name, values, (ends[0] - slack, ends[1] + slack))


def refuse_wrong_margins(
    model: nn.Module,
    network: Network,
    inputs: Ends,
    y: Tensor,
    margins: Tensor,
    *,
    outward: bool,
) -> None:
    """Raise unless no margin of the model at the centre and at some corners is below its bound.

    Args:
        model: The model itself.
        network: What tracing made of it.
        inputs: The ends of the box of inputs.
        y: Labels ``(N,)``.
        margins: Their lower bounds, ``(N, K)``.
        outward: Whether the bounds must hold despite rounding.
    """
    no_end = torch.full_like(margins.detach(), torch.inf)
    for name, point in _points(inputs):
        logits = _outputs(model, point)
        if name == "centre":
            _refuse_another_function(network, point, logits)
        exact = logits.double()
        values = (exact.gather(1, y[:, None]) - exact).scatter(1, y[:, None], 0.0)
        lower = margins.detach() if outward else margins.detach() - _slack(logits)
        _refuse_outside("margins", name, values, (lower, no_end))


def refuse_wrong_gradients(
    model: nn.Module,
    network: Network,
    inputs: Ends,
    y: Tensor,
    target: Target,
    ends: Ends,
    columns: Tensor | None,
    *,
    outward: bool,
) -> None:
    """Raise unless the bounds hold the model's input gradients at the centre and some corners.

    Without ``outward`` only the outputs are compared: near a kink, rounding decides on a gradient.

    Args:
        model: The model itself.
        network: What tracing made of it.
        inputs: The ends of the box of inputs.
        y: Labels ``(N,)``.
        target: The number of the prediction that is differentiated.
        ends: The bounds of the flattened gradient.
        columns: Indices of the features that are bounded; None is all.
        outward: Whether the bounds must hold despite rounding.
    """
    for name, point in _points(inputs):
        if name == "centre":
            _refuse_another_function(network, point, _outputs(model, point))
        if not outward:
            return
        gradient = _gradient(model, point, y, target).flatten(1)
        if columns is not None:
            gradient = gradient.index_select(1, columns)
        _refuse_outside("input gradients", name, gradient, ends)


def _points(inputs: Ends) -> Iterator[tuple[str, Tensor]]:
    """The centre of a box and three corners; for a box that is a point, that alone."""
    lower, upper = (end.detach() for end in inputs)
    yield "centre", torch.lerp(lower, upper, 0.5).clamp(lower, upper)
    if bool((lower == upper).all()):
        return
    yield "lower corner", lower
    yield "upper corner", upper
    generator = torch.Generator().manual_seed(0)
    is_upper = torch.randint(2, lower.shape[1:], generator=generator).bool().to(lower.device)
    yield "mixed corner", torch.where(is_upper, upper, lower)


@contextmanager
def _as_at_test_time(model: nn.Module) -> Iterator[nn.Module]:
    core = core_of(model)
    with torch.inference_mode(False), test_time_mode(core), restored_attributes(core.modules()):
        yield core


def _outputs(model: nn.Module, x: Tensor) -> Tensor:
    with _as_at_test_time(model) as core, torch.no_grad():
        outputs: Tensor = core(x.clone())  # the model may write into its input
    return outputs


def _gradient(model: nn.Module, x: Tensor, y: Tensor, target: Target) -> Tensor:
    with _as_at_test_time(model) as core, torch.enable_grad():
        start = x.clone().requires_grad_()
        value = target(core(start.clone()), y.clone()).sum()
        if not value.requires_grad:
            return torch.zeros_like(x)
        (gradient,) = torch.autograd.grad(value, start, allow_unused=True)
    return torch.zeros_like(x) if gradient is None else gradient


def _refuse_another_function(network: Network, x: Tensor, values: Tensor) -> None:
    """Raise unless what was traced gives the model's outputs at a point, up to rounding."""
    with torch.no_grad():
        boxes = network.forward(Box.exact(x), outward=True)
        ends = widen_overflowed(boxes[-1].ends(outward=True), boxes)
    if ends[0].shape != values.shape or _num_outside(values, ends):
        raise CertificateError(
            "Expected a model whose forward pass can be traced, but its outputs are not those of "
            "the layers that tracing found. Its code may draw, count its calls, or read what "
            "changes: write it without."
        )


def _slack(outputs: Tensor) -> Tensor:
    """The rounding error that bounds may have that are not rounded outward, for each sample."""
    size = outputs.abs().flatten(1).amax(dim=1) * math.sqrt(precision(outputs))
    return size.view(-1, *[1] * (outputs.ndim - 1))


def _refuse_outside(what: str, where: str, values: Tensor, ends: Ends) -> None:
    outside = _num_outside(values, ends)
    if outside:
        raise CertificateError(
            f"Expected bounds that hold the model's {what}, but {outside} of {values.numel()} at "
            f"the {where} of the box lie outside. The rule of a layer is wrong, or PyTorch is: "
            "check rules of your own, and call `.contiguous()` on what `permute` gives."
        )


def _num_outside(values: Tensor, ends: Ends) -> int:
    lower, upper = (end.detach() for end in ends)
    is_open = torch.isinf(lower) & torch.isinf(upper)  # the bounds overflowed, as the model may
    return int((~((values >= lower) & (values <= upper)) & ~is_open).sum())
