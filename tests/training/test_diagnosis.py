import math

import pytest
import torch

from rightreasons.objectives import Loss
from rightreasons.training.monitor import diagnose, gradient_norms

LABELS = torch.tensor([0, 1]).repeat(5000)
TASK = "cross_entropy"
WEIGHTS = {"cross_entropy": 1.0, "r3": 30.0, "weight_decay": 0.1}


def loss_of(parts, weights, parameters):
    total = sum(weights[name] * part for name, part in parts.items())
    logits = torch.zeros(1, 2)
    return Loss(total, parts, weights, logits, tuple(parameters))


def test_a_pull_is_the_norm_of_the_weighted_gradient():
    first, second = torch.tensor([1.0, 2.0], requires_grad=True), torch.ones(1, requires_grad=True)
    parts = {"task": 3 * first[0] + 4 * second[0], "penalty": first.square().sum()}
    loss = loss_of(parts, {"task": 1.0, "penalty": 10.0}, [first, second])
    expected = {"task": 5.0, "penalty": 10 * math.sqrt(4 + 16)}
    assert gradient_norms(loss) == pytest.approx(expected)
    loss.backward()  # the graph is still there
    assert first.grad is not None


def test_looking_at_pulls_touches_no_gradient():
    weight = torch.ones(3, requires_grad=True)
    gradient_norms(loss_of({"task": weight.sum()}, {"task": 1.0}, [weight]))
    assert weight.grad is None


def test_a_part_that_does_not_reach_the_weights_does_not_pull():
    weight, other = torch.ones(3, requires_grad=True), torch.ones(1, requires_grad=True)
    parts = {"task": weight.sum(), "constant": torch.tensor(2.0), "elsewhere": other.sum()}
    found = gradient_norms(loss_of(parts, dict.fromkeys(parts, 1.0), [weight]))
    assert found == pytest.approx({"task": math.sqrt(3), "constant": 0, "elsewhere": 0})


def test_a_model_better_than_the_most_frequent_class_learned():
    found = diagnose(0.9, LABELS, WEIGHTS, TASK, [])
    assert found.learned
    assert found.suspects == ()
    assert found.message == (
        "The model learned (training accuracy 0.900, most frequent class 0.500)."
    )


@pytest.mark.parametrize(
    ("labels", "accuracy", "learned"),
    [
        (LABELS, 0.518, False),  # within two points
        (LABELS, 0.525, True),
        (LABELS[:100], 0.62, False),  # within three standard deviations of so few
        (LABELS[:100], 0.68, True),
        (LABELS[:2], 0.5, False),
        (LABELS[:2], 1.0, True),  # at most half way to perfect is asked for
        (torch.tensor([0] * 99 + [1]), 0.99, False),
        (torch.tensor([0] * 99 + [1]), 1.0, True),
        (torch.tensor([0, 1, 2, 2]).repeat(1000), 0.51, False),
        (torch.tensor([0, 1, 2, 2]).repeat(1000), 0.55, True),
    ],
)
def test_how_much_better_it_must_be(labels, accuracy, learned):
    assert diagnose(accuracy, labels, WEIGHTS, TASK, []).learned is learned


def test_a_penalty_that_pulled_harder_than_the_task_is_named():
    rows = [
        {"cross_entropy": 2.0, "r3": 1.0, "weight_decay": 0.1},
        {"cross_entropy": 0.5, "r3": 20.0, "weight_decay": 0.4},
    ]
    found = diagnose(0.5, LABELS, WEIGHTS, TASK, rows)
    assert not found.learned
    assert found.suspects == ("r3",)
    assert found.message == (
        "The model did not learn (training accuracy 0.500, most frequent class 0.500): `r3` "
        "(weight 30) pulled up to 40 times as hard as `cross_entropy`. Lower its weight, or use "
        'weight="auto".'
    )


def test_all_penalties_that_pulled_harder_are_named():
    rows = [{"cross_entropy": 1.0, "r3": 2.0, "weight_decay": 3.0}]
    assert diagnose(0.5, LABELS, WEIGHTS, TASK, rows).suspects == ("r3", "weight_decay")


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"cross_entropy": 1.0, "r3": 0.9, "weight_decay": 0.0}],
        [{"cross_entropy": 0.0, "r3": 0.0, "weight_decay": 0.0}],
    ],
    ids=["no epoch", "weak penalties", "no gradients"],
)
def test_without_a_suspect_the_advice_is_another(rows):
    found = diagnose(0.5, LABELS, WEIGHTS, TASK, rows)
    assert not found.learned
    assert found.suspects == ()
    assert "no penalty pulled harder than the task. Try more epochs" in found.message


def test_an_objective_of_one_term_has_no_penalty():
    found = diagnose(0.5, LABELS, {"cross_entropy": 1.0}, TASK, [{"cross_entropy": 1.0}])
    assert found.suspects == ()


def test_the_task_need_not_come_first():
    rows = [{"r3": 5.0, "cross_entropy": 1.0}]
    found = diagnose(0.5, LABELS, {"r3": 9.0, "cross_entropy": 1.0}, TASK, rows)
    assert found.suspects == ("r3",)


def test_a_penalty_that_left_the_task_nothing_to_pull_with_is_named():
    rows = [{"cross_entropy": 0.0, "r3": 5.0}]
    assert diagnose(0.5, LABELS, {"cross_entropy": 1.0, "r3": 9.0}, TASK, rows).suspects == ("r3",)


def test_one_class_is_nothing_to_learn():
    assert diagnose(1.0, torch.zeros(5).long(), WEIGHTS, TASK, []).learned
