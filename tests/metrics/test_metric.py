from unittest import mock

import numpy as np
import pytest
import torch
from torch import distributed, nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import Metric
from rightreasons.metrics.metric import bootstrap_fractions, percentile_interval


class Values(Metric):
    """Remembers the first feature of each sample."""

    name = "values"
    higher_is_better = True

    def measure(self, probe):
        return {"value": probe.logits[:, 0]}

    def summary(self, rows):
        return {str(row): value for row, value in enumerate(rows["value"].tolist())}


def probe(values, index=None):
    x = torch.tensor([[value, 0.0] for value in values]).reshape(-1, 2)
    index = None if index is None else torch.tensor(index, dtype=torch.long)
    return rr.Probe(nn.Identity(), rr.Batch(x=x, y=torch.zeros(len(x)).long(), index=index))


def measured(*probes):
    metric = Values()
    for one in probes:
        metric.update(one)
    return list(metric.compute().values())


def test_rows_come_in_the_order_of_the_data_set():
    assert measured(probe([5.0, 2.0], [4, 1]), probe([3.0, 7.0], [2, 9])) == [2, 3, 5, 7]


def test_a_sample_seen_twice_counts_once_and_the_first_time():
    assert measured(probe([1.0, 2.0], [3, 5]), probe([9.0, 8.0], [5, 4])) == [1, 8, 2]
    assert measured(probe([1.0, 2.0, 3.0], [7, 7, 7])) == [1]


def test_samples_without_an_index_are_all_different():
    assert sorted(measured(probe([1.0, 1.0]), probe([1.0, 2.0]))) == [1, 1, 1, 2]


def test_samples_without_an_index_are_none_of_those_with_one():
    mixed = measured(probe([1.0, 2.0], [0, 1]), probe([3.0, 4.0]), probe([5.0], [2]))
    assert sorted(mixed) == [1, 2, 3, 4, 5]


def test_samples_without_an_index_are_not_those_of_another_process():
    """What two processes would gather, one after the other."""
    gathered = []
    for rank in range(2):
        metric = Values()
        with (
            mock.patch.object(distributed, "is_initialized", return_value=True),
            mock.patch.object(distributed, "get_rank", return_value=rank),
            mock.patch.object(distributed, "get_world_size", return_value=2),
        ):
            metric.update(probe([1.0, 2.0]))
            metric.update(probe([3.0]))
        gathered += metric._rows
    assert len(torch.cat([rows["index"] for rows in gathered]).unique()) == 6


def test_reset_forgets():
    metric = Values()
    metric.update(probe([1.0]))
    metric.reset()
    metric.update(probe([2.0]))
    assert metric.compute() == {"0": 2.0}


def test_what_is_kept_holds_no_graph():
    x = torch.ones(2, 2, requires_grad=True)
    metric = Values()
    metric.update(rr.Probe(nn.Identity(), rr.Batch(x=x, y=torch.zeros(2).long())))
    assert not any(column.requires_grad for column in metric._rows[0].values())


@pytest.mark.parametrize("probes", [[], [probe([])]], ids=["no batch", "an empty batch"])
def test_nothing_measured(probes):
    with pytest.raises(InvalidBatchError, match=r"Expected a sample before Values.compute"):
        measured(*probes)


def test_empty_batches_are_nothing():
    assert measured(probe([], []), probe([1.0], [0]), probe([])) == [1]


def test_few_samples_are_drawn_once_and_whatever_the_batches():
    data = rr.Batch(x=torch.arange(20.0).reshape(10, 2), y=torch.zeros(10).long())
    few = [
        rr.evaluate(nn.Identity(), data, [Values().limit(4)], batch_size=size) for size in (3, 10)
    ]
    assert few[0] == few[1] == rr.evaluate(nn.Identity(), data, [Values()], max_samples=4)
    assert len(few[0]) == 4
    all_values = set(rr.evaluate(nn.Identity(), data, [Values()]).values())
    assert set(few[0].values()) < all_values


def test_more_samples_than_there_are_is_all():
    data = rr.Batch(x=torch.arange(6.0).reshape(3, 2), y=torch.zeros(3).long())
    assert len(rr.evaluate(nn.Identity(), data, [Values().limit(9)])) == 3


def test_no_sample_at_all_is_refused():
    with pytest.raises(InvalidSettingError, match="Expected `max_samples`"):
        Values().limit(0)


def naive_shares(hits, total, draws, seed):
    """Resample the zeros and ones themselves."""
    generator = np.random.default_rng(seed)
    rows = np.arange(total) < hits
    return np.array([rows[generator.integers(total, size=total)].mean() for _ in range(draws)])


def test_draws_are_shares_of_each_column():
    drawn = bootstrap_fractions(np.array([3, 0, 5]), np.array([4, 7, 5]), draws=50)
    assert drawn.shape == (50, 3)
    assert set(drawn[:, 0]) <= {0, 0.25, 0.5, 0.75, 1}


@pytest.mark.parametrize("total", [1, 7, 300])
def test_fractions_without_spread_have_the_interval_of_clopper_and_pearson(total):
    """A group of one sample must not look certain."""
    drawn = bootstrap_fractions(np.array([0, total]), np.array([total, total]), draws=40_000)
    (low, high), (other_low, other_high) = (percentile_interval(column) for column in drawn.T)
    exact = 0.025 ** (1 / total)
    assert (high, other_low) == pytest.approx((1 - exact, exact), abs=0.01)
    assert low == pytest.approx(0, abs=0.03) and other_high == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(("hits", "total"), [(3, 4), (45, 50), (10, 80)])
def test_has_the_distribution_of_naive_resampling(hits, total):
    draws = 20_000
    ours = bootstrap_fractions(np.array([hits]), np.array([total]), draws=draws, seed=1)[:, 0]
    naive = naive_shares(hits, total, draws, seed=2)
    grid = np.arange(total + 1) / total + 0.5 / total
    apart = np.abs((ours[:, None] <= grid).mean(axis=0) - (naive[:, None] <= grid).mean(axis=0))
    assert apart.max() < 1.95 * np.sqrt(2 / draws)  # Kolmogorov and Smirnov, one in a thousand


def test_columns_are_drawn_independently():
    drawn = bootstrap_fractions(np.array([50, 50]), np.array([100, 100]), draws=20_000)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.03


def test_depends_on_the_seed_alone():
    hits, totals = np.array([30]), np.array([50])
    first = bootstrap_fractions(hits, totals, seed=1)
    np.random.default_rng().random()
    assert (bootstrap_fractions(hits, totals, seed=1) == first).all()
    assert (bootstrap_fractions(hits, totals, seed=2) != first).any()


def test_the_interval_is_the_middle_of_the_values():
    values = np.arange(1001) / 1000
    assert percentile_interval(values) == pytest.approx((0.025, 0.975))
    assert percentile_interval(values, confidence=0.5) == pytest.approx((0.25, 0.75))


def test_nineteen_of_twenty_intervals_hold_the_truth():
    generator, truth, total = np.random.default_rng(0), 0.8, 200
    held = 0
    for trial in range(400):
        hits = np.array([generator.binomial(total, truth)])
        low, high = percentile_interval(
            bootstrap_fractions(hits, np.array([total]), seed=trial)[:, 0]
        )
        held += low <= truth <= high
    assert 0.92 < held / 400 < 0.98


@pytest.mark.parametrize(
    "name",
    [
        "adversarial_accuracy",
        "adv_insertion",
        "relative_core_sensitivity",
        "robust_criterion",
        "rps",
    ],
)
def test_data_outside_the_valid_range_are_refused(name):
    """Standardised data without a card: attacks and noise would stop at 0 and 1."""
    x = torch.linspace(-2, 2, 6 * 64).reshape(6, 1, 8, 8)
    data = rr.Batch(x=x, y=torch.arange(6) % 2, mask=torch.ones(6, 1, 8, 8))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    with pytest.raises(InvalidBatchError, match="from 0 to 1, the valid range, but got -2 to 2"):
        rr.evaluate(model, data, [name])
