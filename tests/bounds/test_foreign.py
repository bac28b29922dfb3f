"""Bounds of other libraries' nets, whose code asks for shapes."""

from pathlib import Path

import pytest
import torch

import rightreasons as rr
from rightreasons.errors import UnsupportedLayerError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def nets(monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(BENCHMARKS)
    import foreign_nets

    return foreign_nets


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ResNet", "ConvNeXt"])
def test_convolutional_nets_are_certified(name, nets):
    x, mask = torch.rand(2, 3, 32, 32), torch.zeros(2, 1, 32, 32)
    mask[:, :, :2, :2] = 1
    batch = rr.Batch(x=x, y=torch.tensor([0, 1]), mask=mask)
    net = nets.NETS[name]().eval()
    point = rr.bounds.output_bounds(net.double(), x.double(), x.double(), outward=False)
    torch.testing.assert_close(point.lower, net(x.double()))
    with torch.no_grad():  # untrained logits are nearly equal
        [*net.parameters()][-1].copy_(torch.tensor([5.0, -5.0]))
    certificate = rr.certify(net.float(), batch, epsilon=1e-6, num_steps=1, num_restarts=1)
    assert {one.status for one in certificate.samples} == {"verified"}


def test_layers_without_rules_are_named_with_their_place(nets):
    place = "`net.vit.layers.1.attention`"
    with pytest.raises(UnsupportedLayerError, match=f"dot_product_attention` in {place} .has no"):
        rr.bounds.output_bounds(nets.NETS["ViT"](), *torch.rand(2, 1, 3, 32, 32).sort(0).values)


def test_code_that_depends_on_values_is_refused_with_its_place():
    class Inner(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    net = torch.nn.Sequential(torch.nn.Linear(4, 2), Inner())
    with pytest.raises(UnsupportedLayerError, match="cannot be traced in `1`"):
        rr.bounds.output_bounds(net, torch.zeros(1, 4), torch.ones(1, 4))
