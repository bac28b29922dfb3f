import pytest
import torch

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.models import attention_branch, resnet18
from rightreasons.objectives import ABN, AttentionCrossEntropy

BATCH = rr.Batch(x=torch.rand(2, 3, 8, 8), y=torch.tensor([0, 1]), mask=torch.ones(2, 1, 8, 8))


@pytest.mark.parametrize("make", [ABN, AttentionCrossEntropy])
def test_a_model_without_a_branch_is_refused_with_a_remedy(make):
    net = resnet18(classes=2, size=8, width=1 / 32)
    with pytest.raises(InvalidSettingError, match="with an attention branch.*got ResNet.*Use the"):
        make().as_objective()(net, BATCH)


def test_a_probe_that_recorded_nothing_is_refused():
    net = attention_branch(classes=2, size=8, width=1 / 32)
    with pytest.raises(InvalidSettingError, match=r"made with `layers=\['attention'\]`"):
        ABN()(rr.Probe(net, BATCH))
