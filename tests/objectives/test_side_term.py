import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.models import Abstaining, normalised
from rightreasons.objectives import DeepGamblers, SideTerm


def test_layers_are_found_inside_other_models():
    net = normalised(Abstaining(nn.Sequential(nn.Flatten(), nn.Linear(4, 4))), mean=0, deviation=1)
    batch = rr.Batch(x=torch.rand(2, 1, 2, 2), y=torch.tensor([0, 1]))
    term = DeepGamblers()
    assert isinstance(term, SideTerm)
    assert term.layers_in(net, batch.x) == ("net.all_logits",)
    assert term.as_objective()(net, batch).total.isfinite()


def test_a_model_without_them_and_a_probe_without_them_are_refused():
    batch = rr.Batch(x=torch.rand(2, 4), y=torch.tensor([0, 1]))
    with pytest.raises(InvalidSettingError, match="a layer called 'all_logits', but Linear has no"):
        DeepGamblers().as_objective()(nn.Linear(4, 4), batch)
    with pytest.raises(InvalidSettingError, match=r"a probe made with `layers=\['all_logits'\]`"):
        DeepGamblers()(rr.Probe(Abstaining(nn.Linear(4, 4)), batch))
