import pytest
import torch
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.objectives import AlignmentTerm, CosineAlignment, L2Alignment
from rightreasons.objectives.alignment import Nearby, gradient_pair, source_gradient
from rightreasons.types import Target


def test_settings_are_kept_and_checked():
    term = CosineAlignment(epsilon=0.1, perturbation="gaussian", num_samples=3, target="loss")
    assert isinstance(term, AlignmentTerm)
    assert (term.epsilon, term.num_samples, term.target, term.detach_source) == (0.1, 3, "loss", 1)
    for settings, words in {
        ("epsilon", 0.0): "Expected `epsilon`",
        ("perturbation", "normal"): "Expected `perturbation` to be 'uniform' or 'gaussian' or",
        ("num_samples", 0): "Expected `num_samples`",
        ("detach_source", 1): "Expected `detach_source` to be True or False",
    }.items():
        with pytest.raises(rr.errors.InvalidSettingError, match=words):
            L2Alignment(**dict([settings]))
    with pytest.raises(rr.errors.InvalidSettingError, match="to be 1 with perturbation='sign'"):
        L2Alignment(perturbation="sign", num_samples=2)


def test_a_detached_source_moves_only_the_gradient_nearby(tiny_net, tiny_batch):
    tiny_net.eval()
    parameters = list(tiny_net.parameters())
    x = tiny_batch.x.clone().requires_grad_()
    y = tiny_batch.y[:, None]
    (own,) = torch.autograd.grad(tiny_net(x).gather(1, y).sum(), x)
    torch.manual_seed(4)
    shift = torch.empty_like(x).uniform_(-0.5, 0.5)
    moved = (x.detach() + shift).requires_grad_()
    (near,) = torch.autograd.grad(tiny_net(moved).gather(1, y).sum(), moved, create_graph=True)
    expected = torch.autograd.grad((near - own).square().sum() / 6, parameters, allow_unused=True)
    torch.manual_seed(4)
    loss = L2Alignment(epsilon=0.5).as_objective()(tiny_net, tiny_batch)
    ours = torch.autograd.grad(loss.total, parameters, allow_unused=True)
    for left, right, weight in zip(ours, expected, parameters, strict=True):
        slopes = [torch.zeros_like(weight) if slope is None else slope for slope in (left, right)]
        torch.testing.assert_close(*slopes)


def test_cosine_alignment_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = CosineAlignment(epsilon=0.5, perturbation="gaussian")(probe)
    torch.manual_seed(5)
    noise = torch.empty(1, *tiny_batch.x.shape, dtype=torch.float64).normal_()
    expected = terms.cosine_alignment(tiny_net, tiny_batch, tiny_batch.x + 0.5 * noise)
    torch.testing.assert_close(ours, torch.tensor(expected).double(), rtol=1e-4, atol=1e-8)


def test_scaling_the_model_changes_nothing(tiny_batch):
    """The paper's proposition 5; l2 alignment has no such property."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    values = []
    for _ in range(2):
        torch.manual_seed(0)
        values.append(
            CosineAlignment(epsilon=0.5)(rr.Probe(model, tiny_batch, needs_gradient=True))
        )
        with torch.no_grad():
            model[3].weight *= 1e-5
    torch.testing.assert_close(values[1], values[0], rtol=1e-8, atol=1e-12)
    assert bool((values[0] > 0).all()) and bool((values[0] < 1).all())


def test_a_gradient_of_zero_counts_as_orthogonal(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    nn.init.zeros_(model[1].weight)
    loss = CosineAlignment().as_objective()(model, tiny_batch)
    assert loss.total == 0.5
    loss.backward()
    assert bool(torch.isfinite(model[1].weight.grad).all())


def test_l2_alignment_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = L2Alignment(num_samples=2, epsilon=0.5)(probe)
    torch.manual_seed(5)
    shape = (2, *tiny_batch.x.shape)
    points = tiny_batch.x + torch.empty(shape, dtype=torch.float64).uniform_(-0.5, 0.5)
    expected = torch.tensor(terms.l2_alignment(tiny_net, tiny_batch, points)).double()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-9)


def test_the_norm_is_a_setting(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    settings = {"perturbation": "sign", "epsilon": 0.5}
    squared = L2Alignment(**settings)(probe)
    torch.testing.assert_close(L2Alignment(**settings, norm="l2")(probe) ** 2, squared)


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
