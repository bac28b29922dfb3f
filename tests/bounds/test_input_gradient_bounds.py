import pytest
import torch
from tests.reference import bounds as slow
from torch import nn

from rightreasons.bounds import input_gradient_bounds
from rightreasons.types import Target

Y = torch.tensor([2, 0, 1])


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("outward", [True, False])
def test_intervals_are_those_of_single_numbers(small_net, listed, small_box, target, outward):
    found = input_gradient_bounds(
        small_net, small_box.lower, small_box.upper, Y, target=target, outward=outward
    )
    for sample, label in enumerate(Y.tolist()):
        expected = torch.tensor(
            slow.input_gradient(listed, slow.intervals(small_box, sample), label, target.value)
        ).double()
        torch.testing.assert_close(found.lower[sample], expected[:, 0], rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(found.upper[sample], expected[:, 1], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["ibp", "crown"])
def test_columns_are_features_of_the_flattened_input(method):
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    x, columns = torch.randn(3, 1, 3, 3), torch.tensor([7, 0, 2])
    ends = x - 0.1, x + 0.1
    whole = input_gradient_bounds(model, *ends, Y, method=method)
    part = input_gradient_bounds(model, *ends, Y, method=method, columns=columns)
    assert whole.lower.shape == x.shape and part.lower.shape == (3, 3)
    torch.testing.assert_close(part.lower, whole.lower.flatten(1)[:, columns])
    torch.testing.assert_close(part.upper, whole.upper.flatten(1)[:, columns])


def test_a_hidden_layer_is_an_input_like_any_other():
    tail = nn.Sequential(nn.ReLU(), nn.Linear(512, 3))
    x = torch.randn(3, 512)
    assert input_gradient_bounds(tail, x, x, Y, target="loss").upper.shape == (3, 512)
