import torch
from torch import nn

from rightreasons.bounds import Box, input_gradient_bounds, margin_bounds, output_bounds
from rightreasons.bounds.box import widen_overflowed


def test_samples_in_which_something_overflowed_have_no_bounds():
    ends = torch.zeros(3, 2), torch.ones(3, 2)
    radius = torch.tensor([[1.0], [torch.inf], [torch.nan]])
    lower, upper = widen_overflowed(ends, [Box(torch.zeros(3, 1), radius)])
    assert lower.tolist() == [[0, 0], [-torch.inf] * 2, [-torch.inf] * 2]
    assert upper.tolist() == [[1, 1], [torch.inf] * 2, [torch.inf] * 2]


def test_ends_that_are_no_numbers_are_opened():
    lower, upper = widen_overflowed((torch.tensor([[torch.nan, 0.0]]), torch.ones(1, 2)), [])
    assert lower.tolist() == [[-torch.inf, 0]] and upper.tolist() == [[torch.inf, 1]]


def test_untouched_ends_are_handed_on():
    ends = torch.zeros(1, 2), torch.ones(1, 2)
    assert widen_overflowed(ends, [Box.exact(torch.zeros(1, 2))])[0] is ends[0]


def test_a_net_that_overflows_is_never_certified():
    model = nn.Sequential(
        *(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1), nn.ReLU()),
        nn.Linear(1, 2),
    )
    for layer in model[:6:2]:
        layer.weight.data.fill_(1e30)
    x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1])
    for method in ("ibp", "crown"):
        outputs = output_bounds(model, x - 1, x + 1, method=method)
        gradients = input_gradient_bounds(model, x - 1, x + 1, y, method=method)
        margins = margin_bounds(model, x - 1, x + 1, y, method=method)
        assert bool(torch.isinf(gradients.lower).all() and torch.isinf(gradients.upper).all())
        assert bool((outputs.upper == torch.inf).all())
        assert margins.scatter(1, y[:, None], -torch.inf).amax().item() == -torch.inf
