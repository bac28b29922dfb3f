"""How sure a share is: bootstrap intervals of accuracies."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["bootstrap_means", "bootstrap_shares", "percentile_interval"]


def bootstrap_shares(
    hits: NDArray[np.int64], totals: NDArray[np.int64], *, draws: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    r"""Draw shares again from what was seen: ``(draws, G)``.

    Resampling n zeros and ones with replacement and averaging them is one binomial draw,
    :math:`\mathrm{Bin}(n, k/n) / n`, so the bootstrap needs no resampled rows.
    """
    generator = np.random.default_rng(seed)
    shares = hits / totals
    return np.asarray(generator.binomial(totals, shares, size=(draws, len(totals))) / totals)


def bootstrap_means(
    values: NDArray[np.float64], *, draws: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    """Draw means again from what was seen, with replacement: ``(draws,)``."""
    generator = np.random.default_rng(seed)
    return np.array(
        [values[generator.integers(len(values), size=len(values))].mean() for _ in range(draws)]
    )


def percentile_interval(
    values: NDArray[np.float64], *, confidence: float = 0.95
) -> tuple[float, float]:
    """The middle ``confidence`` of drawn values."""
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
