import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.models import attention_branch
from rightreasons.objectives import AttentionCrossEntropy


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
