import torch
from torch import nn

import rightreasons as rr
from rightreasons.metrics import RiskCoverage
from rightreasons.models.selective import AbstainingPair


def test_logits_are_logarithms_of_the_products():
    first, second = nn.Linear(4, 3), nn.Linear(4, 3)
    x = torch.randn(5, 4)
    logits = AbstainingPair(first, second)(x)
    products = first(x).softmax(dim=1) * second(x).softmax(dim=1)
    torch.testing.assert_close(logits.exp(), products)


def test_a_sample_on_which_they_disagree_is_answered_last():
    first, second = nn.Identity(), nn.Linear(2, 2, bias=False)
    second.weight.data = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # heeds the first feature alone
    x = torch.tensor([[3.0, 0.0], [-3.0, 4.0], [3.0, 9.0]])  # agree, agree, disagree
    batch = rr.Batch(x=x, y=torch.tensor([0, 1, 0]))
    metric = RiskCoverage(score="logit", coverages=[1.0, 2 / 3])
    pair = rr.evaluate(AbstainingPair(first, second), batch, [metric])
    alone = rr.evaluate(first, batch, [metric])
    assert pair["risk_coverage/error/66.6667"] < 1e-9
    assert alone["risk_coverage/error/66.6667"] > 0.4
