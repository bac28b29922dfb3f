import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.objectives import (
    CVAR,
    R3,
    CrossEntropy,
    InputGradient,
    Term,
    WeightDecay,
    with_task,
)


def test_total_is_the_weighted_sum_of_named_parts(tiny_net, tiny_batch):
    tiny_net.eval()
    objective = CrossEntropy() + 10.0 * R3() + 0.5 * InputGradient()
    loss = objective(tiny_net, tiny_batch)
    assert list(loss.parts) == ["cross_entropy", "r3", "input_gradient"]
    assert loss.weights == {"cross_entropy": 1.0, "r3": 10.0, "input_gradient": 0.5}
    expected = sum(loss.weights[name] * part for name, part in loss.parts.items())
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.logits, tiny_net(tiny_batch.x).detach())


def test_scaling_a_sum_scales_every_weight():
    objective = 2.0 * (CrossEntropy() + R3() * 3.0)
    assert objective.weights == {"cross_entropy": 2.0, "r3": 6.0}


def test_the_same_term_twice_gets_a_number():
    objective = CrossEntropy() + 1.0 * R3() + 2.0 * R3(target="logit")
    assert objective.weights == {"cross_entropy": 1.0, "r3": 1.0, "r3_2": 2.0}


def test_weights_as_they_were_asked_for():
    objective = CrossEntropy() + "auto" * R3()
    assert objective.weights_asked_for == {"cross_entropy": 1.0, "r3": "auto"}


def test_settings_survive_sums():
    left = CrossEntropy().as_objective().with_settings(frozen_statistics=True, max_rows=100)
    total = left + (1.0 * R3()).with_settings(max_rows=10)
    assert (total.frozen_statistics, total.max_rows) == (True, 10)
    assert (3.0 * total).max_rows == 10


def test_one_forward_pass_serves_all_terms(tiny_batch):
    passes = []

    class Counted(nn.Linear):
        def forward(self, x):
            passes.append(len(x))
            return super().forward(x.flatten(1))

    model = Counted(32, 3).double()
    (CrossEntropy() + 1.0 * R3() + 1.0 * InputGradient(target="loss"))(model, tiny_batch)
    assert passes == [6]


def test_input_gradients_are_not_tracked_when_nobody_reads_them(tiny_batch):
    seen = []

    class Watched(nn.Linear):
        def forward(self, x):
            seen.append(x.requires_grad)
            return super().forward(x.flatten(1))

    rr.recipes.erm()(Watched(32, 3).double(), tiny_batch)
    assert seen == [False]


def test_backward_equals_total_backward(tiny_net, tiny_batch):
    tiny_net.eval()
    objective = rr.recipes.r3()
    objective(tiny_net, tiny_batch).total.backward()
    expected = [p.grad.clone() for p in tiny_net.parameters()]
    tiny_net.zero_grad()
    objective(tiny_net, tiny_batch).backward()
    for parameter, gradient in zip(tiny_net.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, gradient)


def test_a_term_must_give_one_loss_a_sample(tiny_net, tiny_batch):
    class Mean(Term):
        def forward(self, probe):
            return probe.logits.mean()

    with pytest.raises(rr.errors.InvalidSettingError, match="'mean' to give one loss a sample"):
        (CrossEntropy() + 1.0 * Mean())(tiny_net, tiny_batch)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), True, "much"])
def test_bad_weights(weight):
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `weight` to be a finite"):
        weight * R3()


def test_bad_ceiling():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `max_rows` of at least 1"):
        R3().as_objective().with_settings(max_rows=0)


def test_adding_something_else_is_a_type_error():
    with pytest.raises(TypeError):
        CrossEntropy() + 3


def test_sum_works():
    assert sum([CrossEntropy(), R3()]).weights == {"cross_entropy": 1.0, "r3": 1.0}


def test_an_empty_batch_is_refused(tiny_net, tiny_batch):
    with pytest.raises(rr.errors.InvalidBatchError, match="at least one sample, but got none"):
        rr.recipes.erm()(tiny_net, tiny_batch[:0])


def test_the_task_is_the_term_that_says_so():
    assert (1e-4 * R3() + CrossEntropy()).task == "cross_entropy"
    assert R3().as_objective().task == "r3"
    assert (R3() + rr.objectives.GroupDRO()).task == "group_dro"


def test_penalties_stay_with_their_weights_and_settings():
    before = CrossEntropy() + "auto" * R3() + 0.5 * WeightDecay()
    before = before.with_settings(frozen_statistics=True, max_rows=7)
    after = with_task(before, CVAR())
    assert after.weights_asked_for == {"cvar": 1.0, "r3": "auto", "weight_decay": 0.5}
    assert after.task == "cvar"
    assert (after.frozen_statistics, after.max_rows) == (True, 7)
    assert "cross_entropy" in before.weights
