import math

import pytest
import torch

from rightreasons.objectives.auto_weight import gradient_norm


def test_is_the_norm_over_all_parameters_and_keeps_the_graph():
    first, second = (torch.tensor([value], requires_grad=True) for value in (3.0, 1.0))
    idle = torch.ones(2, requires_grad=True)
    loss = (1.5 * first + 2.0 * second).sum()
    assert gradient_norm(loss, [first, second, idle], 1) == pytest.approx(math.hypot(1.5, 2.0))
    loss.backward()
    assert first.grad.item() == 1.5


def test_a_constant_has_none():
    assert gradient_norm(torch.tensor(1.0), [torch.ones(1, requires_grad=True)], 1) == 0.0
