import torch
from torch import nn

import rightreasons as rr
from rightreasons.strategies.divdis import TwoHeads


def test_logits_are_the_first_and_the_second_is_recorded():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    heads = TwoHeads(model, model[2], seed=0)
    batch = rr.Batch(x=torch.rand(5, 3), y=torch.zeros(5, dtype=torch.int64))
    probe = rr.Probe(heads, batch, layers=["second"])
    assert torch.equal(probe.logits, model(batch.x))
    assert torch.equal(probe.activations["second"], heads.second(model[:2](batch.x)))
    assert not torch.equal(heads.second.weight, model[2].weight)
    names = dict(heads.named_parameters())
    assert len(names) == 6


def test_the_second_can_be_used():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    heads = TwoHeads(model, model[1], seed=0)
    heads.use_second()
    assert torch.equal(model[1].weight, heads.second.weight)
    assert torch.equal(model[1].bias, heads.second.bias)


def test_weights_depend_on_the_seed_alone():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    one, same, other = (TwoHeads(model, model[1], seed=seed).second.weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
