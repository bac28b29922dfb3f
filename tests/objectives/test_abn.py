import pytest
import torch
from tests.reference import focus, terms
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.models import attention_branch, normalised, resnet18
from rightreasons.objectives import ABN, AttentionCrossEntropy

BATCH = rr.Batch(x=torch.rand(2, 3, 8, 8), y=torch.tensor([0, 1]), mask=torch.ones(2, 1, 8, 8))


def test_equals_its_slow_twin():
    net = attention_branch(classes=3, channels=2, size=8, width=1 / 16).double().eval()
    batch = rr.Batch(
        x=torch.rand(3, 2, 8, 8, dtype=torch.float64),
        y=torch.tensor([0, 1, 2]),
        mask=torch.rand(3, 1, 8, 8, dtype=torch.float64),
    )
    probe = rr.Probe(net, batch, layers=["attention"])
    maps = probe.activations["attention"].detach()
    expected = [focus.attention_distance(maps[n, 0], batch.mask[n, 0]) for n in range(len(batch))]
    assert ABN()(probe).tolist() == pytest.approx([total / 64 for total in expected])
    assert ABN(reduction="sum")(probe).tolist() == pytest.approx(expected)


def test_is_the_cross_entropy_of_the_branch():
    net = attention_branch(classes=3, channels=2, size=8, width=1 / 16).double()
    batch = rr.Batch(x=torch.rand(4, 2, 8, 8, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0]))
    probe = rr.Probe(net, batch, layers=["attention_logits"])
    expected = terms.cross_entropy(probe.activations["attention_logits"], batch.y)
    losses = AttentionCrossEntropy()(probe)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64))
    losses.sum().backward()
    assert net.branch[0].weight.grad.any()
    assert net.perception.fc.weight.grad is None


@pytest.mark.parametrize("make", [ABN, AttentionCrossEntropy])
def test_a_model_without_a_branch_is_refused_with_a_remedy(make):
    net = resnet18(classes=2, size=8, width=1 / 32)
    with pytest.raises(InvalidSettingError, match="with an attention branch.*got ResNet.*Use the"):
        make().as_objective()(net, BATCH)


def test_a_probe_that_recorded_nothing_is_refused():
    net = attention_branch(classes=2, size=8, width=1 / 32)
    with pytest.raises(InvalidSettingError, match=r"made with `layers=\['attention'\]`"):
        ABN()(rr.Probe(net, BATCH))


@pytest.mark.parametrize("make", [ABN, AttentionCrossEntropy])
def test_a_branch_is_found_inside_other_models(make):
    net = attention_branch(classes=2, size=8, width=1 / 32).eval()
    expected = make().as_objective()(net, BATCH).total
    wrapped = [
        normalised(net, mean=0, deviation=1),
        nn.Sequential(nn.Identity(), nn.Sequential(net)),
        nn.DataParallel(net),
        nn.DataParallel(normalised(net, mean=0, deviation=1)),
    ]
    for model in wrapped:
        loss = make().as_objective()(model, BATCH)
        torch.testing.assert_close(loss.total, expected)
        loss.backward()
    (layer,) = make().layers_in(wrapped[0], BATCH.x)
    assert layer == f"net.{make.layers[0]}"


def test_a_branch_under_ddp(process_group):
    net = attention_branch(classes=2, size=8, width=1 / 32)
    wrapped = nn.parallel.DistributedDataParallel(net)
    rr.recipes.abn()(wrapped, BATCH).backward()
    assert net.attention[1].weight.grad.abs().sum() > 0


def test_other_layers_called_attention_are_no_branch():
    block = nn.ModuleDict({"attention": nn.Identity()})
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    net.encoder = block
    with pytest.raises(InvalidSettingError, match="with an attention branch.*got Sequential"):
        ABN().as_objective()(net, BATCH)
