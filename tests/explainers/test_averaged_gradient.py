import torch

from rightreasons.explainers.gradients import averaged_gradient, stacked_rows
from rightreasons.explainers.subject import Subject
from rightreasons.types import Target


def test_rows_come_once_and_under_the_ceiling():
    for ceiling, sizes in ((None, [6]), (4, [4, 2]), (1, [1] * 6), (99, [6])):
        parts = list(stacked_rows(2, 3, ceiling, torch.device("cpu")))
        assert [len(copies) for copies, _ in parts] == sizes
        pairs = [pair for part in parts for pair in zip(*(p.tolist() for p in part), strict=True)]
        assert pairs == [(copy, sample) for copy in range(2) for sample in range(3)]


def test_equals_a_loop_under_any_ceiling(net, x, y):
    weights = torch.tensor([0.5, -1.0, 2.0, 0.25])
    shifts = torch.rand(4, *x.shape[1:], dtype=x.dtype)
    expected = torch.zeros_like(x)
    for weight, shift in zip(weights, shifts, strict=True):
        given = (x + shift).requires_grad_()
        (gradient,) = torch.autograd.grad(Target.LOGIT(net(given), y).sum(), given)
        expected += weight * gradient
    rows = []
    net.register_forward_pre_hook(lambda module, inputs: rows.append(len(inputs[0])))
    for ceiling in (None, 5, 1):
        rows.clear()
        total = averaged_gradient(
            Subject(net, x, y, create_graph=False),
            lambda copies, samples: x[samples] + shifts[copies],
            weights,
            target=Target.LOGIT,
            max_rows=ceiling,
        )
        torch.testing.assert_close(total, expected)
        assert max(rows) == (ceiling or 12)
