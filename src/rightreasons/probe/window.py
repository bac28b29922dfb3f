r"""The gradients of a pass, and of masked pixels alone through a net's first convolutions.

A penalty on masked pixels reads the gradient of a few pixels only. Through convolutions these
depend on a small window of each layer's gradient, which grows by the size of a kernel from layer to
layer. `Trunk` is the chain of first layers in which that window is small. Behind the trunk autograd
gives the gradient as usual. Through the trunk it is carried back on the windows, sample by sample
at their own places.

The layers of a trunk are piecewise linear. Where the gradient passes is a constant then, so that
values and derivatives equal those of autograd.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.core.model_modes import (
    alteration,
    refuse_dead_ends,
    translate_autograd_errors,
)
from rightreasons.errors import DoubleBackwardError
from rightreasons.types import Target

__all__ = ["DifferentiablePass", "Trunk", "Window", "find_trunk"]

LARGEST_SHARE = 0.5
"""Windows that cover more of an activation than this are not worth their bookkeeping."""


class Window(NamedTuple):
    """A rectangle of one size at a place of its own in each sample; it may leave the image.

    Args:
        start: First row and first column, ``(N, 2)``.
        height: Number of rows.
        width: Number of columns.
    """

    start: Tensor
    height: int
    width: int

    @classmethod
    def around(cls, mask: Tensor) -> Window:
        """The smallest window that holds the masked pixels of every sample, ``(N, C, H, W)``."""
        starts, sizes = [], []
        for across in (3, 2):
            masked = (mask != 0).any(dim=1).any(dim=across - 1)  # (N, L)
            first = masked.long().argmax(dim=1)
            last = masked.shape[1] - 1 - masked.flip(1).long().argmax(dim=1)
            size = int(torch.where(masked.any(dim=1), last - first + 1, 1).max())
            starts.append(first.clamp(max=masked.shape[1] - size))
            sizes.append(size)
        return cls(torch.stack(starts, dim=1), *sizes)

    def share_of(self, size: torch.Size) -> float:
        """The window's area as a share of an activation's, ``(..., H, W)``."""
        return self.height * self.width / (size[-2] * size[-1])

    def positions(self, size: torch.Size) -> tuple[Tensor, Tensor]:
        """Indices in the flattened image, and which of them lie inside, ``(N, 1, h * w)``."""
        steps = (torch.arange(one, device=self.start.device) for one in (self.height, self.width))
        rows, columns = (self.start[:, [axis]] + step for axis, step in enumerate(steps))
        inside = [(one >= 0) & (one < size[axis]) for one, axis in ((rows, -2), (columns, -1))]
        rows, columns = rows.clamp(0, size[-2] - 1), columns.clamp(0, size[-1] - 1)
        index = rows[:, :, None] * size[-1] + columns[:, None, :]
        is_inside = inside[0][:, :, None] & inside[1][:, None, :]
        return index.flatten(1)[:, None], is_inside.flatten(1)[:, None]

    def cut(self, values: Tensor) -> Tensor:
        """The window of ``(N, C, H, W)``, with zeros outside of the image."""
        index, inside = self.positions(values.shape)
        found = values.flatten(2).gather(2, index.expand(-1, values.shape[1], -1))
        if not bool(inside.all()):
            found = found * inside.to(found)
        return found.view(*values.shape[:2], self.height, self.width)

    def paste(self, values: Tensor, size: torch.Size) -> Tensor:
        """Zeros of a size with ``values`` in the window, which lies inside of it."""
        index, _ = self.positions(size)
        zeros = values.new_zeros(*values.shape[:2], size[-2] * size[-1])
        pasted = zeros.scatter(2, index.expand(-1, values.shape[1], -1), values.flatten(2))
        return pasted.view(*values.shape[:2], *size[-2:])

    def after(self, layer: nn.Module) -> Window:
        """What of the layer's output depends on the window of its input."""
        if isinstance(layer, nn.Conv2d):
            back = [
                pad - (side - 1) for pad, side in zip(_pads(layer), layer.kernel_size, strict=True)
            ]
            start = self.start + self.start.new_tensor(back)
            height, width = (
                size + side - 1 for size, side in zip(self[1:], layer.kernel_size, strict=True)
            )
            return Window(start, height, width)
        if isinstance(layer, nn.MaxPool2d | nn.AvgPool2d):
            side = _side(layer)
            height, width = (-(-(size - 1) // side) + 1 for size in self[1:])
            return Window(self.start.div(side, rounding_mode="floor"), height, width)
        return self

    def cells(self, side: int) -> Window:
        """The pixels of the pooling cells in this window of a pooling's output."""
        return Window(self.start * side, self.height * side, self.width * side)


@dataclass(frozen=True)
class Trunk:
    """The first layers of a net, through which a window of the gradient is carried back.

    Args:
        names: The layers' names in ``named_modules``, in their order.
        layers: The layers.
        windows: The window of the input, and of each layer's output.
    """

    names: tuple[str, ...]
    layers: tuple[nn.Module, ...]
    windows: tuple[Window, ...]

    def input_gradient(self, gradient: Tensor, x: Tensor, outputs: Mapping[str, Tensor]) -> Tensor:
        """The gradient at the input, with zeros outside of the window.

        Args:
            gradient: The gradient at the last layer's output; may carry a graph.
            x: The input, ``(N, C, H, W)``.
            outputs: The layers' outputs for ``x``, by name.
        """
        values = [x, *(outputs[name] for name in self.names)]
        found = self.windows[-1].cut(gradient)
        for number in reversed(range(len(self.layers))):
            layer, window = self.layers[number], self.windows[number]
            before, after = (one.detach() for one in values[number : number + 2])
            if isinstance(layer, nn.ReLU):
                found = found * (window.cut(after) > 0)
            elif isinstance(layer, nn.Conv2d):
                sides = [side - 1 for side in layer.kernel_size]
                found = functional.conv_transpose2d(found, layer.weight, padding=sides)
                found = _inside(found, window, before.shape)
            elif isinstance(layer, nn.MaxPool2d | nn.AvgPool2d):
                found = _back_through_pool(layer, found, before, window, self.windows[number + 1])
        return self.windows[0].paste(found, x.shape)


@dataclass
class DifferentiablePass:
    """The tensors of a pass, and the gradients that were taken of it.

    A probe and its masked features share it. If the features held the probe, which holds them, the
    graph of a finished step would stay in memory until the garbage collector finds the cycle.
    """

    logits: Tensor
    y: Tensor
    features: Tensor
    first_output: Tensor | None
    create_graph: bool
    gradients: dict[Target, Tensor] = field(default_factory=dict)
    trunk: Trunk | None = None
    trunk_outputs: Mapping[str, Tensor] = field(default_factory=dict)

    def gradient(self, target: Target) -> Tensor:
        """The gradient of a target for each sample at the features; computed once."""
        if target not in self.gradients:
            if not self.features.requires_grad:
                raise DoubleBackwardError(
                    "Expected a probe made with `needs_gradient=True` before asking for gradients. "
                    "A term or metric that reads `probe.gradient` sets `needs_gradient = True`."
                )
            self.gradients[target] = self._gradient_at(self.features, target)
        return self.gradients[target]

    def gradient_at_net_input(self, target: Target) -> Tensor:
        """The gradient at the first layer's output in a split net, else at the features.

        With a trunk, only the window around the masks has its gradient.
        """
        if self.first_output is None:
            return self.gradient(target)
        behind = self._gradient_at(self.first_output, target)
        if self.trunk is None:
            return behind
        return self.trunk.input_gradient(behind, self.features, self.trunk_outputs)

    def _gradient_at(self, point: Tensor, target: Target) -> Tensor:
        if not self.logits.requires_grad:
            raise DoubleBackwardError(
                "Expected logits that depend on the input, but the model cuts the graph. Remove "
                "`detach()`, `torch.no_grad()` or `torch.inference_mode()` from its forward."
            )
        with translate_autograd_errors(), torch.enable_grad():
            value = target(self.logits, self.y).sum()
            (gradient,) = torch.autograd.grad(
                value, point, create_graph=self.create_graph, retain_graph=True
            )
        if self.create_graph:
            refuse_dead_ends(gradient)
        return gradient


def find_trunk(model: nn.Module, x: Tensor, mask: Tensor | None) -> Trunk | None:
    """Find the first layers in which the masked pixels depend on small windows.

    Args:
        model: The model; only the layers that an `nn.Sequential` begins with are found.
        x: The samples.
        mask: Their masks, which broadcast to ``x``; None has no trunk.

    Returns:
        The trunk; None if there is none with a convolution, or if masks are large.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))
        >>> x, mask = torch.rand(5, 1, 8, 8), torch.zeros(5, 1, 8, 8)
        >>> mask[..., :2, :2] = 1
        >>> find_trunk(net, x, mask).names
        ('0', '1')
    """
    if mask is None or type(model) is not nn.Sequential:
        return None
    if x.ndim != 4 or mask.ndim != 4 or not len(x):
        return None
    if alteration(model) is not None:
        return None
    uses = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    window = Window.around(mask.expand(-1, -1, *x.shape[2:]))
    names, layers, windows, size = [], [], [window], x.shape
    for name, layer in _chain(model):
        size = _output_size(layer, size)
        window = window.after(layer)
        # A layer that is used again would record its last output.
        is_plain = alteration(layer) is None and uses[layer] == 1
        if not is_plain or window.share_of(size) > LARGEST_SHARE:
            break
        names.append(name)
        layers.append(layer)
        windows.append(window)
    if not any(isinstance(layer, nn.Conv2d) for layer in layers):
        return None
    return Trunk(tuple(names), tuple(layers), tuple(windows))


def _chain(model: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers that a net begins with, up to the first that a trunk cannot have."""
    for name, layer in model.named_children():
        if type(layer) is nn.Sequential and alteration(layer) is None:
            yield from (inner := list(_chain(layer, f"{prefix}{name}.")))
            if len(inner) < len(_leaves(layer)):
                return
        elif _is_local(layer):
            yield f"{prefix}{name}", layer
        else:
            return


def _leaves(model: nn.Module) -> list[nn.Module]:
    return [one for one in model.modules() if type(one) is not nn.Sequential]


def _is_local(layer: nn.Module) -> bool:
    """Whether a layer is one of those that `Trunk.input_gradient` knows."""
    if type(layer) in (nn.ReLU, nn.Identity):
        return True
    if type(layer) is nn.Conv2d:
        plain = layer.stride == layer.dilation == (1, 1) and layer.groups == 1
        fits = plain and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return fits and all(
            pad < side for pad, side in zip(_pads(layer), layer.kernel_size, strict=True)
        )
    if type(layer) in (nn.MaxPool2d, nn.AvgPool2d):
        sides = {layer.kernel_size, layer.stride}
        plain = not layer.padding and not layer.ceil_mode and len(sides) == 1
        more = (getattr(layer, "dilation", 1), getattr(layer, "divisor_override", None))
        indices = getattr(layer, "return_indices", False)
        return plain and isinstance(layer.stride, int) and more == (1, None) and not indices
    return False


def _pads(layer: nn.Conv2d) -> tuple[int, ...]:
    return tuple(layer.padding)  # type: ignore[arg-type]


def _side(layer: nn.MaxPool2d | nn.AvgPool2d) -> int:
    return int(layer.stride)  # type: ignore[arg-type]


def _output_size(layer: nn.Module, size: torch.Size) -> torch.Size:
    if isinstance(layer, nn.Conv2d):
        sides = zip(size[-2:], _pads(layer), layer.kernel_size, strict=True)
        return torch.Size([one + 2 * pad - side + 1 for one, pad, side in sides])
    if isinstance(layer, nn.MaxPool2d | nn.AvgPool2d):
        return torch.Size([one // _side(layer) for one in size[-2:]])
    return size


def _inside(values: Tensor, window: Window, size: torch.Size) -> Tensor:
    """The values with zeros where the window leaves the image: padding gets no gradient."""
    _, inside = window.positions(size)
    return values if bool(inside.all()) else values * inside.view(-1, 1, *values.shape[2:])


def _back_through_pool(
    layer: nn.MaxPool2d | nn.AvgPool2d, gradient: Tensor, x: Tensor, window: Window, after: Window
) -> Tensor:
    """Carry a window of the gradient back through cells that do not overlap."""
    side = _side(layer)
    cells = after.cells(side)
    if isinstance(layer, nn.MaxPool2d):
        _, chosen = functional.max_pool2d_with_indices(cells.cut(x), (side, side))
        spread = functional.max_unpool2d(gradient, chosen, (side, side))
    else:
        spread = gradient.repeat_interleave(side, dim=2).repeat_interleave(side, dim=3) / side**2
    return Window(window.start - cells.start, window.height, window.width).cut(spread)
