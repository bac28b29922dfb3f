import weakref

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import R3, AlignmentTerm, CrossEntropy, L2Alignment, Term, WeightDecay
from rightreasons.objectives.memory import (
    mean_losses,
    mean_losses_task_first,
    replace_graphs,
    restrict_backward,
)

NETS = {
    "plain": lambda: nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 2)),
    "batch norm": lambda: nn.Sequential(
        nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Softplus(), nn.Linear(5, 2)
    ),
}
BATCH = rr.Batch(x=torch.rand(6, 3).double(), y=torch.arange(6) % 2)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("perturbation", ["uniform", "sign"])
def test_alignment_has_the_same_gradient_either_way(name, perturbation, monkeypatch):
    found = []
    for detach_from in (AlignmentTerm.detach_from, lambda self, probe: False):
        monkeypatch.setattr(AlignmentTerm, "detach_from", detach_from)
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
    outputs, alive = [], []

    def watch(_module, _inputs, output):
        alive.append(bool(outputs) and outputs[0]() is not None)
        outputs.append(weakref.ref(output))

    net[-2].register_forward_hook(watch)
    objective = CrossEntropy() + L2Alignment(detach_source=detach_source) + WeightDecay()
    loss = objective(net, BATCH)
    assert len(alive) > 1
    assert alive[-1] != detach_source  # in the pass near the samples
    loss.backward()
    assert all(one.grad is not None for one in net.parameters())


def test_small_gradients_do_not_vanish_before_a_loss_is_scaled():
    probe = rr.Probe(NETS["plain"]().double(), BATCH, needs_gradient=True)
    terms = {"task": CrossEntropy(), "penalty": L2Alignment()}
    stops = list(probe.model.parameters())
    assert "StoredGradients" in str(mean_losses_task_first(terms, probe, stops, [])["task"].grad_fn)
    probe = rr.Probe(probe.model, BATCH, needs_gradient=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "StoredGradients" not in str(
            mean_losses_task_first(terms, probe, stops, [])["task"].grad_fn
        )


def test_a_term_gives_one_loss_a_sample():
    class Mean(CrossEntropy):
        def forward(self, probe):
            return super().forward(probe).mean()

    probe = rr.Probe(NETS["plain"]().double(), BATCH)
    with pytest.raises(InvalidSettingError, match=r"'mean' to give one loss a sample, \(6,\)"):
        mean_losses({"mean": Mean()}, probe)


def test_gradients_are_those_of_the_graph():
    one, other, unused = (torch.rand(3, requires_grad=True) for _ in range(3))
    shared = (one * other).exp()
    parts = {"a": shared.sum(), "b": (shared * one).mean(), "constant": torch.tensor(2.0)}
    expected = torch.autograd.grad(3 * parts["a"] + parts["b"], [one, other], retain_graph=True)
    kept = replace_graphs(parts, [one, other, unused])
    assert [value.item() for value in kept.values()] == [part.item() for part in parts.values()]
    (3 * kept["a"] + kept["b"] + kept["constant"]).backward()
    for found, wanted in zip((one.grad, other.grad), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    assert unused.grad is None


def test_refuses_to_be_differentiated_twice():
    weight = torch.tensor(3.0, requires_grad=True)
    square = replace_graphs({"square": weight**2}, [weight])["square"]
    (gradient,) = torch.autograd.grad(square * weight, weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.backward()


def test_backward_stops_where_it_is_told_and_nowhere_else():
    wanted, other = (torch.ones(1, requires_grad=True) for _ in range(2))
    total = restrict_backward((2 * wanted + 3 * other).sum(), [wanted])
    total.backward(retain_graph=True)
    assert (wanted.grad.item(), other.grad) == (2.0, None)
    total.backward(inputs=[other], retain_graph=True)
    assert other.grad.item() == 3.0
    (total * 1.0).backward()
    assert (wanted.grad.item(), other.grad.item()) == (4.0, 6.0)
    assert type(total * 1.0) is torch.Tensor


def test_without_stops_it_is_the_same_tensor():
    total = torch.ones(1, requires_grad=True).sum()
    assert restrict_backward(total, None) is total


def test_the_gradient_of_the_input_is_not_computed(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    seen = []

    class Watch(Term):
        needs_gradient = True

        def forward(self, probe):
            probe.features.register_hook(seen.append)
            return probe.gradient().square().flatten(1).sum(dim=1)

    loss = (CrossEntropy() + 1.0 * Watch())(model, tiny_batch)
    seen.clear()  # the hook sees the first-order gradient too
    loss.total.backward()
    assert not seen
    assert model[1].weight.grad.abs().sum() > 0


def test_parameters_of_terms_get_their_gradient(tiny_net, tiny_batch):
    class Scaled(Term):
        needs_gradient = True

        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

        def forward(self, probe):
            return self.scale * probe.gradient().square().flatten(1).sum(dim=1)

    term = Scaled()
    (CrossEntropy() + 1.0 * term)(tiny_net, tiny_batch).total.backward()
    assert term.scale.grad > 0


def test_inputs_that_want_a_gradient_get_it(tiny_net, tiny_batch):
    tiny_net.eval()
    x = tiny_batch.x.clone().requires_grad_()
    batch = rr.Batch.trusted(x=x, y=tiny_batch.y, mask=tiny_batch.mask)
    (CrossEntropy() + 1.0 * R3())(tiny_net, batch).total.backward()
    assert x.grad.abs().sum() > 0
