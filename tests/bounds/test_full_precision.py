import torch
from torch import nn

from rightreasons.bounds import Box, gradient_box, lowest_margins, output_bounds, output_box
from rightreasons.bounds.box import full_precision


def test_autocast_is_off_inside_and_on_again_outside():
    x, layer = torch.rand(2, 3), nn.Linear(3, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with full_precision(x):
            assert layer(x).dtype == torch.float32
        assert layer(x).dtype == torch.bfloat16
    with full_precision(x):
        assert layer(x).dtype == torch.float32


def test_bounds_are_the_same_under_autocast():
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    x, y = torch.rand(2, 3), torch.tensor([0, 1])
    box = Box(x, torch.full_like(x, 0.1))

    def everything():
        return [
            output_bounds(model, x, x + 0.1).upper,
            output_box(model, box).radius,
            gradient_box(model, box, y, target="loss")[1].center,
            lowest_margins(model, box, y),
        ]

    plain = everything()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = everything()
    for one, other in zip(plain, cast, strict=True):
        assert torch.equal(one, other)
