import pytest
import torch
from torch import nn

from rightreasons.metrics.explanation_metric import (
    CACHE_ROWS,
    rows_in_cache,
    split_for_cache,
    to_channels_last,
)
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch


def test_images_are_laid_out_with_channels_last_and_stay_the_same():
    x = torch.rand(2, 3, 4, 5)
    assert torch.equal(to_channels_last(x), x)
    assert to_channels_last(x).stride() == (60, 1, 15, 3)
    vectors = torch.rand(2, 3)
    assert to_channels_last(vectors) is vectors


def test_parts_are_small_and_all_there():
    x = torch.rand(2 * CACHE_ROWS + 1, 3, 4, 5)
    parts = split_for_cache(x)
    assert [len(part) for part in parts] == [CACHE_ROWS, CACHE_ROWS, 1]
    assert torch.equal(torch.cat(parts), x)
    assert parts[0].is_contiguous(memory_format=torch.channels_last)


def net(channels):
    return nn.Sequential(nn.Conv2d(3, channels, 1), nn.Flatten(), nn.Linear(channels * 1024, 2))


@pytest.mark.parametrize(("channels", "rows"), [(1, 1024), (8, 256), (9, 128), (32, 64), (999, 16)])
def test_a_wide_net_takes_fewer_rows(channels, rows):
    batch = Batch(x=torch.rand(3, 3, 32, 32), y=torch.zeros(3, dtype=torch.long))
    assert rows_in_cache(Probe(net(channels), batch)) == rows


def test_the_model_is_left_as_it_was_when_rows_are_counted():
    model = nn.Sequential(nn.BatchNorm2d(3), *net(4)).train()
    batch = Batch(x=torch.rand(3, 3, 32, 32), y=torch.zeros(3, dtype=torch.long))
    probe = Probe(model, batch)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows_in_cache(probe)
    assert model.training
    assert not any(layer._forward_hooks for layer in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
