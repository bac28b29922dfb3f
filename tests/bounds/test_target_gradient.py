import pytest
import torch
from tests.reference import bounds as slow

from rightreasons.bounds import Box
from rightreasons.bounds.functions import target_gradient
from rightreasons.types import Target

Y = torch.tensor([0, 1, 2, 1])


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("outward", [True, False])
def test_boxes_are_those_of_single_intervals(target, outward):
    logits = Box(torch.randn(4, 3, dtype=torch.float64), torch.rand(4, 3, dtype=torch.float64))
    box = target_gradient(logits, Y, target, outward=outward)
    box = Box(box.center, box.full_radius())
    for sample, label in enumerate(Y.tolist()):
        expected = slow.start(slow.intervals(logits, sample), label, target)
        torch.testing.assert_close(
            torch.tensor(slow.intervals(box, sample)), torch.tensor(expected), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("target", Target)
def test_at_a_point_it_is_autograd(target):
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(target(logits, Y).sum(), logits)
    box = target_gradient(Box(logits.detach(), torch.zeros(4, 3)), Y, target)
    torch.testing.assert_close(box.center, gradient)
    assert float(box.radius.max()) < 1e-15


def test_the_gradient_of_a_logit_is_known_exactly():
    logits = Box(torch.randn(4, 3), torch.ones(4, 3))
    assert target_gradient(logits, Y, Target.LOGIT).is_exact


def test_a_tie_for_second_place_is_left_open():
    logits = Box.exact(torch.tensor([[3.0, 1.0, 1.0]]))
    box = target_gradient(logits, torch.tensor([0]), Target.MARGIN)
    assert box.lower.tolist() == [[1, -1, -1]] and box.upper.tolist() == [[1, 0, 0]]
