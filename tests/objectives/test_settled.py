import pytest
import torch

from rightreasons.objectives.memory import settled


def test_gradients_are_those_of_the_graph():
    one, other, unused = (torch.rand(3, requires_grad=True) for _ in range(3))
    shared = (one * other).exp()
    parts = {"a": shared.sum(), "b": (shared * one).mean(), "constant": torch.tensor(2.0)}
    expected = torch.autograd.grad(3 * parts["a"] + parts["b"], [one, other], retain_graph=True)
    kept = settled(parts, [one, other, unused])
    assert [value.item() for value in kept.values()] == [part.item() for part in parts.values()]
    (3 * kept["a"] + kept["b"] + kept["constant"]).backward()
    for found, wanted in zip((one.grad, other.grad), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    assert unused.grad is None


def test_refuses_to_be_differentiated_twice():
    weight = torch.tensor(3.0, requires_grad=True)
    square = settled({"square": weight**2}, [weight])["square"]
    (gradient,) = torch.autograd.grad(square * weight, weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.backward()
