import weakref

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import AlignmentTerm, CrossEntropy, L2Alignment, WeightDecay
from rightreasons.objectives.objective import frugal_means, term_means

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
    assert "Settled" in str(frugal_means(terms, probe, stops, [])["task"].grad_fn)
    probe = rr.Probe(probe.model, BATCH, needs_gradient=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "Settled" not in str(frugal_means(terms, probe, stops, [])["task"].grad_fn)


def test_a_term_gives_one_loss_a_sample():
    class Mean(CrossEntropy):
        def forward(self, probe):
            return super().forward(probe).mean()

    probe = rr.Probe(NETS["plain"]().double(), BATCH)
    with pytest.raises(InvalidSettingError, match=r"'mean' to give one loss a sample, \(6,\)"):
        term_means({"mean": Mean()}, probe)
