"""Outputs of layers as maps ``(N, C, H, W)``: which axes are places, and where each place lies.

Convolutional nets give ``(N, C, H, W)``. Others give ``(N, H, W, C)``, or tokens ``(N, T, C)`` with
a class token before those of the places. The shape alone does not tell them apart: attention
weights ``(N, heads, T, T)`` look like maps, too. So the model is tried on drawn images. A half of
one is replaced, and a map must change most in that half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from rightreasons.core.checks import check_choice
from rightreasons.errors import InvalidSettingError

__all__ = [
    "LAYOUTS",
    "Layout",
    "Reshape",
    "checked_reshape",
    "choose_layout",
    "draw_halves",
    "layout_named",
    "score_layouts",
]

Kind = Literal["channels_first", "channels_last", "tokens"]
LAYOUTS: tuple[Kind, ...] = ("channels_first", "channels_last", "tokens")
"""Names of the axes that are places: the last two, those in the middle, or one for all."""

Reshape = Kind | Callable[[Tensor], Tensor]
"""How outputs become maps: by a name, or a function that moves and drops entries, nothing else."""

CLEAR = 0.6
"""The share of a change in the right half from which a layout counts as seen; 0.5 is chance."""
LEAD = 0.05
"""How much larger that share must be than under any other layout."""
MOST_OTHER_TOKENS = 64
DRAWS = 3
"""Images that are drawn: a unit may be dead for one of them."""
_CHANNELS_FIRST = (
    *(nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.InstanceNorm2d),
    *(nn.MaxPool2d, nn.AvgPool2d, nn.LPPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d),
    *(nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.ConstantPad2d, nn.Upsample),
)
_ACTIVATIONS = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU),
    *(nn.Mish, nn.Softplus, nn.Softsign, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.Tanh),
    *(nn.Sigmoid, nn.LogSigmoid, nn.Threshold),
)


@dataclass(frozen=True)
class Layout:
    """Where the places of a layer's output are.

    Args:
        kind: ``"channels_first"``, ``"channels_last"`` or ``"tokens"``, place after place.
        size: Height and width in places.
        others: Number of tokens before those of the places, such as a class token.

    Example:
        >>> Layout("tokens", (2, 3), others=1)(torch.zeros(4, 7, 5)).shape
        torch.Size([4, 5, 2, 3])
    """

    kind: Kind
    size: tuple[int, int]
    others: int = 0

    def __call__(self, output: Tensor) -> Tensor:
        """Make maps ``(N, C, H, W)`` of a layer's output, or of a gradient at it."""
        if self.kind == "channels_first":
            return output
        if self.kind == "channels_last":
            return output.movedim(-1, 1)
        places = output[:, self.others :].movedim(-1, 1)
        return places.reshape(*places.shape[:2], *self.size)

    @property
    def num_places(self) -> int:
        """Number of places of a map."""
        return self.size[0] * self.size[1]


def checked_reshape(reshape: object) -> Reshape | None:
    """Give ``reshape`` back if it is None, a function, or a name in `LAYOUTS`."""
    if reshape is None or callable(reshape):
        return reshape
    return check_choice("reshape", reshape, (*LAYOUTS,))


def layout_named(reshape: Reshape, output: Tensor, x: Tensor) -> Callable[[Tensor], Tensor]:
    """The function that makes maps of outputs like this one, as the user said.

    Args:
        reshape: A name in `LAYOUTS`, or the function itself.
        output: Output of the layer.
        x: The images ``(N, C, H, W)``, whose shape the grid of tokens has.
    """
    if callable(reshape):
        return _checked_maps(reshape, len(x))
    image = x.shape[2:]
    found = [one for one in _layouts_for(output, image) if one.kind == reshape]
    if not found:
        raise InvalidSettingError(
            f"Expected an output that can be read as {reshape!r} for images of {image[0]} x "
            f"{image[1]}, but got shape {tuple(output.shape)}. Give `reshape` a function that "
            "makes maps (N, C, H, W) of it."
        )
    return min(found, key=lambda one: one.others)


def _checked_maps(reshape: Callable[[Tensor], Tensor], size: int) -> Callable[[Tensor], Tensor]:
    def make_maps(output: Tensor) -> Tensor:
        maps = reshape(output)
        if not isinstance(maps, Tensor) or maps.ndim != 4 or len(maps) != size:
            got = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
            raise InvalidSettingError(
                f"Expected `reshape` to make maps (N, C, H, W) for {size} samples, but for an "
                f"output of shape {tuple(output.shape)} it made {got}."
            )
        return maps

    return make_maps


def draw_halves(x: Tensor) -> Iterator[Tensor]:
    """Drawn images, each with copies whose upper, lower, left and right half are drawn anew.

    The draws are always the same: squares of random colours under noise. They depend on the shape
    of the images and on their range alone. The range ends at 1, 4, 16 and so on, and begins at zero
    or as far below. So hardly any two samples of one kind have different ones.

    Args:
        x: Images ``(N, C, H, W)`` as the model takes them.

    Yields:
        ``(5, C, H, W)`` for each of `DRAWS` images, the image itself first.
    """
    x = x.detach()
    low, high = (float(end) for end in torch.aminmax(x))
    scale = 1.0
    while scale < max(-low, high) < math.inf:
        scale *= 4
    low = -scale if low < 0 else 0.0
    generator = torch.Generator().manual_seed(0)  # no draw of the user's is changed
    height, width = x.shape[2:]
    top, left = height // 2, width // 2
    halves = ((1, 0, top), (1, height - top, top), (2, 0, left), (2, width - left, left))
    for _ in range(DRAWS):
        squares = torch.rand(2, x.shape[1], 4, 4, generator=generator)
        colours = nn.functional.interpolate(squares, size=(height, width), mode="nearest")
        noise = torch.rand(colours.shape, generator=generator)
        image, other = (low + (scale - low) * (colours + noise) / 2).to(x)
        copies = image.expand(5, *image.shape).clone()
        for copy, half in zip(copies[1:], halves, strict=True):
            copy.narrow(*half)[:] = other.narrow(*half)
        yield copies


def score_layouts(output: Tensor, image: Sequence[int]) -> dict[Layout, float | None]:
    """The layouts that an output for one of `draw_halves` may have, and shares of its change.

    Args:
        output: Output of a layer, ``(5, ...)``.
        image: Height and width of the images.

    Returns:
        The share of the change in the right half under each layout, None where nothing changes.
    """
    return {one: _share_in_place(one(output)) for one in _layouts_for(output, image)}


def choose_layout(
    module: nn.Module, scores: Sequence[Mapping[Layout, float | None]], known: Sequence[Layout]
) -> Layout | None:
    """Tell the places of a layer's output from `score_layouts`; None if that cannot be told.

    Args:
        module: The layer. Convolutions and their like are known to have channels first, and an
            activation leaves places where they are.
        scores: Those of all draws. A draw under which nothing changes does not count.
        known: Layouts of earlier outputs of the same shape. The first counts if this output does
            not say anything else: deep layers spread a change over the image.
    """
    if isinstance(module, _ACTIVATIONS) and known:
        return known[-1]
    means: dict[Layout, float] = {}
    for layout in scores[0]:
        if isinstance(module, _CHANNELS_FIRST) and layout.kind == "channels_first":
            return layout
        shares = [share for one in scores if (share := one[layout]) is not None]
        means[layout] = sum(shares) / len(shares) if shares else 0.5
    if not means:
        return None
    best = max(means, key=means.__getitem__)
    others = [mean for one, mean in means.items() if one != best]
    if means[best] >= CLEAR and means[best] >= max(others, default=0.0) + LEAD:
        return best
    return known[0] if known else None


def _layouts_for(output: Tensor, image: Sequence[int]) -> Iterator[Layout]:
    """All layouts that the shape of an output allows."""
    shape = tuple(output.shape)
    if len(shape) == 4:
        yield Layout("channels_first", (shape[2], shape[3]))
        yield Layout("channels_last", (shape[1], shape[2]))
    elif len(shape) == 3:
        for height, width in _grids(image):
            others = shape[1] - height * width
            if 0 <= others <= MOST_OTHER_TOKENS and height * width > 1:
                yield Layout("tokens", (height, width), others)


def _grids(image: Sequence[int]) -> list[tuple[int, int]]:
    """The grids of square patches that an image can be cut into."""
    height, width = image
    sides = range(1, max(height, width) + 1)
    grids = {(height // side, width // side) for side in sides}
    grids |= {(-(-height // side), -(-width // side)) for side in sides}
    return sorted(grids)


def _share_in_place(maps: Tensor) -> float | None:
    """The share of the change that lies in the half that was replaced; the worse of both axes.

    None if nothing changes, such as behind a unit that is dead for these images.
    """
    change = (maps[1:] - maps[:1]).abs().float().sum(dim=1)
    shares: list[float | None] = []
    for axis, (first, second) in ((1, change[:2]), (2, change[2:])):
        length = change.shape[axis]
        if length == 1:
            continue
        # 1 in the first half, 0 in the second; the row in the middle belongs to both.
        place = torch.linspace(1, -1, length, device=change.device).sign() / 2 + 0.5
        lines, more = (half.sum(dim=2 - axis) for half in (first, second))
        total = float((lines + more).sum())
        inside = float((lines * place).sum() + (more * (1 - place)).sum())
        shares.append(inside / total if 0 < total < math.inf else None)
    found = [share for share in shares if share is not None]
    return min(found, default=0.5) if len(found) == len(shares) else None
