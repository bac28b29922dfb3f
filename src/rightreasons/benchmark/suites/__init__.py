"""Suites by paper: one function gives one `Suite`; the paper's figures stand beside it as YAML."""

from rightreasons.benchmark.suites.alignment import alignment_table1 as alignment_table1
from rightreasons.benchmark.suites.birds_and_faces import density_table2 as density_table2
from rightreasons.benchmark.suites.birds_and_faces import masktune_celeba as masktune_celeba
from rightreasons.benchmark.suites.birds_and_faces import masktune_waterbirds as masktune_waterbirds
from rightreasons.benchmark.suites.defaults import defaults as defaults
from rightreasons.benchmark.suites.density_figures import density_figure4 as density_figure4
from rightreasons.benchmark.suites.density_figures import density_groups as density_groups
from rightreasons.benchmark.suites.density_tables import density_table1 as density_table1
from rightreasons.benchmark.suites.density_tables import density_unseen as density_unseen
from rightreasons.benchmark.suites.masktune import masktune_figure2 as masktune_figure2
from rightreasons.benchmark.suites.masktune import masktune_table1 as masktune_table1
from rightreasons.benchmark.suites.masktune import masktune_table5 as masktune_table5
from rightreasons.benchmark.suites.masktune import masktune_table6 as masktune_table6
from rightreasons.benchmark.suites.masktune_selective import masktune_table4 as masktune_table4
from rightreasons.benchmark.suites.r4_figures import r4_corruption as r4_corruption
from rightreasons.benchmark.suites.r4_figures import r4_mask_fraction as r4_mask_fraction
from rightreasons.benchmark.suites.r4_figures import r4_model_size as r4_model_size
from rightreasons.benchmark.suites.r4_figures import r4_weight_decay as r4_weight_decay
from rightreasons.benchmark.suites.r4_tables import decoy_mnist as decoy_mnist
from rightreasons.benchmark.suites.r4_tables import r4_table1 as r4_table1
from rightreasons.benchmark.suites.r4_tables import r4_table2 as r4_table2
from rightreasons.benchmark.suites.r4_text import r4_text as r4_text
from rightreasons.benchmark.suites.reff import reff_table2 as reff_table2
from rightreasons.benchmark.suites.reff import reff_table3 as reff_table3
from rightreasons.benchmark.suites.reff_decoy_ham import reff_decoy_ham as reff_decoy_ham
from rightreasons.benchmark.suites.reff_regimes import reff_regimes as reff_regimes

__all__ = [
    "alignment_table1",
    "decoy_mnist",
    "defaults",
    "density_figure4",
    "density_groups",
    "density_table1",
    "density_table2",
    "density_unseen",
    "masktune_celeba",
    "masktune_figure2",
    "masktune_table1",
    "masktune_table4",
    "masktune_table5",
    "masktune_table6",
    "masktune_waterbirds",
    "r4_corruption",
    "r4_mask_fraction",
    "r4_model_size",
    "r4_table1",
    "r4_table2",
    "r4_text",
    "r4_weight_decay",
    "reff_decoy_ham",
    "reff_regimes",
    "reff_table2",
    "reff_table3",
]
