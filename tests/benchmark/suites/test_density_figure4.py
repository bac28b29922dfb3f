import pytest

from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.density_figure4 import WEIGHTS, density_figure4
from rightreasons.benchmark.suites.density_table1 import density_table1


@pytest.fixture
def suite():
    return density_figure4()


def test_both_penalties_have_the_weight_of_the_variant(suite):
    for line in lines(suite, "small"):
        weight = line.cell(0, 0).config.settings["weight"]
        assert line.variant.name == f"weight {weight:g}"


def test_runs_are_shared_with_table_1(suite):
    def configs(one):
        return [line.cell(number, 0).config for line in lines(one, "small") for number in range(1)]

    shared = [config for config in configs(density_table1()) if config in configs(suite)]
    assert {config.recipe for config in shared} == {"density", "input_gradient"}


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 2 * len(WEIGHTS)
