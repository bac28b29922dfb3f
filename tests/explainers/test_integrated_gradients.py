import pytest
import torch
from tests.reference import explainers as twins

from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import IntegratedGradients


def test_equals_its_slow_twin(net, x, y):
    baseline = torch.rand(2, 1, 1, dtype=x.dtype)
    explain = IntegratedGradients(baseline=baseline, num_steps=4, quadrature="trapezoid")
    attribution = explain(net, x, y)
    for n in range(len(x)):
        start = baseline.expand_as(x[n])
        expected = twins.integrated_gradients(net, x[n], int(y[n]), start, 4)
        torch.testing.assert_close(attribution[n], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("target", ["logit", "loss", "logsumexp"])
def test_is_complete(x, y, target):
    net = twins.mlp(torch.nn.Softplus)
    for quadrature, num_steps, gap in (("gauss_legendre", 8, 1e-9), ("trapezoid", 60, 1e-4)):
        explain = IntegratedGradients(num_steps=num_steps, quadrature=quadrature, target=target)
        assert explain.completeness_gap(net, x, y).abs().max() < gap


def test_the_gap_is_what_is_missing(x, y):
    net = twins.cnn(torch.nn.Softplus)
    explain = IntegratedGradients(num_steps=2, quadrature="trapezoid", baseline=0.25)
    attribution = explain(net, x, y)
    logits = [net.eval()(at).gather(1, y[:, None])[:, 0] for at in (x, torch.full_like(x, 0.25))]
    gap = attribution.flatten(1).sum(dim=1) - (logits[0] - logits[1])
    net.train()
    torch.testing.assert_close(explain.completeness_gap(net, x, y), gap.detach())
    given = explain.completeness_gap(net, x, y, attribution=attribution + 1 / 32)
    torch.testing.assert_close(given, gap.detach() + 1)


def test_a_jump_between_two_steps_is_told_once_for_a_model(caplog):
    class Jump(torch.nn.Module):
        """The first logit rises from 0 to 5 where the mean of an input is near 0.3."""

        def __init__(self, steepness):
            super().__init__()
            self.steepness = torch.nn.Parameter(torch.tensor(steepness))

        def forward(self, x):
            rise = 5 * torch.sigmoid(self.steepness * (x.mean(dim=1) - 0.3))
            return torch.stack([rise, 0 * rise], dim=1)

    x, y, sharp = torch.ones(2, 4), torch.zeros(2, dtype=torch.int64), Jump(1e4)
    IntegratedGradients()(Jump(10.0), x, y)
    assert not caplog.records
    for _ in range(2):
        IntegratedGradients()(sharp, x, y)
    assert len(caplog.records) == 1
    words = "num_steps=50 sum to a change of the logit that is off by 5 on average, beside a change"
    assert words in caplog.text and "more `num_steps`" in caplog.text


def test_a_baseline_can_be_made_of_the_sample(x, y):
    net = twins.mlp(torch.nn.ReLU)

    def mean(features):
        return features.mean(dim=(2, 3), keepdim=True)

    attribution = IntegratedGradients(baseline=mean, num_steps=3)(net, x, y)
    for n in range(len(x)):
        given = IntegratedGradients(baseline=mean(x[n : n + 1]), num_steps=3)
        torch.testing.assert_close(given(net, x[n : n + 1], y[n : n + 1])[0], attribution[n])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"baseline": "black"}, "`baseline` to be a number, a tensor or a function.*'black'"),
        ({"quadrature": "simpson"}, "'gauss_legendre' or 'trapezoid', but got 'simpson'"),
        ({"quadrature": "trapezoid", "num_steps": 1}, "`num_steps` to be a whole number from 2"),
        ({"max_rows": 0}, "`max_rows`"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        IntegratedGradients(**settings)


def test_a_baseline_that_does_not_fit(x, y):
    with pytest.raises(InvalidSettingError, match=r"`baseline` to broadcast.*got shape \(5,\)"):
        IntegratedGradients(baseline=torch.zeros(5))(twins.mlp(torch.nn.ReLU), x, y)
