import pytest
import torch
from tests.reference import explainers as twins

from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import InputGradient, InputTimesGradient, SmoothGrad
from rightreasons.explainers.gradients import averaged_gradient, stacked_rows
from rightreasons.explainers.subject import Subject
from rightreasons.models.normalised import normalised
from rightreasons.types import Target

NOISES = 0.2 * torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(6)).double()
TWINS = {
    "input_gradient": (InputGradient(), twins.input_gradient),
    "input_times_gradient": (
        InputTimesGradient(),
        lambda net, x, label: x * twins.input_gradient(net, x, label),
    ),
    "input_times_gradient, less the mean": (
        InputTimesGradient(baseline=[0.2, 0.7]),
        lambda net, x, label: twins.input_less_baseline(net, x, label, [0.2, 0.7]),
    ),
    "smooth_grad": (
        SmoothGrad(num_draws=3, sigma=0.2, seed=6),
        lambda net, x, label: twins.smooth_grad(net, x, label, NOISES),
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_equals_its_slow_twin(name, net, x, y):
    explainer, twin = TWINS[name]
    attribution = explainer(net, x, y)
    precision = (
        {"rtol": 1e-5, "atol": 1e-7} if name == "smooth_grad" else {"rtol": 1e-6, "atol": 1e-8}
    )
    for n in range(len(x)):
        torch.testing.assert_close(attribution[n], twin(net, x[n], int(y[n])), **precision)


def test_other_targets_are_explained(net, x, y):
    given = x.clone().requires_grad_()
    for target in Target:
        (expected,) = torch.autograd.grad(target(net(given), y).sum(), given)
        torch.testing.assert_close(InputGradient(target=target)(net, x, y), expected)


def test_one_forward_and_one_backward(net, x, y):
    forwards, backwards = [], []
    net.register_forward_hook(lambda *_: forwards.append(1))
    net[-1].register_full_backward_hook(lambda *_: backwards.append(1))
    InputGradient()(net, x, y)
    assert (len(forwards), len(backwards)) == (1, 1)


def test_sums_to_the_logit_without_biases(x, y):
    net = twins.mlp(torch.nn.ReLU)
    for module in net.modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.zeros_(module.bias)
    sums = InputTimesGradient()(net, x, y).flatten(1).sum(dim=1)
    torch.testing.assert_close(sums, net(x).gather(1, y[:, None])[:, 0])


def test_less_the_mean_is_the_product_inside_a_net_that_normalises():
    torch.manual_seed(0)
    mean, deviation = torch.tensor([0.4, 0.6]), torch.tensor([0.2, 0.5])
    body = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Softplus(), torch.nn.Flatten())
    net = normalised(body, mean=mean.tolist(), deviation=deviation.tolist())
    x, y = torch.rand(3, 2, 4, 4), torch.tensor([0, 1, 2])
    inside = (x - mean[:, None, None]) / deviation[:, None, None]
    expected = InputTimesGradient()(body, inside, y)
    torch.testing.assert_close(InputTimesGradient(baseline=mean.tolist())(net, x, y), expected)


def test_a_baseline_has_a_number_for_each_channel(net, x, y):
    with pytest.raises(InvalidBatchError, match="a number or 2 of them, one for each channel"):
        InputTimesGradient(baseline=[0.1, 0.2, 0.3])(net, x, y)


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


def test_rows_come_once_and_under_the_ceiling():
    for ceiling, sizes in ((6, [6]), (4, [4, 2]), (1, [1] * 6), (99, [6])):
        parts = list(stacked_rows(2, 3, ceiling, torch.device("cpu")))
        assert [len(copies) for copies, _ in parts] == sizes
        pairs = [pair for part in parts for pair in zip(*(p.tolist() for p in part), strict=True)]
        assert pairs == [(copy, sample) for copy in range(2) for sample in range(3)]


def test_equals_a_loop_under_any_ceiling(net, x, y):
    weights = torch.tensor([0.5, -1.0, 2.0, 0.25])
    shifts = torch.rand(4, *x.shape[1:], dtype=x.dtype)
    expected = torch.zeros_like(x)
    for weight, shift in zip(weights, shifts, strict=True):
        given = (x + shift).requires_grad_()
        (gradient,) = torch.autograd.grad(Target.LOGIT(net(given), y).sum(), given)
        expected += weight * gradient
    rows = []
    net.register_forward_pre_hook(lambda module, inputs: rows.append(len(inputs[0])))
    for ceiling in (None, 5, 1):
        rows.clear()
        total = averaged_gradient(
            Subject(net, x, y, create_graph=False),
            lambda copies, samples: x[samples] + shifts[copies],
            weights,
            target=Target.LOGIT,
            max_rows=ceiling,
        )
        torch.testing.assert_close(total, expected)
        assert max(rows) == (ceiling or 12)
