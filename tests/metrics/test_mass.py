import pytest
import torch

from rightreasons.metrics.mass import mass_rows, mass_summary


def test_shares_by_hand():
    size = torch.tensor([[1.0, 3.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    mask = torch.tensor([[0.0, 1.0, 1.0, 0.5], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    rows = mass_rows(size, mask)
    assert rows["mass"].tolist() == [5 / 8, 0, 0]
    assert rows["area"].tolist() == [2.5 / 4, 0.5, 0]
    assert rows["total"].tolist() == [8, 0, 4]
    summary = mass_summary(rows)  # the second has no map, the third no mask
    assert summary == {"": 5 / 8, "low": 5 / 8, "high": 5 / 8, "area": 0.625, "n": 1.0}


def test_nothing_to_sum_up():
    none = mass_rows(torch.ones(2, 4), torch.zeros(2, 4))
    assert mass_summary(none) == {"area": 0.0, "n": 0.0}
    flat = mass_rows(torch.zeros(2, 4), torch.ones(1, 4))
    assert mass_summary(flat) == {"": 0.0, "area": 1.0, "n": 0.0}


def test_the_interval_surrounds_the_mean():
    rows = mass_rows(torch.rand(50, 6), torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]))
    summary = mass_summary(rows)
    assert summary["low"] < summary[""] < summary["high"]
    assert summary["area"] == pytest.approx(1 / 3)
