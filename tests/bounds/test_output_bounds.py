import torch
from torch import nn

from rightreasons.bounds import output_bounds
from rightreasons.types import Interval


def test_ends_belong_to_the_extreme_inputs_of_a_linear_model():
    model = nn.Linear(2, 1).double()
    model.weight.data = torch.tensor([[2.0, -1.0]]).double()
    model.bias.data.zero_()
    lower, upper = torch.zeros(1, 2).double(), torch.ones(1, 2).double()
    for method in ("ibp", "crown"):
        bounds = output_bounds(model, lower, upper, method=method)
        assert isinstance(bounds, Interval)
        torch.testing.assert_close(bounds.lower, torch.tensor([[-1.0]]).double())
        torch.testing.assert_close(bounds.upper, torch.tensor([[2.0]]).double())
        assert bounds.lower.item() <= -1 and bounds.upper.item() >= 2


def test_crown_sees_that_a_difference_cancels():
    class Same(nn.Module):
        def forward(self, x):
            return (x + 1) - x

    lower, upper = torch.zeros(1, 2), torch.ones(1, 2)
    loose = output_bounds(Same(), lower, upper, outward=False)
    tight = output_bounds(Same(), lower, upper, method="crown", outward=False)
    assert (loose.upper - loose.lower).tolist() == [[2, 2]]
    assert (tight.upper - tight.lower).tolist() == [[0, 0]]


def test_train_mode_is_bounded_as_at_test_time():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.9), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    model.train()
    bounds = output_bounds(model, x, x, outward=False)
    torch.testing.assert_close(bounds.lower, model.eval()(x))


def test_outputs_need_not_be_logits():
    x = torch.randn(2, 1, 4, 4)
    assert output_bounds(nn.Conv2d(1, 2, 3), x, x).lower.shape == (2, 2, 2, 2)


def test_inference_mode_is_fine():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(2, 3)
    with torch.inference_mode():
        for method in ("ibp", "crown"):
            bounds = output_bounds(model, x - 0.1, x + 0.1, method=method)
            assert bool((bounds.lower < bounds.upper).all())
