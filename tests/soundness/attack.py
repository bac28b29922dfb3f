"""A search for inputs in a box at which a net leaves its bounds.

All points of a search are kept. They are compared with the bounds afterwards, at once:

- random points, corners of the box, and points on its faces;
- the ends of gradient steps that raise or lower an output, a margin or a gradient's component;
- points on both sides of a kink or a jump, found by bisection down to the last digits.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rightreasons.types import Target

NUM_STEPS, NUM_HALVINGS = 6, 24


class Boxes(NamedTuple):
    """Boxes of inputs, ``(N, *S)``, and the labels of their samples."""

    lower: Tensor
    upper: Tensor
    y: Tensor

    def between(self, share: Tensor) -> Tensor:
        """Points ``(N, P, *S)`` at these shares of the way, never outside."""
        lower, upper = self.lower.unsqueeze(1), self.upper.unsqueeze(1)
        return self.clip(torch.where(share == 1, upper, lower + share * (upper - lower)))

    def clip(self, points: Tensor) -> Tensor:
        """Points ``(N, P, *S)``, moved into the boxes."""
        return torch.clamp(points, self.lower.unsqueeze(1), self.upper.unsqueeze(1))


def points_in(net: nn.Module, boxes: Boxes, target: Target, *, effort: int) -> Tensor:
    """All points of a search, ``(N, P, *S)``.

    Args:
        net: The net in eval mode, in the precision of the boxes.
        boxes: The boxes to search.
        target: The number whose input gradient is attacked.
        effort: Number of restarts of each kind of search.
    """
    parts = [
        boxes.between(_shares(boxes, 4 * effort)),
        boxes.between(_corner_shares(boxes, 6 * effort)),
        boxes.between(_face_shares(boxes, 2 * effort)),
        *_ascent(net, boxes, target, 2 * effort),
        *_beside_kinks(net, boxes, effort),
    ]
    return torch.cat(parts, dim=1)


def values_at(net: nn.Module, points: Tensor, y: Tensor, target: Target) -> tuple[Tensor, Tensor]:
    """Outputs ``(N, P, K)`` and input gradients ``(N, P, *S)`` at points ``(N, P, *S)``."""
    flat = points.flatten(0, 1).detach().requires_grad_()
    labels = y.repeat_interleave(points.shape[1])
    outputs = net(flat)
    (gradients,) = torch.autograd.grad(target(outputs, labels).sum(), flat)
    sizes = points.shape[:2]
    return outputs.detach().unflatten(0, sizes), gradients.unflatten(0, sizes)


def _shares(boxes: Boxes, count: int) -> Tensor:
    size, *shape = boxes.lower.shape
    return torch.rand(size, count, *shape, dtype=boxes.lower.dtype)


def _corner_shares(boxes: Boxes, count: int) -> Tensor:
    """All corners where there are few, else random ones."""
    shape = boxes.lower.shape[1:]
    num_features = shape.numel()
    if 2**num_features > count:
        return _shares(boxes, count).round()
    bits = torch.arange(count)[:, None] >> torch.arange(num_features) & 1
    return bits.to(boxes.lower.dtype).reshape(1, count, *shape)


def _face_shares(boxes: Boxes, count: int) -> Tensor:
    """Some features at an end, the others anywhere."""
    anywhere = _shares(boxes, count)
    return torch.where(_shares(boxes, count) < 0.5, anywhere.round(), anywhere)


def _ascent(net: nn.Module, boxes: Boxes, target: Target, count: int) -> Iterator[Tensor]:
    """Sign-gradient steps of falling length; each point has a goal of its own."""
    points = boxes.between(_shares(boxes, count))
    y = boxes.y.repeat_interleave(count)
    width = (boxes.upper - boxes.lower).unsqueeze(1)
    goals: tuple[Tensor, Tensor] | None = None
    for step in range(NUM_STEPS):
        flat = points.flatten(0, 1).detach().requires_grad_()
        outputs = net(flat)
        value = target(outputs, y).sum()
        (gradient,) = torch.autograd.grad(value, flat, create_graph=True, retain_graph=True)
        goals = goals or _goals(outputs.detach(), gradient.detach())
        score = (goals[0] * outputs).sum() + (goals[1] * gradient).sum()
        (ascent,) = torch.autograd.grad(score, flat)
        direction = ascent.nan_to_num().sign().unflatten(0, points.shape[:2])
        points = boxes.clip(points.detach() + 0.5**step * width * direction)
        yield points


def _goals(outputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Directions in outputs and in gradients, one a point: a number, or a difference of two."""
    size = len(outputs)
    kind = torch.arange(size) % 3
    sign = torch.randint(0, 2, (size, 1)).to(outputs) * 2 - 1
    of_outputs = _one_hot(outputs)
    of_outputs = of_outputs - _one_hot(outputs) * (kind == 1)[:, None]
    of_gradients = _one_hot(gradients.flatten(1)).reshape(gradients.shape)
    axes = [1] * (gradients.ndim - 1)
    is_gradient = (kind == 2).view(-1, *axes)
    return sign * of_outputs * (kind < 2)[:, None], sign.view(
        -1, *axes
    ) * of_gradients * is_gradient


def _one_hot(like: Tensor) -> Tensor:
    chosen = torch.randint(0, like.shape[1], (len(like), 1))
    return torch.zeros_like(like).scatter_(1, chosen, 1.0)


class Kinks(TorchFunctionMode):
    """Records the distances of a net's activations from all kinks, jumps and turning points.

    It sees functions and modules alike and leaves the net as it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.distances: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        for distance in _distances(name, args, kwargs):
            self.distances.append(distance.detach().flatten(1))
        return func(*args, **kwargs)


def _distances(name: str, args: Any, kwargs: Any) -> Iterator[Tensor]:
    if name in ("max_pool1d", "max_pool2d", "boolean_dispatch", "fn"):
        if args and isinstance(args[0], Tensor) and args[0].shape[-1] > 1:
            yield args[0].diff(dim=-1)  # a tie of two neighbours
        return
    settings = list(args[1:])
    if name == "softplus":
        beta = settings[0] if settings else kwargs.get("beta", 1.0)
        limit = settings[1] if len(settings) > 1 else kwargs.get("threshold", 20.0)
        yield args[0] * beta - limit
    elif name == "hardtanh":
        low = settings[0] if settings else kwargs.get("min_val", -1.0)
        high = settings[1] if len(settings) > 1 else kwargs.get("max_val", 1.0)
        yield args[0] - low
        yield args[0] - high
    else:
        for turn in TURNS.get(name, ()):
            yield args[0] - turn


TURNS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("relu", "leaky_relu", "elu", "sigmoid", "tanh"), (0.0,)),
    "relu6": (0.0, 6.0),
    "silu": (-1.2784645, -2.3993573, 2.3993573),
    "gelu": (-0.7517915, -1.4142136, 1.4142136),
}


def _beside_kinks(net: nn.Module, boxes: Boxes, count: int) -> Iterator[Tensor]:
    """Halve segments on which an activation crosses a kink, down to its two sides."""
    first = boxes.between(_face_shares(boxes, count))
    second = boxes.between(_corner_shares(boxes, count).expand(len(first), count, *first.shape[2:]))
    at_first, at_second = (_kink_distances(net, ends) for ends in (first, second))
    if at_first is None or at_second is None:
        return
    # A random activation among those that cross, for each segment; any if none does.
    crosses = (at_first > 0) != (at_second > 0)
    weight = torch.rand_like(at_first) + crosses.to(at_first)
    chosen = weight.nan_to_num().argmax(dim=1, keepdim=True)
    was_above = at_first.gather(1, chosen) > 0
    axes = [1] * (first.ndim - 2)
    for halving in range(NUM_HALVINGS if boxes.lower.dtype == torch.float32 else 2 * NUM_HALVINGS):
        middle = boxes.clip((first + second) / 2)
        at_middle = _kink_distances(net, middle)
        if at_middle is None:
            return
        same = (at_middle.gather(1, chosen) > 0) == was_above
        same = same.view(*first.shape[:2], *axes)
        first, second = torch.where(same, middle, first), torch.where(same, second, middle)
        if halving % 6 == 5:
            yield middle
    yield first
    yield second


def _kink_distances(net: nn.Module, points: Tensor) -> Tensor | None:
    with torch.no_grad(), Kinks() as kinks:
        net(points.flatten(0, 1))
    return torch.cat(kinks.distances, dim=1) if kinks.distances else None
