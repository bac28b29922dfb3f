import pytest
import torch
from tests.reference import explainers as twins
from torch import nn
from torch.nn import functional

from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnsupportedLayerError
from rightreasons.explainers import LRP, InputTimesGradient
from rightreasons.explainers.lrp import (
    box_rule,
    epsilon_rule,
    gamma_rule,
    split_relevance,
    z_plus_rule,
)
from rightreasons.models import create

SETTINGS = {
    "the paper's": {"rule": "z_plus"},
    "z_plus": {"rule": "z_plus", "valid_range": None},
    "epsilon": {"rule": "epsilon", "valid_range": None, "epsilon": 0.1},
    "gamma": {"rule": "gamma", "gamma": 0.5, "epsilon": 0.1, "valid_range": (-1.0, 2.0)},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_equals_its_slow_twin(settings, net, x, y):
    relevance = LRP(**settings)(net, x, y)
    twin = {"box": settings.get("valid_range", (0.0, 1.0)), "epsilon": 1e-6, **settings}
    twin.pop("valid_range", None)
    for n in range(len(x)):
        expected = twins.lrp(list(net), x[n], int(y[n]), **twin)
        torch.testing.assert_close(relevance[n], expected, rtol=1e-5, atol=1e-7)


def test_relevance_is_conserved(activation, x, y):
    for name in ("mlp", "cnn", "residual"):
        net = twins.make_net(name, activation)
        for module in net.modules():  # wide enough that every unit has a positive contribution
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.normal_(module.weight, mean=0.1, std=0.3)
        for valid_range in ((0.0, 1.0), None):
            relevance = LRP(valid_range=valid_range)(net, x, y)
            sums = relevance.flatten(1).sum(dim=1)
            torch.testing.assert_close(sums, torch.ones_like(sums))
            assert (relevance >= 0).all()


def test_relevance_of_a_resnet_is_conserved(activation, y):
    net = create("resnet18", classes=3, channels=2, size=8, width=0.25, activation=activation)
    x = torch.rand(3, 2, 8, 8, dtype=torch.float64)
    sums = LRP()(twins.with_statistics(net.double()), x, y).flatten(1).sum(dim=1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["mlp", "cnn", "residual", "resnet"])
def test_epsilon_of_a_relu_net_is_input_times_gradient_over_the_logit(name, y):
    net = twins.make_net(name, "relu").eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.zeros_(module.running_mean)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)
    side = 8 if name == "resnet" else 4
    x = torch.rand(3, 2, side, side, dtype=torch.float64)
    logits = net(x).gather(1, y[:, None]).detach()[:, :, None, None]
    relevance = LRP(rule="epsilon", epsilon=1e-14, valid_range=None)(net, x, y)
    torch.testing.assert_close(relevance * logits, InputTimesGradient()(net, x, y))


@pytest.mark.parametrize(
    "name", ["mlp", "lenet", "small_cnn", "vgg11", "isic_net", "derma_net", "plant_net"]
)
def test_the_papers_nets_are_supported(name):
    size = {"small_cnn": 28, "vgg11": 16}.get(name, 32)
    settings = {"width": 1 / 16} if name == "vgg11" else {}
    net = create(name, classes=3, channels=3, size=size, **settings)
    relevance = LRP()(net, torch.rand(2, 3, size, size), torch.tensor([0, 2]))
    sums = relevance.flatten(1).sum(dim=1)
    torch.testing.assert_close(sums, torch.ones(2), rtol=0, atol=2e-2)


class Calls(nn.Module):
    """The residual twin by calls, with its inputs normalised in the model."""

    def __init__(self, net, call):
        super().__init__()
        self.net, self.call = net, call
        self.register_buffer("mean", torch.tensor([0.5, 0.3]).reshape(1, 2, 1, 1).double())
        self.register_buffer("scale", torch.tensor([0.2, -0.4]).reshape(1, 2, 1, 1).double())

    def forward(self, x):
        x = (x - self.mean) / self.scale
        hidden = self.call(self.net[0](x))
        out = self.net[2].body(hidden)
        out += hidden
        out = functional.dropout(self.call(out), 0.5, self.training)
        return self.net[6](functional.adaptive_avg_pool2d(out, 1).view(out.size(0), -1))


@pytest.mark.parametrize(
    "call", [functional.relu, lambda z: functional.relu(z, inplace=True), lambda z: z.relu_()]
)
def test_calls_count_like_modules_and_normalisation_moves_the_box(call, x, y):
    net = twins.residual(nn.ReLU)
    model = Calls(net, call)
    inner = (x - model.mean) / model.scale
    ends = [(bound - model.mean) / model.scale for bound in (0.0, 1.0)]
    bounds = (torch.minimum(*ends), torch.maximum(*ends))
    expected = LRP(valid_range=bounds)(net, inner, y)
    torch.testing.assert_close(LRP(valid_range=(0.0, 1.0))(model, x, y), expected)


def test_the_range_may_differ_between_channels(x, y):
    net = twins.cnn(nn.ReLU)
    both = (torch.tensor([0.0, -1.0]), torch.tensor([1.0, 3.0]))
    by_list = LRP(valid_range=([0.0, -1.0], [1.0, 3.0]))(net, x, y)
    by_tensor = LRP(valid_range=tuple(b.reshape(1, 2, 1, 1) for b in both))(net, x, y)
    torch.testing.assert_close(by_list, by_tensor)
    assert not torch.allclose(by_list, LRP()(net, x, y))


def test_concatenation_differences_and_slices_conserve_relevance(x, y):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(16, 6), nn.Linear(16, 6)
            self.head = nn.Linear(12, 3)

        def forward(self, x):
            left, right = self.first(x[:, 0].flatten(1)), self.second(x[:, 1].flatten(1))
            joined = torch.cat([left - right, right.relu()], dim=1)
            return self.head(functional.softplus(joined))

    net = Net().double()
    for parameter in net.parameters():
        nn.init.normal_(parameter, mean=0.2, std=0.3)
    relevance = LRP()(net, x, y)
    torch.testing.assert_close(relevance.flatten(1).sum(dim=1), torch.ones(3).double())


def test_the_target_is_where_relevance_starts(x, y):
    net = twins.cnn(nn.Softplus).eval()
    own = LRP()(net, x, y)
    split_relevance = net(x).softmax(dim=1).detach()
    expected = sum(
        (split_relevance[:, k] - (y == k).double()).reshape(-1, 1, 1, 1)
        * LRP()(net, x, torch.full_like(y, k))
        for k in range(3)
    )
    torch.testing.assert_close(LRP(target="loss")(net, x, y), expected)
    assert not torch.allclose(own, expected)


def test_logits_that_ignore_the_input_have_no_relevance(y):
    class Ignores(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(3, 3))

        def forward(self, x):
            return self.bias + 0.0

    assert LRP()(Ignores(), torch.rand(3, 2), y).abs().sum() == 0


def test_layers_without_a_rule(x, y):
    net = nn.Sequential(nn.Flatten(), nn.LayerNorm(32), nn.Linear(32, 3)).double()
    with pytest.raises(UnsupportedLayerError, match=r"rule for, but got `1` \(LayerNorm\)"):
        LRP()(net, x, y)


def test_inputs_outside_the_range_are_refused(x, y):
    with pytest.raises(InvalidBatchError, match=r"within `valid_range`, \(0.0, 1.0\), but got"):
        LRP()(twins.cnn(nn.ReLU), x - 0.5, y)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rule": "w_square"}, "`rule` to be 'z_plus' or 'epsilon' or 'gamma'"),
        ({"valid_range": (1.0, 0.0)}, "`valid_range` to be a lower and a higher value"),
        ({"epsilon": 0.0}, "`epsilon` to be a finite number above 0"),
        ({"gamma": -1.0}, "`gamma` to be a finite number above 0"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        LRP(**settings)


@pytest.fixture
def layer():
    """Input (4, 9) of both signs, weight (3, 9), bias (3,), relevance (4, 3)."""
    return [torch.randn(size, dtype=torch.float64) for size in ((4, 9), (3, 9), (3,), (4, 3))]


def handed_down(contributions, totals, relevance):
    """R_i = sum_j contributions_ij / totals_j R_j, by loops."""
    result = torch.zeros(contributions.shape[0], contributions.shape[2], dtype=torch.float64)
    for n, rows in enumerate(contributions):
        for j, row in enumerate(rows):
            for i, part in enumerate(row):
                result[n, i] += part / totals[n, j] * relevance[n, j]
    return result


def test_z_plus_counts_positive_contributions(layer):
    x, weight, _, relevance = layer
    parts = (x[:, None] * weight).clamp(min=0)
    expected = handed_down(parts, parts.sum(dim=2), relevance)
    torch.testing.assert_close(z_plus_rule(functional.linear, x, weight, relevance), expected)


def test_z_plus_is_the_papers_for_activations_of_at_least_zero(layer):
    x, weight, _, relevance = layer
    x = x.abs()
    parts = x[:, None] * weight.clamp(min=0)
    expected = handed_down(parts, parts.sum(dim=2), relevance)
    torch.testing.assert_close(z_plus_rule(functional.linear, x, weight, relevance), expected)


def test_the_box_rule_is_the_papers(layer):
    x, weight, _, relevance = layer
    lower, upper = torch.full_like(x, -4.0), torch.full_like(x, 5.0)
    parts = (x[:, None] * weight) + 4.0 * weight.clamp(min=0) - 5.0 * weight.clamp(max=0)
    expected = handed_down(parts, parts.sum(dim=2), relevance)
    given = box_rule(functional.linear, x, weight, relevance, lower, upper)
    torch.testing.assert_close(given, expected)


def test_epsilon_and_gamma_know_the_bias(layer):
    x, weight, bias, relevance = layer
    for gamma in (0.0, 0.5):
        favoured = weight + gamma * weight.clamp(min=0)
        parts = x[:, None] * favoured
        totals = parts.sum(dim=2) + bias + gamma * bias.clamp(min=0)
        totals += 0.1 * totals.sign()
        expected = handed_down(parts, totals, relevance)
        if gamma:
            settings = {"gamma": gamma, "epsilon": 0.1}
            given = gamma_rule(functional.linear, x, weight, bias, relevance, **settings)
        else:
            given = epsilon_rule(functional.linear, x, weight, bias, relevance, epsilon=0.1)
        torch.testing.assert_close(given, expected)


def test_relevance_is_conserved_without_a_bias(layer):
    x, weight, _, relevance = layer
    bounds = (torch.full_like(x, -4.0), torch.full_like(x, 5.0))
    for given in (
        z_plus_rule(functional.linear, x, weight, relevance),
        box_rule(functional.linear, x, weight, relevance, *bounds),
        epsilon_rule(functional.linear, x, weight, None, relevance, epsilon=1e-12),
        gamma_rule(functional.linear, x, weight, None, relevance, gamma=0.5, epsilon=1e-12),
    ):
        torch.testing.assert_close(given.sum(dim=1), relevance.sum(dim=1))


def test_a_unit_to_which_nothing_contributed_hands_nothing_down():
    x = torch.zeros(1, 2, requires_grad=True)
    weight = torch.ones(1, 2, requires_grad=True)
    given = z_plus_rule(functional.linear, x, weight, torch.ones(1, 1))
    assert given.tolist() == [[0.0, 0.0]]
    slopes = torch.autograd.grad(given.square().sum(), [x, weight])
    assert all(torch.isfinite(slope).all() for slope in slopes)


def test_shares_follow_contributions_and_sum_to_the_whole():
    parts = [torch.rand(2, 3), torch.rand(2, 3)]
    relevance = torch.randn(2, 3)
    first, second = split_relevance(parts, relevance)
    torch.testing.assert_close(first + second, relevance)
    torch.testing.assert_close(first * parts[1], second * parts[0])
    small = split_relevance([torch.tensor([1.0]), torch.tensor([-1.0])], torch.ones(1), epsilon=0.5)
    assert [part.item() for part in small] == [2.0, -2.0]


def test_contributions_too_small_to_divide_by_are_none():
    x, weight, relevance = torch.full((1, 2), 1e-30), torch.full((1, 2), 1e-15), torch.ones(1, 1)
    assert z_plus_rule(functional.linear, x, weight, relevance).tolist() == [[0.0, 0.0]]
