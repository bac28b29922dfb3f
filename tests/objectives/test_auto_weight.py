import math

import pytest
import torch

import rightreasons as rr
from rightreasons.core.norms import gradient_norm
from rightreasons.objectives import R3, AutoWeight, CrossEntropy


def norms(model, batch):
    loss = (CrossEntropy() + 1.0 * R3())(model, batch)
    result = []
    for part in loss.parts.values():
        gradients = torch.autograd.grad(
            part, list(model.parameters()), retain_graph=True, allow_unused=True
        )
        result.append(math.sqrt(sum(float(g.square().sum()) for g in gradients if g is not None)))
    return result


def test_is_the_ratio_of_gradient_norms(tiny_net, tiny_batch):
    tiny_net.eval()
    task, penalty = norms(tiny_net, tiny_batch)
    objective = CrossEntropy() + "auto" * R3()
    loss = objective(tiny_net, tiny_batch)
    assert loss.weights["r3"] == pytest.approx(task / penalty)
    doubled = CrossEntropy() + 2.0 * ("auto" * R3())
    assert doubled(tiny_net, tiny_batch).weights["r3"] == pytest.approx(2 * task / penalty)


def test_is_a_geometric_mean_that_settles_and_is_logged(tiny_net, tiny_batch, caplog):
    tiny_net.eval()
    caplog.set_level("INFO", logger="rightreasons")
    objective = CrossEntropy() + "auto" * R3()
    ratios = []
    for step in range(25):
        with torch.no_grad():
            for parameter in tiny_net.parameters():
                parameter *= 1.02
        task, penalty = norms(tiny_net, tiny_batch)
        if step < 20:
            ratios.append(math.log(task / penalty))
        weight = objective(tiny_net, tiny_batch).weights["r3"]
        assert weight == pytest.approx(math.exp(sum(ratios) / len(ratios)))
    assert objective.auto_weights["r3"].settled
    assert caplog.messages == [f"An automatic weight is set to {weight:.4g}."]


def test_a_batch_without_masks_does_not_count(tiny_net, tiny_batch):
    tiny_net.eval()
    blank = tiny_batch.replace(mask=torch.zeros_like(tiny_batch.mask))
    objective = CrossEntropy() + "auto" * R3()
    assert objective(tiny_net, blank).weights["r3"] == 0.0
    assert int(objective.auto_weights["r3"].count) == 0


def test_does_not_move_in_evaluation(tiny_net, tiny_batch):
    objective = (CrossEntropy() + "auto" * R3()).eval()
    objective(tiny_net, tiny_batch)
    assert objective.weights["r3"] == 0.0


def test_state_is_saved_with_the_objective(tiny_net, tiny_batch):
    objective = CrossEntropy() + "auto" * R3()
    objective(tiny_net, tiny_batch)
    other = CrossEntropy() + "auto" * R3()
    other.load_state_dict(objective.state_dict())
    assert other.weights == objective.weights
    assert other.weights["r3"] > 0


def test_needs_something_to_measure_against(tiny_net, tiny_batch):
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected a term with a fixed weight"):
        ("auto" * R3())(tiny_net, tiny_batch)


def test_unseen_is_zero():
    assert AutoWeight().value == 0.0


def test_the_order_of_terms_does_not_matter(tiny_net, tiny_batch):
    tiny_net.eval()
    decay = 1e-4 * rr.objectives.WeightDecay()
    first = (CrossEntropy() + "auto" * R3() + decay)(tiny_net, tiny_batch).weights["r3"]
    last = (decay + "auto" * R3() + CrossEntropy())(tiny_net, tiny_batch).weights["r3"]
    assert first == pytest.approx(last)


def test_a_factor_is_kept_inside_and_outside(tiny_net, tiny_batch):
    tiny_net.eval()
    inside = CrossEntropy() + "auto" * (2.0 * R3())
    outside = CrossEntropy() + 2.0 * ("auto" * R3())
    assert inside(tiny_net, tiny_batch).weights == outside(tiny_net, tiny_batch).weights


def test_is_the_norm_over_all_parameters_and_keeps_the_graph():
    first, second = (torch.tensor([value], requires_grad=True) for value in (3.0, 1.0))
    idle = torch.ones(2, requires_grad=True)
    loss = (1.5 * first + 2.0 * second).sum()
    assert gradient_norm(loss, [first, second, idle], 1) == pytest.approx(math.hypot(1.5, 2.0))
    loss.backward()
    assert first.grad.item() == 1.5


def test_a_constant_has_none():
    assert gradient_norm(torch.tensor(1.0), [torch.ones(1, requires_grad=True)], 1) == 0.0
