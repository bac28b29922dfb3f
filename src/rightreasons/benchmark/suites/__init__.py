"""One suite = one file = one function that gives a `Suite`, with the paper's figures beside it."""

from rightreasons.benchmark.suites.decoy_mnist import decoy_mnist as decoy_mnist
from rightreasons.benchmark.suites.r4_corruption import r4_corruption as r4_corruption
from rightreasons.benchmark.suites.r4_mask_fraction import r4_mask_fraction as r4_mask_fraction
from rightreasons.benchmark.suites.r4_model_size import r4_model_size as r4_model_size
from rightreasons.benchmark.suites.r4_table1 import r4_table1 as r4_table1
from rightreasons.benchmark.suites.r4_table2 import r4_table2 as r4_table2
from rightreasons.benchmark.suites.r4_weight_decay import r4_weight_decay as r4_weight_decay

__all__ = [
    "decoy_mnist",
    "r4_corruption",
    "r4_mask_fraction",
    "r4_model_size",
    "r4_table1",
    "r4_table2",
    "r4_weight_decay",
]
