"""One suite = one file = one function that gives a `Suite`, with the paper's figures beside it."""

from rightreasons.benchmark.suites.alignment_table1 import alignment_table1 as alignment_table1
from rightreasons.benchmark.suites.decoy_mnist import decoy_mnist as decoy_mnist
from rightreasons.benchmark.suites.density_figure4 import density_figure4 as density_figure4
from rightreasons.benchmark.suites.density_groups import density_groups as density_groups
from rightreasons.benchmark.suites.density_table1 import density_table1 as density_table1
from rightreasons.benchmark.suites.density_unseen import density_unseen as density_unseen
from rightreasons.benchmark.suites.masktune_figure2 import masktune_figure2 as masktune_figure2
from rightreasons.benchmark.suites.masktune_table1 import masktune_table1 as masktune_table1
from rightreasons.benchmark.suites.masktune_table4 import masktune_table4 as masktune_table4
from rightreasons.benchmark.suites.masktune_table5 import masktune_table5 as masktune_table5
from rightreasons.benchmark.suites.masktune_table6 import masktune_table6 as masktune_table6
from rightreasons.benchmark.suites.r4_corruption import r4_corruption as r4_corruption
from rightreasons.benchmark.suites.r4_mask_fraction import r4_mask_fraction as r4_mask_fraction
from rightreasons.benchmark.suites.r4_model_size import r4_model_size as r4_model_size
from rightreasons.benchmark.suites.r4_table1 import r4_table1 as r4_table1
from rightreasons.benchmark.suites.r4_table2 import r4_table2 as r4_table2
from rightreasons.benchmark.suites.r4_weight_decay import r4_weight_decay as r4_weight_decay
from rightreasons.benchmark.suites.reff_decoy_ham import reff_decoy_ham as reff_decoy_ham
from rightreasons.benchmark.suites.reff_regimes import reff_regimes as reff_regimes
from rightreasons.benchmark.suites.reff_table2 import reff_table2 as reff_table2
from rightreasons.benchmark.suites.reff_table3 import reff_table3 as reff_table3

__all__ = [
    "alignment_table1",
    "decoy_mnist",
    "density_figure4",
    "density_groups",
    "density_table1",
    "density_unseen",
    "masktune_figure2",
    "masktune_table1",
    "masktune_table4",
    "masktune_table5",
    "masktune_table6",
    "r4_corruption",
    "r4_mask_fraction",
    "r4_model_size",
    "r4_table1",
    "r4_table2",
    "r4_weight_decay",
    "reff_decoy_ham",
    "reff_regimes",
    "reff_table2",
    "reff_table3",
]
