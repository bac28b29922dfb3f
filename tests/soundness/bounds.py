"""One net of the campaign: its bounds by both methods, and all values that lie outside of them.

What is compared, without any tolerance:

- The bounds are those with ``outward=True``, computed in the net's own precision.
- The values are the net's own: in its own precision, and for float32 in float64 as well, with the
  same weights at the same points.
- A value that is NaN counts as outside, unless its bounds are infinite.
- The library may refuse a net since PyTorch's own gradient is wrong, as behind some permuted views.
  Then layers that copy their input must give another gradient, and these are attacked.

The boxes of training, which are computed for real numbers (``outward=False``), are compared in
float64, for usual weights, with a tolerance of `PLAIN_TOLERANCE` of the largest bound.
"""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rightreasons.bounds import (
    METHODS,
    Box,
    gradient_box,
    input_gradient_bounds,
    lowest_margins,
    margin_bounds,
    output_bounds,
    output_box,
)
from rightreasons.errors import CertificateError, UnsupportedLayerError
from rightreasons.types import Target
from tests.soundness.attack import Boxes, points_in, values_at
from tests.soundness.nets import Draw, all_kinds, kinds_in, with_copies

NUM_BOXES = 6
PLAIN_TOLERANCE = 1e-6
RADII = (0.0, 1e-6, 1e-3, 0.03, 0.3, 1.0, 10.0)
LARGEST_SEED = 2**31


class Claim(NamedTuple):
    """Bounds by one function: of outputs, of margins or of gradients, ``(N, ...)``."""

    name: str
    about: str
    lower: Tensor
    upper: Tensor
    tolerance: float = 0.0


@dataclass
class Finding:
    """What was found out about one net."""

    number: int
    dtype: str
    kinds: list[str] = field(default_factory=list)
    num_points: int = 0
    num_comparisons: int = 0
    methods: list[str] = field(default_factory=list)
    escapes: list[str] = field(default_factory=list)
    is_misled: bool = False  # refused, since PyTorch gives two gradients for one function
    refused: str | None = None


def check_net(seed: int, number: int, *, effort: int = 12) -> Finding:
    """Draw a net, bound it over several boxes and attack the bounds.

    Args:
        seed: Random seed of the campaign.
        number: Number of the net. It chooses the layer kind that the net has for certain.
        effort: Number of restarts of each kind of search.
    """
    start = (seed * 1_000_003 + number) % LARGEST_SEED
    torch.manual_seed(start)
    kinds = all_kinds()
    net, shape, num_classes = Draw(start).net(kinds[number % len(kinds)])
    # Every kind comes in both precisions: the number of rounds decides, and not the kind.
    dtype = (torch.float32, torch.float64)[number // len(kinds) % 2]
    net = net.to(dtype)
    boxes = draw_boxes(random.Random(start), shape, num_classes, dtype)
    target = list(Target)[start % len(Target)]
    finding = Finding(number, str(dtype).removeprefix("torch."))
    try:
        finding.kinds = sorted(kinds_in(net, boxes.lower))
        columns = _draw_columns(boxes)
        try:
            claims = _all_claims(net, boxes, target, columns)
        except CertificateError:
            copying = with_copies(net)
            if not _gradients_differ(net, copying, boxes, target):
                raise
            finding.is_misled, net = True, copying
            claims = _all_claims(net, boxes, target, columns)
    except UnsupportedLayerError as error:
        finding.refused = str(error)
        return finding
    except CertificateError as error:  # the library's own check was faster
        finding.escapes.append(f"refused by the library: {error}")
        return finding
    finding.methods = list(METHODS)
    own = copy.deepcopy(net).eval()
    points = points_in(own, boxes, target, effort=effort)
    finding.num_points = points.shape[0] * points.shape[1]
    precisions = {dtype, torch.float64}
    for precision in sorted(precisions, key=str):
        values = _values(own.to(precision), points.to(precision), boxes.y, target)
        values["columns"] = values["gradient"].flatten(2)[:, :, columns]
        for method, claimed in claims.items():
            for claim in claimed:
                if claim.tolerance and precision != torch.float64:
                    continue
                value = values[claim.about]
                finding.num_comparisons += value.numel()
                finding.escapes += _escapes(claim, value, method, precision)
    return finding


def draw_boxes(
    source: random.Random, shape: tuple[int, ...], num_classes: int, dtype: torch.dtype
) -> Boxes:
    """Boxes from a point to all that is valid, around small and large numbers, some masked."""
    x = torch.randn(NUM_BOXES, *shape, dtype=dtype)
    radius = torch.rand_like(x)
    for row in range(NUM_BOXES):
        x[row] *= source.choice((0.01, 1.0, 1.0, 30.0))
        radius[row] *= source.choice(RADII)
    is_free = torch.rand_like(x) < source.choice((0.3, 1.0, 1.0))  # a mask: only some move
    lower = torch.where(is_free & (torch.rand_like(x) < 0.9), x - radius, x)
    upper = torch.where(is_free & (torch.rand_like(x) < 0.9), x + radius, x)
    lower[0], upper[0] = torch.where(is_free[0], 0.0, x[0]), torch.where(is_free[0], 1.0, x[0])
    return Boxes(lower, upper, torch.randint(num_classes, (NUM_BOXES,)))


def _all_claims(
    net: nn.Module, boxes: Boxes, target: Target, columns: Tensor
) -> dict[str, list[Claim]]:
    return {method: list(claims_of(net, boxes, target, method, columns)) for method in METHODS}


def _gradients_differ(net: nn.Module, other: nn.Module, boxes: Boxes, target: Target) -> bool:
    """Whether autograd gives two gradients where the outputs are the same to the bit."""
    points = boxes.between(torch.full_like(boxes.lower, 0.5).unsqueeze(1))
    first, second = (
        values_at(copy.deepcopy(one).eval(), points, boxes.y, target) for one in (net, other)
    )
    return torch.equal(first[0], second[0]) and not torch.allclose(first[1], second[1])


def _draw_columns(boxes: Boxes) -> Tensor:
    """Some features in any order, now and then one of them twice."""
    num_features = boxes.lower[0].numel()
    count = int(torch.randint(1, num_features + 1, ()))
    if count % 2:
        return torch.randperm(num_features)[:count]
    return torch.randint(0, num_features, (count,))


def claims_of(
    net: nn.Module, boxes: Boxes, target: Target, method: str, columns: Tensor
) -> Iterator[Claim]:
    """The bounds by all public functions."""
    lower, upper, y = boxes
    settings = {"method": method}
    with torch.no_grad():
        outputs = output_bounds(net, lower, upper, **settings)
        gradients = input_gradient_bounds(net, lower, upper, y, target=target, **settings)
        chosen = input_gradient_bounds(
            net, lower, upper, y, target=target, columns=columns, **settings
        )
        margins = margin_bounds(net, lower, upper, y, **settings)
        yield Claim("output_bounds", "output", *outputs)
        yield Claim("input_gradient_bounds", "gradient", *gradients)
        yield Claim("input_gradient_bounds(columns)", "columns", *chosen)
        yield Claim("margin_bounds", "margin", margins, torch.full_like(margins, torch.inf))
        if not all(bool(torch.isfinite(end).all()) for end in (*outputs, *gradients)):
            return  # the functions for training say nothing about overflow
        box = Box.between(lower, upper, outward=True)
        logits, slopes = gradient_box(net, box, y, target=target, outward=True, **settings)
        least = lowest_margins(net, box, y, outward=True, **settings)
        yield Claim("output_box", "output", *output_box(net, box, outward=True, **settings).ends())
        yield Claim("gradient_box", "output", *logits.ends(outward=True))
        yield Claim("gradient_box", "gradient", *slopes.ends(outward=True))
        yield Claim("lowest_margins", "margin", least, torch.full_like(least, torch.inf))
        if lower.dtype == torch.float64 and _is_usual(net):
            box = Box.between(lower, upper)
            logits, slopes = gradient_box(net, box, y, target=target, **settings)
            for about, plain in (("output", logits), ("gradient", slopes)):
                size = PLAIN_TOLERANCE * (1 + float(plain.magnitude.max()))
                yield Claim("gradient_box for real numbers", about, *plain.ends(), size)


def _values(net: nn.Module, points: Tensor, y: Tensor, target: Target) -> dict[str, Tensor]:
    outputs, gradients = values_at(net, points, y, target)
    index = y[:, None, None].expand(-1, outputs.shape[1], 1)
    margins = outputs.gather(2, index) - outputs
    return {"output": outputs, "gradient": gradients, "margin": margins}


def _escapes(claim: Claim, values: Tensor, method: str, precision: torch.dtype) -> Iterator[str]:
    lower, upper = (end.to(values.dtype).unsqueeze(1) for end in (claim.lower, claim.upper))
    beyond = torch.maximum(lower - values, values - upper) - claim.tolerance
    says_something = torch.isfinite(lower) | torch.isfinite(upper)
    outside = (beyond > 0) | (torch.isnan(values) & says_something)
    if not bool(outside.any()):
        return
    row = int(outside.flatten(1).any(dim=1).nonzero()[0])
    yield (
        f"{claim.name}(method={method!r}), values in {str(precision).removeprefix('torch.')}: "
        f"{int(outside.sum())} outside, by up to {float(beyond.nan_to_num().max()):.3g}, first in "
        f"box {row}"
    )


def _is_usual(net: nn.Module) -> bool:
    """Whether no weight is so large or small that rounding may cancel what matters."""
    return all(1e-3 < float(p.abs().max()) < 30 for p in net.parameters() if p.numel())
