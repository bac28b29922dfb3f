import pytest
import torch
from tests.reference.strategies import deviations_mask, soft_mask, top_mask

from rightreasons.strategies.masktune import heat_mask

HEAT = torch.cat([torch.rand(4, 1, 5, 6), torch.rand(2, 1, 5, 6).mul(3).sub(2).clamp(min=0)]).pow(3)


@pytest.mark.parametrize("statistics", ["all", "positive"])
@pytest.mark.parametrize("k", [0.0, 1.0, 2.0])
def test_deviations_equal_the_slow_twin(statistics, k):
    expected = [deviations_mask(one[0].tolist(), k, statistics == "positive") for one in HEAT]
    assert heat_mask(HEAT, k=k, statistics=statistics)[:, 0].tolist() == expected


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_top_equals_the_slow_twin(share):
    expected = [top_mask(one[0].tolist(), share) for one in HEAT]
    assert heat_mask(HEAT, rule="top", share=share)[:, 0].tolist() == expected


def test_soft_equals_the_slow_twin():
    expected = torch.tensor([soft_mask(one[0].tolist()) for one in HEAT])
    torch.testing.assert_close(heat_mask(HEAT, rule="soft")[:, 0], expected)


@pytest.mark.parametrize("rule", ["deviations", "top", "soft"])
@pytest.mark.parametrize("statistics", ["all", "positive"])
def test_no_heat_no_mask(rule, statistics):
    blank = torch.zeros(2, 1, 3, 3)
    assert not heat_mask(blank, rule=rule, statistics=statistics).any()


@pytest.mark.parametrize("k", [0.0, 2.0])
def test_a_flat_map_stands_out_nowhere(k):
    assert not heat_mask(torch.full((1, 1, 28, 28), 0.1), k=k).any()


def test_a_map_does_not_depend_on_the_others():
    together = heat_mask(HEAT)
    for n in range(len(HEAT)):
        assert torch.equal(heat_mask(HEAT[n : n + 1])[0], together[n])
