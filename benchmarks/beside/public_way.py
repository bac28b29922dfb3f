"""Steps as the public code of R4 takes them, written from a description of what it does.

None of its code is here. The losses are those that its trainers minimise, on the same net and data.
Two things matter beside speed. The penalties of ``r3``, ``adv_r4`` and ``ibp_ex`` have no gradient
there, so that those steps do less than they should. And bounds go through all features, with a
product for each sign of the weights.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

import rightreasons as rr
from beside.by_hand import Loss, layers_of

WEIGHT = 10.0


def first_order(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient that ``backward()`` leaves at the input; it fills the weights' ``.grad`` too."""
    x = x.detach().clone().requires_grad_()
    functional.cross_entropy(model(x), y).backward()
    if x.grad is None:
        raise RuntimeError("Expected a gradient at the input, but got none.")
    return x.grad.data


def r3(model: nn.Module, batch: rr.Batch) -> Tensor:
    penalty = (batch.mask * first_order(model, batch.x, batch.y)).square().sum()
    model.zero_grad()
    return functional.cross_entropy(model(batch.x), batch.y) + WEIGHT * penalty


def adv_r4(model: nn.Module, batch: rr.Batch) -> Tensor:
    point, reach = batch.x, 0.5 * batch.mask
    low, high = batch.x.min(), batch.x.max()
    for _ in range(10):
        climbed = first_order(model, point, batch.y).sign()
        point = (point + reach * climbed).clamp(batch.x - reach, batch.x + reach).clamp(low, high)
    penalty = (batch.mask * first_order(model, point, batch.y)).abs().sum()
    model.zero_grad()
    return functional.cross_entropy(model(batch.x), batch.y) + WEIGHT * penalty


def changes(
    model: nn.Module, batch: rr.Batch, number: int, reach: Tensor, join: Callable[..., Tensor]
) -> Tensor:
    """The change of the gradient at random points, one pass after the other."""

    def gradient(x: Tensor) -> Tensor:
        x = x.detach().clone().requires_grad_()
        loss = functional.cross_entropy(model(x), batch.y)
        return torch.autograd.grad(loss, x, create_graph=True)[0]

    here = gradient(batch.x)
    found = [gradient(batch.x + reach * torch.rand_like(batch.x)) for _ in range(number)]
    joined = join(torch.stack([(one - here).abs() * batch.mask for one in found]))
    penalty = joined.norm() / batch.mask.count_nonzero()
    return functional.cross_entropy(model(batch.x), batch.y) + WEIGHT * penalty


def smooth_r3(model: nn.Module, batch: rr.Batch) -> Tensor:
    everywhere = torch.full_like(batch.mask, 0.1)
    return changes(model, batch, 7, everywhere, lambda stack: stack.mean(dim=0))


def rand_r4(model: nn.Module, batch: rr.Batch) -> Tensor:
    return changes(model, batch, 10, 0.5 * batch.mask, lambda stack: stack.amax(dim=0))


def bounds(model: nn.Module, batch: rr.Batch, epsilon: float) -> list[tuple[Tensor, Tensor]]:
    """Lower and upper ends before each layer and at the end, with both signs of the weights."""
    reach = (epsilon * batch.mask).expand_as(batch.x)
    low, high = (batch.x - reach).flatten(1), (batch.x + reach).flatten(1)
    ends = [(low, high)]
    for layer in layers_of(model):
        if isinstance(layer, nn.Linear):
            low, high = product(low, high, layer.weight, layer.bias)
        else:
            low, high = low.relu(), high.relu()
        ends.append((low, high))
    return ends


def product(low: Tensor, high: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    up, down = weight.clamp(min=0), weight.clamp(max=0)
    return (
        functional.linear(low, up, bias) + functional.linear(high, down),
        functional.linear(high, up, bias) + functional.linear(low, down),
    )


def ibp_ex(model: nn.Module, batch: rr.Batch) -> Tensor:
    low, high = bounds(model, batch, 0.25)[-1]
    is_label = functional.one_hot(batch.y, low.shape[1])
    worst = low.softmax(dim=-1) * is_label + high.softmax(dim=-1) * (1 - is_label)
    task = functional.cross_entropy(model(batch.x), batch.y)
    return task + functional.cross_entropy(worst, batch.y)


def cert_r4(model: nn.Module, batch: rr.Batch) -> Tensor:
    ends = bounds(model, batch, 0.5)
    low, high = ends[-1]
    is_label = functional.one_hot(batch.y, low.shape[1]).float()
    powers = (low.exp(), high.exp())
    least = powers[0] / (powers[0] + powers[1].sum(dim=1, keepdim=True) - powers[1])
    most = powers[1] / (powers[1] + powers[0].sum(dim=1, keepdim=True) - powers[0])
    low, high = least - is_label, most - is_label
    for layer, (before, after) in zip(layers_of(model)[::-1], ends[-2::-1], strict=True):
        if isinstance(layer, nn.Linear):
            low, high = product(low, high, layer.weight.T, None)
        else:
            passes = ((before > 0).float(), (after > 0).float())
            ways = torch.stack([end * one for end in (low, high) for one in passes])
            low, high = ways.amin(dim=0), ways.amax(dim=0)
    mask = batch.mask.expand_as(batch.x).flatten(1)
    penalty = ((mask * low).abs() + (mask * high).abs()).sum() / batch.x.numel()
    return functional.cross_entropy(model(batch.x), batch.y) + WEIGHT * penalty


PUBLIC: dict[str, Loss] = {
    "r3": r3,
    "smooth_r3": smooth_r3,
    "rand_r4": rand_r4,
    "adv_r4": adv_r4,
    "ibp_ex": ibp_ex,
    "cert_r4": cert_r4,
}
SAME_NUMBERS = {
    "smooth_r3": {"num_samples": 7},
    "rand_r4": {"num_samples": 10},
    "adv_r4": {"num_steps": 10},
}
"""Settings with which a recipe takes as many draws and steps as the public code does."""
