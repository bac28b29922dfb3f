import torch
from tests.reference import explainers as twins

from rightreasons.explainers import InputGradient
from rightreasons.types import Target


def test_equals_its_slow_twin(net, x, y):
    gradient = InputGradient()(net, x, y)
    for n in range(len(x)):
        expected = twins.input_gradient(net, x[n], int(y[n]))
        torch.testing.assert_close(gradient[n], expected, rtol=1e-6, atol=1e-8)


def test_other_targets_are_explained(net, x, y):
    given = x.clone().requires_grad_()
    for target in Target:
        (expected,) = torch.autograd.grad(target(net(given), y).sum(), given)
        torch.testing.assert_close(InputGradient(target=target)(net, x, y), expected)


def test_one_forward_and_one_backward(net, x, y):
    forwards, backwards = [], []
    net.register_forward_hook(lambda *_: forwards.append(1))
    net[-1].register_full_backward_hook(lambda *_: backwards.append(1))
    InputGradient()(net, x, y)
    assert (len(forwards), len(backwards)) == (1, 1)
