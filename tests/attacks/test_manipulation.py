import copy

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.attacks import AttributionManipulation, frame_map, map_distance
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import InputGradient, InputTimesGradient, Occlusion

RANGE = (0.0, 1.0)


def net(activation=nn.Softplus, size=6):
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), activation(), nn.Flatten(), nn.Linear(4 * size**2, 3)),
    ).double()


@pytest.fixture
def samples():
    x = torch.rand(4, 2, 6, 6, dtype=torch.float64)
    return x, torch.tensor([0, 1, 2, 0])


def attack_of(**settings):
    settings = {"epsilon": 0.1, "num_steps": 8, "step_size": 0.25, "valid_range": RANGE} | settings
    return AttributionManipulation(**{"explainer": InputGradient(), **settings})


def test_distance_is_between_maps_that_sum_to_one():
    attribution = torch.tensor([[[[3.0, -1.0]], [[0.0, 0.0]]]])
    target = torch.tensor([[[[0.0, 8.0]]]])
    expected = ((0.75 - 0) ** 2 + (0.25 - 1) ** 2) ** 0.5
    assert map_distance(attribution, target).tolist() == pytest.approx([expected])
    assert map_distance(5 * attribution, target).tolist() == pytest.approx([expected])


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("is_targeted", [True, False])
def test_moves_the_attribution_and_stays_in_the_ball(samples, norm, is_targeted):
    x, y = samples
    model = net()
    epsilon = 0.1 if norm == "linf" else 0.6
    target = frame_map(6, 6) if is_targeted else None
    result = attack_of(norm=norm, epsilon=epsilon, softplus_beta=None)(model, x, y, target=target)
    move = (result.x - x).flatten(1)
    length = move.abs().amax(dim=1) if norm == "linf" else move.norm(dim=1)
    assert (length <= epsilon * (1 + 1e-9)).all()
    assert (length > 0.1 * epsilon).all()
    assert result.x.min() >= 0 and result.x.max() <= 1
    assert torch.equal(model(result.x).argmax(1), model(x).argmax(1))
    explainer = InputGradient()
    own, bent = explainer(model, x, y), explainer(model, result.x, y)
    reference = own if target is None else target.to(x).expand(4, 1, 6, 6)
    torch.testing.assert_close(result.before, map_distance(own, reference))
    torch.testing.assert_close(result.after, map_distance(bent, reference))
    assert result.succeeded.all()
    assert not result.flipped.any()
    assert result.is_targeted is is_targeted


def test_goes_down_the_slope_of_the_distance(samples):
    """One signed step equals its definition."""
    x, y = samples
    model, target = net(), frame_map(6, 6).double().expand(4, 1, 6, 6)
    result = attack_of(num_steps=1, epsilon=1e-3, step_size=1.0, softplus_beta=None)(
        model, x, y, target=target
    )
    point = x.clone().requires_grad_()
    value = map_distance(InputGradient()(model, point, y, create_graph=True), target)
    (slope,) = torch.autograd.grad(value.sum(), point)
    torch.testing.assert_close(result.x, (x - 1e-3 * slope.sign()).clamp(0, 1))


def test_relu_nets_are_attacked_through_softplus(samples):
    x, y = samples
    model, target = net(nn.ReLU), frame_map(6, 6)
    stuck = attack_of(softplus_beta=None)(model, x, y, target=target)
    assert torch.equal(stuck.x, x)
    assert not stuck.succeeded.any() and not stuck.flipped.any()
    result = attack_of(softplus_beta=10.0)(model, x, y, target=target)
    assert (result.after < result.before).any()
    assert isinstance(model[1], nn.ReLU)
    away = attack_of()(model, x, y)
    assert (away.after > 0).any()
    assert (away.before == 0).all()


class Narrow(nn.Module):
    """Class 0 at 0.5 alone, class 1 everywhere else, with a gradient that can change."""

    def forward(self, x):
        first = x.sum(dim=1) + (x[:, 0] * x[:, 1])
        apart = 1e4 * (x - 0.5).square().sum(dim=1) - 1e-9
        return torch.stack([first, first + apart], dim=1)


def test_samples_whose_prediction_always_flips_are_reported():
    x = torch.full((2, 2), 0.5, dtype=torch.float64)
    target = torch.tensor([[1.0, 0.0]])
    result = attack_of(num_steps=3, softplus_beta=None)(
        Narrow(), x, torch.tensor([0, 0]), target=target
    )
    assert result.flipped.all()
    assert torch.equal(result.x, x)
    assert not result.succeeded.any()


def test_a_step_from_a_changed_prediction_goes_back():
    class Wall(nn.Module):
        """Another class beyond 0.55, where the attribution still grows."""

        def forward(self, x):
            return torch.stack([x[:, 0] ** 3 + x[:, 1], 100 * (x[:, 0] - 0.55) + 1.0], dim=1)

    x = torch.full((1, 2), 0.5, dtype=torch.float64)
    y, target = torch.tensor([0]), torch.tensor([[1.0, 0.0]])
    attack = attack_of(num_steps=9, step_size=0.4, softplus_beta=None)
    result = attack(Wall(), x, y, target=target)
    assert Wall()(result.x).argmax() == Wall()(x).argmax() == 0
    assert result.succeeded.all()


def test_a_sample_does_not_depend_on_its_batch(samples):
    x, y = samples
    model, index = net(), torch.tensor([7, 3, 11, 5])
    together = attack_of(softplus_beta=None)(model, x, y, index=index)
    ceiling = attack_of(softplus_beta=None, max_rows=3)(model, x, y, index=index)
    torch.testing.assert_close(ceiling.x, together.x)
    alone = attack_of(softplus_beta=None)(model, x[2:3], y[2:3], index=index[2:3])
    torch.testing.assert_close(alone.x[0], together.x[2])


def test_the_model_is_left_alone(samples):
    x, y = samples
    model = nn.Sequential(nn.BatchNorm2d(2), nn.Dropout(0.5), *net(nn.ReLU)).double()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    with torch.no_grad():
        result = attack_of(explainer=InputTimesGradient())(model, x, y)
    assert (result.after > 0).all()
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert not x.requires_grad


def test_values_outside_the_valid_range_may_stay(samples):
    x, y = samples
    x = x + 0.5
    result = attack_of(softplus_beta=None)(net(), x, y)
    assert (result.x <= x.clamp(min=1)).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"explainer": Occlusion()}, "Expected a differentiable `explainer` to attack, but got Oc"),
        ({"epsilon": 0}, "Expected `epsilon` to be a finite number above 0"),
        ({"norm": "l1"}, "Expected `norm` to be 'linf' or 'l2', but got 'l1'"),
        ({"num_steps": 0}, "Expected `num_steps` to be a whole number from 1"),
        ({"step_size": -1}, "Expected `step_size` to be a finite number above 0"),
        ({"softplus_beta": 0}, "Expected `softplus_beta` to be a finite number above 0"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
        ({"max_rows": 0}, "Expected `max_rows` to be a whole number from 1"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        attack_of(**settings)


def test_tokens_cannot_move():
    with pytest.raises(InvalidBatchError, match="Expected floating point `x` to move"):
        attack_of()(nn.Embedding(3, 2), torch.ones(1, 2, dtype=torch.int64), torch.tensor([0]))


def test_is_exported():
    assert rr.attacks.AttributionManipulation is AttributionManipulation


def test_the_paper_s_frame_is_five_of_thirty_two_pixels_thick():
    frame = frame_map(32, 32)
    assert frame.shape == (1, 1, 32, 32)
    assert frame[..., 5:-5, 5:-5].sum() == 0
    assert frame.sum() == 32**2 - 22**2


def test_small_and_oblong_images_have_one_too():
    expected = torch.ones(4, 6)
    expected[1:-1, 1:-1] = 0
    assert torch.equal(frame_map(4, 6)[0, 0], expected)


def test_a_border_that_is_no_share():
    with pytest.raises(InvalidSettingError, match="Expected `border` to be a number from 0 to"):
        frame_map(8, 8, border=5)
