import pytest

from rightreasons.benchmark.plan import lines
from rightreasons.benchmark.suites.density_tables import (
    SEEDS,
    SETTINGS,
    SHOWN,
    density_table1,
    density_unseen,
)


@pytest.fixture
def suite():
    return density_unseen()


def test_its_seeds_are_in_no_other_table(suite):
    assert not set(SEEDS) & set(density_table1().budgets["small"].seeds)
    assert all(budget.seeds == SEEDS for budget in suite.budgets.values())


def test_its_settings_are_candidates_of_table_1_or_one_step_up(suite):
    offered = {
        line.method.name: [line.cell(number, 3).config for number in range(line.num_candidates)]
        for line in lines(density_table1(), "small")
    }
    at = {
        (line.variant.name, line.method.name): line.cell(0, 3).config
        for line in lines(suite, "small")
    }
    for method in SETTINGS["floor of 94 %"]:
        assert at["floor of 94 %", method] in offered[method]
    assert at["floor of 93 %", "ST"] == at["floor of 94 %", "ST"]


def test_standard_training_runs_once_a_seed(suite):
    runs = {repr(line.cell(0, seed).config) for line in lines(suite, "small") for seed in SEEDS}
    assert len(runs) == (1 + 2 * 3) * len(SEEDS)


def test_every_measure_is_one_of_table_1(suite):
    assert [measure.name for measure in suite.measures] == list(SHOWN)
