import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.objectives.alignment import Nearby, gradient_pair, source_gradient
from rightreasons.types import Target


def nearby(**settings):
    usual = {"perturbation": "uniform", "epsilon": 0.1, "num_samples": 2}
    return Nearby(**{**usual, "target": Target.LOGIT, "detach_source": True, **settings})


@pytest.mark.parametrize(
    ("perturbation", "sizes"), [("uniform", (0.05, 0.1)), ("gaussian", (0.1, 1)), ("sign", (0.1,))]
)
def test_points_are_as_far_away_as_stated(perturbation, sizes):
    source = torch.randn(500, 3)
    shifts = nearby(perturbation=perturbation).shifts(source)
    assert shifts.shape == (2, 500, 3)
    largest = shifts.abs().max()
    if perturbation == "sign":
        assert torch.equal(shifts[1], 0.1 * source.sign())
    else:
        assert sizes[0] < largest <= sizes[1]
        assert shifts.mean().abs() < 0.01
    if perturbation == "gaussian":
        assert shifts.std() == pytest.approx(0.1, rel=0.1)


def test_equal_settings_share_one_pass(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    first = gradient_pair(probe, nearby())
    assert gradient_pair(probe, nearby()) is first
    assert gradient_pair(probe, nearby(epsilon=0.2)) is not first


def test_l2_and_cosine_cost_one_pass_more_than_the_task(tiny_batch):
    passes = []
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    model.register_forward_hook(lambda *_: passes.append(1))
    rr.recipes.alignment()(model, tiny_batch)
    assert len(passes) == 2


@pytest.mark.parametrize("detached", [True, False])
def test_the_source_has_a_graph_unless_it_is_constant(tiny_net, tiny_batch, detached):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    gradient = source_gradient(probe, Target.LOGIT, detached=detached)
    torch.testing.assert_close(gradient, probe.gradient("logit"))
    assert gradient.requires_grad != detached


def test_both_gradients_are_as_at_test_time_in_train_mode(tiny_batch):
    """Else a net with BatchNorm would be compared with itself in another mode."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    model.double().train()
    probe = rr.Probe(model, tiny_batch, needs_gradient=True)
    still = gradient_pair(probe, nearby(epsilon=1e-9))
    torch.testing.assert_close(still.nearby[0], still.source, rtol=1e-6, atol=1e-9)
    assert not torch.allclose(probe.gradient("logit"), still.source, rtol=1e-2)


def test_without_gradients_the_error_says_what_to_do(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch)
    with pytest.raises(rr.errors.DoubleBackwardError, match="needs_gradient=True"):
        gradient_pair(probe, nearby())


def test_a_ceiling_of_rows_changes_nothing(tiny_net, tiny_batch):
    pairs = []
    for max_rows in (None, 5):
        probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True, max_rows=max_rows)
        torch.manual_seed(0)
        pairs.append(gradient_pair(probe, nearby()))
    torch.testing.assert_close(pairs[0].nearby, pairs[1].nearby)
