"""The contract of terms that read layers: heat maps, attention, and outputs for abstaining."""

import copy
import pickle

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.models import Abstaining, SelectiveHeads, attention_branch, resnet18
from rightreasons.objectives import (
    ABN,
    AttentionCrossEntropy,
    CrossEntropy,
    DeepGamblers,
    ReFF,
    ReFFL1,
    ReFFL2,
    SelectiveNet,
)


def cnn():
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Softplus(), nn.AvgPool2d(2)),
        *(nn.Conv2d(4, 5, 3, padding=1), nn.BatchNorm2d(5), nn.Softplus()),
        *(nn.Flatten(), nn.Linear(80, 6), nn.Tanh(), nn.Linear(6, 3)),
    ).double()


def resnet():
    return resnet18(classes=3, channels=2, size=8, width=1 / 32, activation="softplus").double()


def attending():
    return attention_branch(
        classes=3, channels=2, size=8, width=1 / 16, activation="softplus"
    ).double()


def abstaining():
    return Abstaining(
        nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4))
    ).double()


def selecting():
    body = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh())
    heads = SelectiveHeads(body=body, num_features=6, classes=3, hidden=4, activation="softplus")
    return heads.double()


# name: (how to make it, nets it is tried on)
ON_IMAGES = {
    "reff": (ReFF, (cnn, resnet)),
    "reff margin": (lambda: ReFF(target="margin"), (cnn,)),
    "reff l1": (ReFFL1, (cnn,)),
    "reff l2": (ReFFL2, (cnn, resnet)),
    "abn": (ABN, (attending,)),
    "attention_cross_entropy": (AttentionCrossEntropy, (attending,)),
}
SELECTIVE = {
    "deep_gamblers": (DeepGamblers, (abstaining,)),
    "selective_net": (lambda: SelectiveNet(coverage=0.9), (selecting,)),
    "selective_net covered": (lambda: SelectiveNet(coverage=0.01), (selecting,)),
}
CASES = {**ON_IMAGES, **SELECTIVE}
ZERO_WITHOUT_MASK = ("reff", "reff margin")
MASKED = ("reff", "reff l1", "reff l2", "abn")


def over(cases):
    pairs = [(name, net) for name, (_, nets) in cases.items() for net in nets]
    ids = [f"{name}, {net.__name__}" for name, net in pairs]
    return pytest.mark.parametrize(("name", "make_net"), pairs, ids=ids)


def images():
    x = torch.rand(3, 2, 8, 8, dtype=torch.float64)
    mask = (torch.rand(3, 1, 8, 8, dtype=torch.float64) < 0.6).double()
    return rr.Batch(x=x, y=torch.tensor([0, 1, 2]), mask=mask)


def rows():
    return rr.Batch(x=torch.rand(7, 5, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0, 1, 2, 0]))


def case(name, make_net):
    """A term, a net in train mode whose statistics are not those it began with, and a batch."""
    batch, net = rows() if name in SELECTIVE else images(), make_net()
    net(torch.rand(20, *batch.x.shape[1:], dtype=torch.float64))
    return CASES[name][0](), net, batch


def value(term, net, batch):
    return term.as_objective().with_settings(frozen_statistics=True)(net, batch).total


@over(CASES)
def test_parameter_gradients_equal_finite_differences(name, make_net):
    term, net, batch = case(name, make_net)
    net.eval()
    value(term, net, batch).backward()
    reached = 0
    for parameter in net.parameters():
        direction = torch.randn_like(parameter)
        slope = 0.0 if parameter.grad is None else float((parameter.grad * direction).sum())
        ends = []
        with torch.no_grad():
            for step in (1e-6, -1e-6):
                parameter += step * direction
                ends.append(value(term, net, batch).item())
                parameter -= step * direction
        expected = (ends[0] - ends[1]) / 2e-6
        assert slope == pytest.approx(expected, rel=1e-4, abs=1e-7 if name in SELECTIVE else 1e-6)
        reached += abs(expected) > 1e-6
    assert reached > 4


@over(ON_IMAGES)
def test_a_sample_does_not_depend_on_its_batch(name, make_net):
    term, net, batch = case(name, make_net)
    net.eval()
    layers = term.layers_in(net, batch.x)
    together = term(rr.Probe(net, batch, needs_gradient=True, layers=layers))
    assert together.shape == (3,)
    for n in range(3):
        alone = term(rr.Probe(net, batch[n : n + 1], needs_gradient=True, layers=layers))
        torch.testing.assert_close(alone[0], together[n], rtol=1e-10, atol=1e-12)


@over(CASES)
def test_the_model_is_left_as_a_plain_pass_leaves_it(name, make_net):
    term, net, batch = case(name, make_net)
    plain = copy.deepcopy(net)
    plain(batch.x)
    term.as_objective()(net, batch)
    assert all(module.training and not module._forward_hooks for module in net.modules())
    assert all(parameter.grad is None for parameter in net.parameters())
    for ours, theirs in zip(net.buffers(), plain.buffers(), strict=True):
        assert torch.equal(ours, theirs)


@over(CASES)
def test_copies_and_values_without_gradients_are_the_same(name, make_net):
    term, net, batch = case(name, make_net)
    net.eval()
    first = value(term, net, batch)
    with torch.no_grad():
        assert value(term, net, batch).item() == pytest.approx(first.item(), rel=1e-12)
    for twin in (copy.deepcopy(term), pickle.loads(pickle.dumps(term))):
        assert torch.equal(value(twin, net, batch), first)


@over(SELECTIVE)
def test_a_fit_lowers_it(name, make_net):
    term, net, batch = case(name, make_net)
    before = value(term, net.eval(), batch).item()
    rr.fit(net.train(), term, batch, epochs=30, lr=0.02, accelerator="cpu", progress=False)
    assert value(term, net, batch).item() < before


@pytest.mark.parametrize("name", ZERO_WITHOUT_MASK)
def test_an_all_zero_mask_is_exactly_erm(name):
    net, batch = cnn().eval(), images()
    blank = batch.replace(mask=torch.zeros_like(batch.mask))
    erm = rr.recipes.erm()(net, blank).total
    focused = (CrossEntropy() + 10.0 * CASES[name][0]())(net, blank).total
    assert torch.equal(erm, focused)
    slopes = [torch.autograd.grad(total, list(net.parameters())) for total in (erm, focused)]
    assert all(torch.equal(a, b) for a, b in zip(*slopes, strict=True))


@pytest.mark.parametrize("name", MASKED)
def test_samples_without_a_mask_add_nothing_and_predicted_masks_count(name):
    make, nets = CASES[name]
    net, term, batch = nets[0]().eval(), make(), images()
    layers = term.layers_in(net, batch.x)
    mask, annotated = batch.mask.clone(), torch.tensor([False, True, False])
    mask[2] = 0  # the first mask is predicted, the third is missing
    some = batch.replace(mask=mask, annotated=annotated)
    losses = term(rr.Probe(net, some, needs_gradient=True, layers=layers))
    of_all = term(rr.Probe(net, batch, needs_gradient=True, layers=layers))
    assert losses[0] > 0
    assert torch.allclose(losses[:2], of_all[:2])
    assert losses[2] == 0


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_is_required_and_the_error_says_so(name):
    (make, nets), batch = CASES[name], images()
    bare = rr.Batch(x=batch.x, y=batch.y)
    with pytest.raises(rr.errors.InvalidBatchError, match="Expected a batch with a `mask`"):
        make().as_objective()(nets[0](), bare)
