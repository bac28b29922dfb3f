import torch
from torch import nn

import rightreasons as rr
from rightreasons.models import Abstaining, abstaining, create


def test_gives_the_classes_and_records_all():
    inner = nn.Linear(5, 4)
    net = Abstaining(inner)
    batch = rr.Batch(x=torch.rand(6, 5), y=torch.tensor([0, 1, 2] * 2))
    probe = rr.Probe(net, batch, layers=["all_logits"])
    assert torch.equal(probe.activations["all_logits"], inner(batch.x))
    assert torch.equal(probe.logits, inner(batch.x)[:, :3])
    assert "accuracy" in rr.evaluate(net, batch, ["accuracy"])


def test_by_name_with_its_backbone():
    settings = {"backbone": "mlp", "backbone_settings": {"hidden": [6]}}
    net = create("abstaining", classes=3, channels=1, size=4, **settings)
    assert isinstance(net, Abstaining)
    assert net.model[-1].out_features == 4
    assert isinstance(
        abstaining(classes=2, size=4, activation="tanh", **settings).model[2], nn.Tanh
    )
