"""Explanations as one writes them with PyTorch alone, to compare those of the library with."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

Run = Callable[[Tensor], Tensor]
DRAWS, STEPS, WINDOW, SIGMA = 200, 50, 4, 0.1


def behind_embedding(net: nn.Module, x: Tensor) -> tuple[Run, Tensor]:
    """The net as a function of floating-point features, and the features of some samples."""
    if x.is_floating_point():
        return net, x
    table = next(one for one in net.modules() if isinstance(one, nn.Embedding))

    def run(features: Tensor) -> Tensor:
        hook = table.register_forward_hook(lambda module, given, output: features)
        try:
            return net(x[:1].expand(len(features), -1))
        finally:
            hook.remove()

    return run, table(x).detach()


def gradient(run: Run, features: Tensor, y: Tensor) -> Tensor:
    features = features.clone().requires_grad_()
    logits = run(features).gather(1, y[:, None]).sum()
    return torch.autograd.grad(logits, features)[0]


def smoothed(run: Run, features: Tensor, y: Tensor) -> Tensor:
    draws = (features + SIGMA * torch.randn_like(features) for _ in range(DRAWS))
    return sum((gradient(run, one, y) for one in draws), torch.zeros_like(features)) / DRAWS


def integrated(run: Run, features: Tensor, y: Tensor) -> Tensor:
    """Sum gradients on the line from zero, at the points of Gauss and Legendre.

    Transformers jump on this line, at several points, so that another rule gives another map.
    """
    total = torch.zeros_like(features)
    for point, weight in zip(*np.polynomial.legendre.leggauss(STEPS), strict=True):
        total += weight / 2 * gradient(run, (1 + point) / 2 * features, y)
    return features * total


def occluded(run: Run, features: Tensor, y: Tensor, axes: list[int]) -> Tensor:
    """Cover windows that lie side by side, one after the other."""
    label = y[:, None]
    heat = torch.zeros_like(features)
    lengths = [range(0, features.shape[axis], WINDOW) for axis in axes]
    with torch.no_grad():
        plain = run(features).gather(1, label)
        for corner in torch.cartesian_prod(*map(torch.tensor, lengths)).reshape(-1, len(axes)):
            place: list[slice] = [slice(None)] * features.ndim
            for axis, start in zip(axes, corner.tolist(), strict=True):
                place[axis] = slice(start, start + WINDOW)
            covered = features.clone()
            covered[tuple(place)] = 0
            drop = (plain - run(covered).gather(1, label)).reshape(-1, *[1] * (features.ndim - 1))
            heat[tuple(place)] = drop.expand_as(heat[tuple(place)])
    return heat


def guided(net: nn.Module, run: Run, features: Tensor, y: Tensor) -> Tensor | None:
    """Only positive gradients pass a ReLU; None for nets with other activations."""
    if any(isinstance(one, nn.GELU | nn.SiLU) for one in net.modules()):
        return None
    hooks = [
        one.register_full_backward_hook(lambda module, given, out: (given[0].clamp(min=0),))
        for one in net.modules()
        if isinstance(one, nn.ReLU)
    ]
    try:
        return gradient(run, features, y)
    finally:
        for hook in hooks:
            hook.remove()


def class_activation(name: str, net: nn.Module, x: Tensor, y: Tensor, layer: str) -> Tensor:
    """Grad-CAM or XGrad-CAM of a layer with maps, or with tokens behind a few others."""
    kept: list[Tensor] = []

    def keep(module: nn.Module, given: object, output: Tensor | tuple[Tensor, ...]) -> None:
        kept.append(output[0] if isinstance(output, tuple) else output)

    hook = net.get_submodule(layer).register_forward_hook(keep)
    logits = net(x).gather(1, y[:, None]).sum()
    hook.remove()
    pair = [kept[0].detach(), torch.autograd.grad(logits, kept[0])[0]]
    if kept[0].ndim == 3:
        side = math.isqrt(kept[0].shape[1])
        pair = [one[:, -side * side :].transpose(1, 2).unflatten(2, (side, side)) for one in pair]
    maps, slopes = pair
    weights = slopes.mean(dim=(2, 3))
    if name == "xgrad_cam":
        weights = (maps * slopes).sum(dim=(2, 3)) / maps.sum(dim=(2, 3))
    heat = (weights[:, :, None, None] * maps).sum(dim=1, keepdim=True).clamp(min=0)
    return nn.functional.interpolate(heat, size=x.shape[2:], mode="bilinear")


def explain_plainly(
    name: str, net: nn.Module, x: Tensor, y: Tensor, axes: list[int], layer: str
) -> Tensor | None:
    """The attribution by its definition; None for methods that are more than a few lines.

    Args:
        name: Name of the explainer.
        net: The model, in test mode.
        x: Samples.
        y: Explained classes.
        axes: Axes of places, along which a window moves.
        layer: Layer of a class activation map.
    """
    if name in ("grad_cam", "xgrad_cam"):
        return class_activation(name, net, x, y, layer)
    run, features = behind_embedding(net, x)
    if name == "input_gradient":
        return gradient(run, features, y)
    if name == "input_times_gradient":
        return features * gradient(run, features, y)
    if name == "smooth_grad":
        return smoothed(run, features, y)
    if name == "integrated_gradients":
        return integrated(run, features, y)
    if name == "occlusion":
        return occluded(run, features, y, axes)
    return guided(net, run, features, y) if name == "guided_backprop" else None
