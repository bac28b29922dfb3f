import pytest

from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.density_figures import density_groups


@pytest.fixture
def suite():
    return density_groups()


def test_the_sum_has_both_parts(suite):
    cells = {line.method.name: line.cell(1, 0).config for line in lines(suite, "small")}
    names = {name: list(config.build_objective().terms) for name, config in cells.items()}
    assert names["group DRO + Density"] == [*names["group DRO"], names["Density"][1]]


def test_groups_that_the_shortcut_misleads_are_in_training(suite):
    config = next(iter(lines(suite, "small"))).cell(0, 0).config
    assert config.data_settings["share"] == 0.95


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 4 * (3 + 2)
