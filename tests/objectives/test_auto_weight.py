import copy
import math
import os
import signal

import pytest
import torch
from torch import nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.core.norms import gradient_norm
from rightreasons.objectives import R3, AutoWeight, ControlledWeight, CrossEntropy


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


def guided_data(num_samples=64):
    """A column that is the label and must not be read, and five columns that tell it faintly."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(num_samples) % 2
    x = torch.randn(num_samples, 6, generator=generator)
    x[:, :5] += 0.4 * (2 * y[:, None] - 1)
    x[:, 5] = 2.0 * y - 1
    mask = torch.zeros(num_samples, 6)
    mask[:, 5] = 1
    card = rr.datasets.Card(valid_range=(-5.0, 5.0))
    return rr.datasets.InMemory(rr.Batch(x=x, y=y, mask=mask), card)


def test_a_controlled_weight_rises_while_the_mask_is_read_and_falls_when_not():
    plain, weight = torch.full((4,), 0.2), ControlledWeight(every=1, rate=0.1, start=1.0)
    weight.observe(plain, torch.full((4,), 2.0), num_classes=2)
    assert float(weight.cost) == pytest.approx(1.8 / (math.log(2) - 0.2))
    assert weight.value == pytest.approx(math.exp(0.1))
    weight.observe(plain, plain, num_classes=2)
    assert weight.value == pytest.approx(1.0)
    nothing_learned = torch.full((4,), math.log(2))
    weight.observe(nothing_learned, nothing_learned + 1, num_classes=2)
    assert weight.value == pytest.approx(math.exp(-0.1))
    for _ in range(500):
        weight.observe(plain, torch.full((4,), 2.0), num_classes=2)
    assert weight.value == pytest.approx(weight.high)


def test_shrunken_logits_do_not_lower_a_controlled_cost_to_nothing():
    """A model that reads the mask alone, with logits of any size, has a cost of about 1 or more."""
    for size in (3.0, 0.5):
        logits = size * torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
        y = torch.tensor([0, 1])
        plain = functional.cross_entropy(logits, y, reduction="none")
        half_wrong = functional.cross_entropy(
            torch.cat([logits, logits.flip(1)]), y.repeat(2), reduction="none"
        )
        weight = ControlledWeight()
        weight.observe(plain.repeat(2), half_wrong, num_classes=2)
        assert float(weight.cost) > 1


def test_the_gradient_of_a_controlled_penalty_stays_below_a_share_of_the_task(tiny_net, tiny_batch):
    tiny_net.eval()
    parameters = tuple(tiny_net.parameters())
    weight = ControlledWeight(start=1e5, cap=0.4)
    terms = [("cross_entropy", CrossEntropy(), 2.0), ("r3", R3(), weight)]
    loss = rr.objectives.Objective(terms)(tiny_net, tiny_batch)
    task = 2.0 * gradient_norm(loss.parts["cross_entropy"], parameters, len(tiny_batch))
    penalty = loss.weights["r3"] * gradient_norm(loss.parts["r3"], parameters, len(tiny_batch))
    left = 1 - float(weight.learned)
    assert 0 < left <= 1
    assert penalty == pytest.approx(0.4 * task / left)
    loss.backward()
    plain = 2.0 * CrossEntropy() + loss.weights["r3"] * R3()
    expected = torch.autograd.grad(plain(tiny_net, tiny_batch).total, parameters)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    # A cap remembers nine tenths of the largest gradient for a step.
    weight.hold_below(task_norm=0.0, penalty_norm=1.0)
    assert float(weight.ceiling) == pytest.approx(0.4 * 0.9 * task / left)
    weight.observe(torch.zeros(4), torch.zeros(4), num_classes=2)
    weight.hold_below(task_norm=1.0 + task, penalty_norm=1.0)
    assert float(weight.ceiling) > 0.4 * (1.0 + task)  # what is learned raises it
    weight.hold_below(task_norm=1.0, penalty_norm=0.0)
    assert math.isinf(float(weight.ceiling))


def test_a_controlled_training_is_logged_resumed_to_the_same_bits_and_reads_the_mask_less(tmp_path):
    data, costs = guided_data(), {}
    for weight in (0.0, "controlled"):
        torch.manual_seed(0)
        model = nn.Linear(6, 2)
        # In a linear net both gradients lie in one column, so that a cap below 1 decides.
        chosen = weight if weight == 0.0 else ControlledWeight(cap=10.0)
        terms = [("cross_entropy", CrossEntropy(), 1.0), ("r3", R3(target="margin"), chosen)]
        fitted = rr.fit(
            model,
            rr.objectives.Objective(terms),
            data,
            epochs=60,
            lr=0.05,
            batch_size=32,
        )
        costs[weight] = rr.evaluate(model, data, ["swap_accuracy"])["swap_accuracy"]
    assert costs["controlled"] > costs[0.0] + 0.1
    assert len({row["weights"]["r3"] for row in fitted.history}) > 3
    ends = []
    for folder, stops in (("whole", [6]), ("parts", [3, 6])):
        for epochs in stops:
            torch.manual_seed(0)
            model = nn.Linear(6, 2)
            settings = {"batch_size": 32, "scheduler": "constant", "out": tmp_path / folder}
            objective = rr.recipes.r3(weight="controlled")
            if epochs == 3:
                with pytest.raises(KeyboardInterrupt):
                    rr.fit(Stopping(model, 7), objective, data, epochs=6, **settings)
            else:
                again = Stopping(model, -1)
                fitted = rr.fit(again, objective, data, epochs=6, resume=True, **settings)
        ends.append((fitted.weights["r3"], model.weight.detach().clone()))
    assert ends[0][0] == ends[1][0]
    assert torch.equal(ends[0][1], ends[1][1])


class Stopping(nn.Module):
    """A model that interrupts the process in one of its passes, as Ctrl-C does."""

    def __init__(self, net, passes):
        super().__init__()
        self.net, self.left = net, passes

    def forward(self, x):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return self.net(x)


def test_a_controlled_weight_leaves_the_model_as_a_plain_pass_would():
    data = guided_data()
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    other = copy.deepcopy(model)
    for weight, one in (("controlled", model), (1.0, other)):
        objective = rr.recipes.r3(weight=weight)
        objective.prepare(data, num_passes=1)
        objective(one, data.take(torch.arange(16)))
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), other.buffers(), strict=True))
