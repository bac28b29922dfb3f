import pytest
import torch
from torch import nn

from rightreasons.core import model_modes as mode


@pytest.mark.parametrize(
    ("layer", "depends"),
    [
        (nn.Linear(2, 2), False),
        (nn.BatchNorm1d(2), True),
        (nn.Dropout(0.5), True),
        (nn.Dropout(0.0), False),
        (nn.InstanceNorm1d(2), False),
        (nn.InstanceNorm1d(2, track_running_stats=True), True),
    ],
)
def test_knows_which_layers_depend_on_their_mode(layer, depends):
    assert mode.depends_on_mode(nn.Sequential(layer)) is depends
    assert not mode.depends_on_mode(nn.Sequential(layer).eval())


def test_test_time_is_undone_also_after_an_error():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    model[0].eval()
    statistics = model[1].running_mean
    with pytest.raises(ZeroDivisionError), mode.test_time_mode(model):
        assert not any(module.training for module in model.modules())
        assert model[1].running_mean is not statistics
        model(torch.rand(4, 2))
        raise ZeroDivisionError
    assert [module.training for module in model.modules()] == [True, False, True, True]
    assert model[1].running_mean is statistics
    assert torch.equal(statistics, torch.zeros(2))


def test_layers_have_other_statistics_for_a_while():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).train()
    before = mode.statistics_of(net)
    own = net[1].running_mean
    net(torch.rand(8, 2))
    assert not torch.equal(own, torch.zeros(3))
    with mode.with_statistics(before):
        assert torch.equal(net[1].running_mean, torch.zeros(3))
    assert net[1].running_mean is own
    with pytest.raises(KeyError), mode.with_statistics(before):
        raise KeyError
    assert net[1].running_mean is own
    assert mode.statistics_of(net.eval()) == []
