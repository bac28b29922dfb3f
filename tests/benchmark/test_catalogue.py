import inspect

import pytest

from rightreasons.benchmark import SUITES, describe
from rightreasons.benchmark.plan import lines
from rightreasons.benchmark.registry import find_suite
from rightreasons.datasets.masks import MASK_SETTINGS
from rightreasons.datasets.registry import DATASETS
from rightreasons.errors import UnknownNameError
from rightreasons.metrics import METRICS
from rightreasons.models import names as model_names


@pytest.fixture(params=list(SUITES))
def suite(request):
    return find_suite(request.param)


def test_a_suite_is_found_by_its_name(suite):
    assert find_suite(suite.name) == suite
    assert find_suite(suite) is suite


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Expected a suite, .* Did you mean 'decoy_mnist'"):
        find_suite("decoy-mnits")


def test_every_suite_says_what_it_is():
    assert list(describe()) == list(SUITES)
    assert all(describe().values())


def test_every_suite_has_both_budgets(suite):
    assert set(suite.budgets) == {"small", "paper"}


@pytest.mark.parametrize("budget", ["small", "paper"])
def test_every_cell_can_be_built(suite, budget):
    for cell in [one for line in lines(suite, budget) for one in line.possible_cells()]:
        cell.config.build_objective()
        known = {*DATASETS.settings(cell.config.data), *MASK_SETTINGS}
        assert set(cell.config.data_settings) <= known
        assert cell.config.model in model_names()
        assert all(name in METRICS for name in cell.config.metrics or [])


def test_a_planted_shortcut_has_an_oracle(suite):
    for variant in [one for one in suite.variants if one.chosen_in is None]:
        configs = [
            line.cell(0, 0).config for line in lines(suite, "small") if line.variant is variant
        ]
        planted = [c for c in configs if c.data_settings.get("background_randomness") != 1]
        if any("oracle" in DATASETS.settings(config.data) for config in planted):
            assert any(config.data_settings.get("oracle") for config in configs)


def test_shares_are_stored_as_shares(suite):
    percent = {measure.name for measure in suite.measures if measure.percent}
    for block in suite.figures.values.values():
        for row in block.values():
            for measure, figure in row.items():
                if measure in percent:
                    assert 0 <= figure.mean <= 1
                    assert figure.deviation is None or 0 <= figure.deviation <= 1


def test_figures_say_where_they_come_from(suite):
    assert not suite.figures.values or suite.paper in suite.figures.source


def test_what_differs_is_stated(suite):
    assert suite.protocol
    assert inspect.getdoc(SUITES[suite.name])
