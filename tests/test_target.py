import math

import pytest
import torch

from rightreasons.errors import UnknownNameError
from rightreasons.types import Target
from tests.reference.metrics import probabilities


def looped(name, row, label):
    """The table of the docstring, one sample at a time."""
    others = [value for k, value in enumerate(row) if k != label]
    return {
        "loss": lambda: -math.log(probabilities(row)[label]),
        "logit": lambda: row[label],
        "log_probabilities": lambda: sum(math.log(p) for p in probabilities(row)),
        "logsumexp": lambda: math.log(sum(math.exp(value) for value in row)),
        "margin": lambda: row[label] - max(others),
    }[name]()


NAMES = [target.value for target in Target]


@pytest.fixture
def logits():
    return 3 * torch.randn(7, 4, dtype=torch.float64)


@pytest.fixture
def y():
    return torch.randint(4, (7,))


@pytest.mark.parametrize("name", NAMES)
def test_equals_a_loop(name, logits, y):
    pairs = zip(logits.tolist(), y.tolist(), strict=True)
    expected = torch.tensor([looped(name, row, label) for row, label in pairs]).double()
    values = Target(name)(logits, y)
    assert values.shape == (7,)
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_can_be_differentiated_twice(name, logits, y):
    logits.requires_grad_()
    target = Target(name)
    assert torch.autograd.gradcheck(lambda values: target(values, y), (logits,))
    assert torch.autograd.gradgradcheck(lambda values: target(values, y), (logits,))


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_not_see_the_others(name, logits, y):
    alone = torch.cat([Target(name)(logits[n : n + 1], y[n : n + 1]) for n in range(7)])
    torch.testing.assert_close(Target(name)(logits, y), alone)


def test_the_margin_is_positive_where_the_answer_is_right(logits, y):
    right = logits.argmax(dim=1) == y
    assert torch.equal(Target.MARGIN(logits, y) > 0, right)


def test_large_logits_overflow_nothing():
    logits = torch.tensor([[1e4, -1e4, 0.0]])
    for name in NAMES:
        assert torch.isfinite(Target(name)(logits, torch.tensor([1]))).all()


def test_a_name_is_as_good_as_the_target():
    assert Target("logit") is Target.LOGIT
    assert Target(Target.LOGIT) is Target.LOGIT
    assert Target.LOGIT == "logit"
    assert NAMES == ["loss", "logit", "log_probabilities", "logsumexp", "margin"]


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Expected a target, but got 'logits'. Did you mean"):
        Target("logits")
    with pytest.raises(UnknownNameError, match="got '3'. Known: log_probabilities, logit, logs"):
        Target(3)
