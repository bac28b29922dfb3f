import gc
import weakref

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.objectives import AlignmentTerm, L2Alignment
from rightreasons.objectives.settled import settled

NETS = {
    "plain": lambda: nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 2)),
    "batch norm": lambda: nn.Sequential(
        nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Softplus(), nn.Linear(5, 2)
    ),
}
BATCH = rr.Batch(x=torch.rand(6, 3).double(), y=torch.arange(6) % 2)


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


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("perturbation", ["uniform", "sign"])
def test_alignment_has_the_same_gradient_either_way(name, perturbation, monkeypatch):
    found = []
    for leaves in (AlignmentTerm.leaves, lambda self, probe: False):
        monkeypatch.setattr(AlignmentTerm, "leaves", leaves)
        torch.manual_seed(0)
        net = NETS[name]().double()
        objective = rr.recipes.alignment(perturbation=perturbation, weight_decay=0.1)
        loss = objective(net, BATCH)
        loss.backward()
        found.append((loss.total.item(), [one.grad for one in net.parameters()]))
    assert found[0][0] == pytest.approx(found[1][0])
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("detach_source", [True, False])
def test_the_graph_of_the_task_is_gone_before_the_penalty_has_one(name, detach_source):
    net = NETS[name]().double()
    outputs = []
    net[-2].register_forward_hook(lambda _, __, y: outputs.append(weakref.ref(y)))
    objective = rr.objectives.CrossEntropy() + L2Alignment(detach_source=detach_source)
    loss = objective(net, BATCH)
    gc.collect()
    assert (outputs[0]() is None) == detach_source
    loss.backward()
    assert all(one.grad is not None for one in net.parameters())
