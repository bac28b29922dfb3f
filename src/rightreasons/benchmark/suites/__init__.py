"""One suite = one file = one function that gives a `Suite`, with the paper's figures beside it."""

from rightreasons.benchmark.suites.decoy_mnist import decoy_mnist as decoy_mnist

__all__ = ["decoy_mnist"]
