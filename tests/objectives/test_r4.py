import pytest
import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.attacks import GradientSize, climb, draw_points
from rightreasons.bounds import input_gradient_bounds
from rightreasons.objectives import R3, AdvR4, CertR4, RandR4
from rightreasons.objectives.r4 import R4
from rightreasons.types import Target


def losses(term, net, batch):
    torch.manual_seed(0)
    return term(rr.Probe(net, batch, needs_gradient="inside"))


@pytest.mark.parametrize("form", ["gradient", "change"])
@pytest.mark.parametrize("norm", ["l1", "l2", "squared_l2", 3.0])
@pytest.mark.parametrize("target", ["loss", "logit", "margin", "logsumexp"])
def test_drawn_is_below_climbed_is_below_certified_on_every_sample(
    tiny_net, tiny_batch, form, norm, target
):
    tiny_net.eval()
    settings = {"epsilon": 0.2, "form": form, "norm": norm, "target": target}
    drawn = losses(RandR4(num_samples=4, **settings), tiny_net, tiny_batch)
    climbed = losses(AdvR4(num_samples=4, num_steps=5, **settings), tiny_net, tiny_batch)
    certified = losses(CertR4(**settings), tiny_net, tiny_batch)
    assert bool((drawn <= climbed * (1 + 1e-12)).all())
    assert bool((climbed <= certified * (1 + 1e-12)).all())
    if target == "loss":
        assert bool((drawn < climbed).any())
        assert bool((climbed < certified).all())


def test_many_draws_may_find_more_than_few_steps_from_one_of_them(tiny_net, tiny_batch):
    tiny_net.eval()
    drawn = losses(RandR4(num_samples=200, epsilon=0.2), tiny_net, tiny_batch)
    climbed = losses(AdvR4(num_samples=1, num_steps=1, epsilon=0.2), tiny_net, tiny_batch)
    assert bool((drawn > climbed).any())
    assert "the same ``num_samples``" in R4.__doc__


@pytest.mark.parametrize("term", [RandR4, AdvR4, CertR4])
def test_without_a_box_it_is_r3(term, tiny_net, tiny_batch):
    tiny_net.eval()
    point = losses(term(epsilon=1e-12), tiny_net, tiny_batch)
    torch.testing.assert_close(point, losses(R3(), tiny_net, tiny_batch), rtol=1e-8, atol=1e-12)
    still = losses(term(epsilon=1e-12, form="change", norm="l2"), tiny_net, tiny_batch)
    assert still.abs().max().item() < 1e-9


def test_an_unknown_form_is_refused():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `form` to be 'gradient' or"):
        RandR4(form="gradients")


@pytest.mark.parametrize("form", ["gradient", "change"])
def test_equals_its_slow_twin(tiny_net, tiny_batch, form):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    torch.manual_seed(5)
    ours = RandR4(num_samples=3, epsilon=0.2, form=form, valid_range=(0.0, 1.0))(probe)
    torch.manual_seed(5)
    points = draw_points(probe.masked.box(0.2, (0.0, 1.0)), 3)
    columns = tiny_batch.mask.expand_as(tiny_batch.x).flatten(1).any(dim=0)
    full = tiny_batch.x.flatten(1).repeat(3, 1, 1)
    full[:, :, columns] = points
    full = full.reshape(3, *tiny_batch.x.shape)
    assert bool(((full != tiny_batch.x) <= (tiny_batch.mask.expand_as(full[0]) > 0)).all())
    expected = terms.r4_over(tiny_net, tiny_batch, full, change=form == "change")
    torch.testing.assert_close(ours, torch.tensor(expected).double(), rtol=1e-4, atol=1e-9)


def test_more_samples_can_only_be_worse(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    torch.manual_seed(0)
    few = RandR4(num_samples=2)(probe)
    torch.manual_seed(0)
    assert bool((RandR4(num_samples=20)(probe) >= few).all())  # the same first two
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `num_samples`"):
        RandR4(num_samples=0)


def test_is_the_size_where_the_climb_ends(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    masked = probe.masked
    torch.manual_seed(5)
    ours = AdvR4(num_steps=4, epsilon=0.2)(probe)
    torch.manual_seed(5)
    interval, size = masked.box(0.2), GradientSize(masked.mask, "squared_l2")
    start = draw_points(interval, 1)[0]
    end = climb(masked, interval, size, start, target=Target.LOSS, num_steps=4, step_size=0.25)
    torch.testing.assert_close(ours, size(masked.at(end).gradient(Target.LOSS)))
    assert ours.requires_grad


def test_more_steps_can_only_be_worse(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    ends = []
    for num_steps in (1, 4, 16):
        torch.manual_seed(0)
        ends.append(AdvR4(num_steps=num_steps)(probe))
    assert bool((ends[0] <= ends[1]).all())
    assert bool((ends[1] <= ends[2]).all())


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `num_steps`"):
        AdvR4(num_steps=0)
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `step_size`"):
        AdvR4(step_size=-1.0)


@pytest.mark.parametrize("form", ["gradient", "change"])
@pytest.mark.parametrize("target", ["loss", "logit"])
def test_is_the_norm_of_the_largest_magnitude_within_bounds(tiny_net, tiny_batch, form, target):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    ours = CertR4(epsilon=0.1, target=target, form=form)(probe)
    reach = 0.1 * tiny_batch.mask
    lower, upper = input_gradient_bounds(
        tiny_net,
        tiny_batch.x - reach,
        tiny_batch.x + reach,
        tiny_batch.y,
        target=target,
        outward=False,
    )
    nominal = probe.gradient(target) if form == "change" else 0.0
    largest = torch.maximum((lower - nominal).abs(), (upper - nominal).abs())
    expected = (tiny_batch.mask * largest).square().flatten(1).sum(dim=1)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-12)


def test_grows_with_epsilon(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    sizes = [CertR4(epsilon=epsilon)(probe) for epsilon in (0.01, 0.1, 0.5)]
    assert bool((sizes[0] < sizes[1]).all())
    assert bool((sizes[1] < sizes[2]).all())
