import pytest

from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.density_figures import WEIGHTS, density_figure4
from rightreasons.benchmark.suites.density_tables import density_table1


@pytest.fixture
def suite():
    return density_figure4()


def test_every_penalty_grows_from_step_to_step(suite):
    for name, weights in WEIGHTS.items():
        found = [
            line.cell(0, 0).config.settings["weight"]
            for line in lines(suite, "small")
            if line.method.name == name
        ]
        assert found == list(weights) == sorted(set(weights))


def test_runs_are_shared_with_table_1(suite):
    swept = [line.cell(0, 0).config for line in lines(suite, "small")]
    for line in lines(density_table1(), "small"):
        if line.method.name in WEIGHTS:
            assert all(line.cell(number, 0).config in swept for number in range(3))


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 5 * 5 * 3
