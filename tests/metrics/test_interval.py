import numpy as np
import pytest

from rightreasons.metrics.metric import bootstrap_fractions, percentile_interval


def naive_shares(hits, total, draws, seed):
    """Resample the zeros and ones themselves."""
    generator = np.random.default_rng(seed)
    rows = np.arange(total) < hits
    return np.array([rows[generator.integers(total, size=total)].mean() for _ in range(draws)])


def test_draws_are_shares_of_each_column():
    drawn = bootstrap_fractions(np.array([3, 0, 5]), np.array([4, 7, 5]), draws=50)
    assert drawn.shape == (50, 3)
    assert set(drawn[:, 0]) <= {0, 0.25, 0.5, 0.75, 1}
    assert (drawn[:, 1] == 0).all()
    assert (drawn[:, 2] == 1).all()


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
