"""PyTorch's Softplus is the identity above a threshold, and its value jumps down there."""

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.bounds import Box, curve, input_gradient_bounds, output_bounds
from rightreasons.bounds.crown import parallel_lines
from rightreasons.bounds.rule import forward_bounds
from rightreasons.errors import UnsupportedLayerError


def single(layer):
    """A net of one Softplus, read by a second layer with both signs."""
    net = nn.Sequential(nn.Linear(1, 1), layer, nn.Linear(1, 2)).double()
    net[0].weight.data.fill_(1.0)
    net[0].bias.data.zero_()
    net[2].weight.data = torch.tensor([[1.0], [-1.0]]).double()
    net[2].bias.data.zero_()
    return net


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0, -2.0])
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.6, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("outward", [True, False])
def test_values_and_gradients_stay_inside_across_the_jump(beta, threshold, method, outward):
    layer, switch = nn.Softplus(beta, threshold), threshold / beta
    net = single(layer)
    for below, above in ((0.05, 0.05), (1.0, 0.01), (0.01, 1.0), (0.3, 2.0), (0.3, -0.1)):
        lower = torch.tensor([[switch - below]]).double()
        upper = torch.tensor([[switch + above]]).double()
        places = torch.linspace(0, 1, 4001)[:, None].double()
        near = torch.tensor([[switch + step] for step in (-1e-9, 0.0, 1e-9)]).double()
        x = torch.cat([torch.lerp(lower, upper, places), near.clamp(lower, upper)])
        x.requires_grad_()
        values = net(x)
        slack = 0.0 if outward else 1e-9
        found = output_bounds(net, lower, upper, method=method, outward=outward)
        assert bool((values >= found.lower - slack).all() & (values <= found.upper + slack).all())
        (gradient,) = torch.autograd.grad(values[:, 0].sum(), x)
        y = torch.zeros(1, dtype=torch.long)
        slopes = input_gradient_bounds(net, lower, upper, y, method=method, outward=outward)
        assert bool((gradient >= slopes.lower - slack).all())
        assert bool((gradient <= slopes.upper + slack).all())


def test_no_point_escapes_the_bounds_of_random_nets():
    for seed in range(30):
        torch.manual_seed(seed)
        net = nn.Sequential(
            *(nn.Linear(3, 8), nn.Softplus(threshold=1.0)),
            *(nn.Linear(8, 8), nn.Softplus(threshold=1.0), nn.Linear(8, 2)),
        )
        x = torch.randn(4, 3)
        shares = torch.rand(2000, 1, 3)
        shares[:500] = shares[:500].round()
        with torch.no_grad():
            values = net(torch.lerp(x - 0.2, x + 0.2, shares))
        for method in ("ibp", "crown"):
            found = output_bounds(net, x - 0.2, x + 0.2, method=method)
            assert bool((values >= found.lower).all() & (values <= found.upper).all())


def test_lines_enclose_the_curve_and_stay_near_where_it_does_not_jump():
    layer = nn.Softplus(threshold=0.6)
    lower, upper = torch.tensor([[0.0, 0.0]]).double(), torch.tensor([[1.0, 0.5]]).double()
    box = Box.between(lower, upper)
    output = forward_bounds(layer, box, outward=False)
    lines = parallel_lines(layer, box, output, outward=False)
    x = torch.lerp(lower, upper, torch.linspace(0, 1, 2001)[:, None].double())
    away = (layer(x) - lines.slope * x - lines.middle).abs()
    assert bool((away <= lines.reach + 1e-12).all())
    assert float(lines.reach[0, 1]) < float(output.radius[0, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_jump_is_included_if_rounding_moves_it_over_an_end(dtype):
    for beta, threshold in ((3.0, 0.7), (0.7, 0.3), (1.1, 0.1), (7.0, 1.0)):
        layer = nn.Softplus(beta, threshold)
        switch = torch.tensor(threshold / beta, dtype=dtype)
        points = [switch]
        for _ in range(3):
            points.append(torch.nextafter(points[-1], torch.tensor(torch.inf, dtype=dtype)))
            points.insert(0, torch.nextafter(points[0], torch.tensor(-torch.inf, dtype=dtype)))
        highest = max(float(layer(point)) for point in points)
        for end in points:
            if not any(beta * point > threshold for point in points[: points.index(end) + 1]):
                continue  # the box ends before the jump
            box = Box.between(switch.view(1, 1) - 0.5, end.view(1, 1), outward=True)
            assert float(forward_bounds(layer, box, outward=True).upper) >= highest


def test_samples_whose_prediction_changes_just_behind_the_jump_are_not_verified():
    net = single(nn.Softplus(threshold=0.6)).float()
    net[2].bias.data = torch.tensor([-0.62, 0.62])  # class 1 wins where Softplus is below 0.62
    batch = rr.Batch(
        x=torch.tensor([[0.3], [0.4], [0.5]]), y=torch.zeros(3).long(), mask=torch.ones(3, 1)
    )
    with torch.no_grad():
        assert net(batch.x).argmax(dim=1).tolist() == [0, 0, 0]
        assert net(torch.tensor([[0.6003]])).argmax(dim=1).item() == 1
    certificate = rr.certify(net, batch, epsilon=None, valid_range=(0.19, 0.99))
    assert "verified" not in [verdict.status for verdict in certificate.samples]


def test_jumps_have_both_their_values():
    turns = curve(nn.Softplus(2.0, threshold=-800.0)).turns
    assert turns[0][0] == turns[1][0] == -400
    assert turns[0][1] == -400 and turns[1][1] == 0


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (nn.Softplus(0.0), r"`0` \(Softplus: its beta is 0\)"),
        (nn.Softplus(1.0, 100.0), r"`0` \(Softplus: its threshold is above 80, .* overflows"),
    ],
)
def test_settings_that_give_infinity_are_refused(layer, words):
    x = torch.zeros(1, 2)
    with pytest.raises(UnsupportedLayerError, match=words):
        output_bounds(nn.Sequential(layer), x, x + 1)
