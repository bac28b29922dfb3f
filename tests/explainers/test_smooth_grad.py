import pytest
import torch
from tests.reference import explainers as twins

from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import SmoothGrad


def test_equals_its_slow_twin(net, x, y):
    noises = 0.2 * torch.randn(3, 1, 2, 4, 4, generator=torch.Generator().manual_seed(6)).double()
    attribution = SmoothGrad(num_draws=3, sigma=0.2, seed=6)(net, x, y)
    for n in range(len(x)):
        expected = twins.smooth_grad(net, x[n], int(y[n]), noises[:, 0])
        torch.testing.assert_close(attribution[n], expected, rtol=1e-5, atol=1e-7)


def test_draws_depend_on_the_seed_alone(x, y):
    net = twins.mlp(torch.nn.Softplus)
    first = SmoothGrad(num_draws=2, sigma=0.5)(net, x, y)
    torch.manual_seed(9)
    torch.testing.assert_close(SmoothGrad(num_draws=2, sigma=0.5, max_rows=1)(net, x, y), first)
    assert not torch.allclose(SmoothGrad(num_draws=2, sigma=0.5, seed=1)(net, x, y), first)


def test_a_generator_draws_anew_for_each_sample_and_call(y):
    net = twins.mlp(torch.nn.Softplus)
    same = torch.rand(1, 2, 4, 4, dtype=torch.float64).expand(3, -1, -1, -1)
    labels = torch.zeros_like(y)
    shared = SmoothGrad(num_draws=2, sigma=0.5)(net, same, labels)
    torch.testing.assert_close(shared[0], shared[1])
    own = SmoothGrad(num_draws=2, sigma=0.5, generator=torch.Generator().manual_seed(0))
    first = own(net, same, labels)
    assert not torch.allclose(first[0], first[1])
    assert not torch.allclose(own(net, same, labels), first)
    again = SmoothGrad(num_draws=2, sigma=0.5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again(net, same, labels), first)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_draws": 0}, "`num_draws` to be a whole number from 1, but got 0"),
        ({"sigma": 0.0}, "`sigma` to be a finite number above 0"),
        ({"max_rows": 0}, "`max_rows` to be a whole number from 1"),
        ({"seed": -1}, "`seed` to be a whole number from 0"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        SmoothGrad(**settings)
