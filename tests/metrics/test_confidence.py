import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics.risk_coverage import SCORES, confidence
from rightreasons.models import Abstaining, SelectiveHeads, normalised


def probe_of(model, x):
    return rr.Probe(model, rr.Batch(x=x, y=torch.zeros(len(x), dtype=torch.int64)))


def test_softmax_orders_as_probabilities_do_and_never_rounds_to_one():
    x = torch.randn(20, 3, dtype=torch.float64)
    odds = confidence(probe_of(nn.Identity(), x), "softmax").double()
    chances = x.softmax(dim=1).amax(dim=1)
    torch.testing.assert_close(odds.sigmoid(), chances, rtol=1e-5, atol=1e-6)
    sure = torch.tensor([[60.0, 0.0, 0.0], [50.0, 0.0, 0.0]])
    first, second = confidence(probe_of(nn.Identity(), sure), "softmax")
    assert first > second


def test_logit_is_the_largest():
    x = torch.tensor([[1.0, 3.0], [2.0, 0.0]])
    assert confidence(probe_of(nn.Identity(), x), "logit").tolist() == [3, 2]


def test_abstain_is_what_is_left_beside_abstaining():
    x = torch.randn(5, 1, 2, 2)
    net = Abstaining(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
    inside = normalised(net, mean=0.0, deviation=1.0)
    left = 1 - net.model(x).softmax(dim=1)[:, -1]
    for model in (net, inside):
        torch.testing.assert_close(confidence(probe_of(model, x), "abstain").sigmoid(), left)


def test_selection_is_the_head_as_at_test_time():
    heads = SelectiveHeads(body=nn.Linear(3, 4), num_features=4, classes=2, hidden=5)
    x = torch.randn(6, 3)
    found = confidence(probe_of(heads, x), "selection")
    assert heads.training and not any(module._forward_hooks for module in heads.modules())
    heads.eval()
    torch.testing.assert_close(found, heads.selection(heads.body(x))[:, 0])
    assert not found.requires_grad


def test_a_model_without_the_layer_is_refused():
    probe = probe_of(nn.Linear(3, 2), torch.zeros(1, 3))
    for score, words in (("abstain", "Use the model abstaining"), ("selection", "selective_net")):
        with pytest.raises(InvalidSettingError, match=words):
            confidence(probe, score)
    assert set(SCORES) == {"softmax", "logit", "abstain", "selection"}
