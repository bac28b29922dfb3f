import pytest
import torch
from tests.reference import focus

import rightreasons as rr
from rightreasons.models import attention_branch
from rightreasons.objectives import ABN


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
    assert ABN()(probe).tolist() == pytest.approx(expected)
