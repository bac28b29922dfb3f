import inspect

import pytest

from rightreasons.benchmark import SUITES, describe
from rightreasons.benchmark.plan import list_lines, plan
from rightreasons.benchmark.registry import find_suite
from rightreasons.benchmark.suites.alignment import MEAN, MEASURED
from rightreasons.datasets.registry import BALANCE, DATASETS, MASK_SETTINGS
from rightreasons.errors import UnknownNameError
from rightreasons.metrics import METRICS
from rightreasons.models import names as model_names
from rightreasons.run.config import Config

RUNS = {
    "alignment_table1": 5 * (3 + 2),
    "decoy_mnist": 2 * 4 * (5 + 2),
    "defaults": (2 * 11 + 3 * 8 + 7 + 3 * 6 + 6 * 5 + 4 + 2 * 3) * 3
    - 3,  # ERM without a shortcut is the oracle
    "density_figure4": 5 * 5 * 3,
    "density_groups": 4 * (3 + 2),
    "density_table1": 14 * (3 + 2),
    "density_table2": 2 * 6 * (2 + 2),
    "density_unseen": (1 + 2 * 3) * 5,
    "masktune_celeba": 12 * (2 + 2),
    "masktune_figure2": 4 * 3,
    "masktune_table1": (9 + 10) * 3,
    "masktune_table4": 5 * 3,
    "masktune_table5": 6 * 2 * 3,
    "masktune_table6": 2 * 3,
    "masktune_waterbirds": 15 * (2 + 2),
    "r4_corruption": 4 * 2 + 4 * 3 + 4 * 4 * 2,
    "r4_mask_fraction": 5 * (2 + 2) + 2 * 4 * 3 + 2 * 3 + 4 * 2 * 3 + 3 * 3,
    "r4_model_size": 3 * (2 + 2 + 2 + 1),
    "r4_table1": 10 * (3 + 2) + 10 * 3 + 10 * 2 * 3,
    "r4_table2": 10 * (3 + 2) + 10 * 3 + 10 * 2 * 3,
    "r4_text": 7 * 2 + 7 * 2,
    "r4_weight_decay": 4 * 2 + 2 + 2 * (3 + 2),
    "reff_decoy_ham": 2 * 9 * (2 + 2),
    "reff_regimes": 6 * 4 - 2,  # the baseline and the oracle have no ramp
    "reff_table2": 4 * (2 + 2) + 2 * 3 * 3,
    "reff_table3": (12 + 3) * (2 + 2) + 2 * 3 * 3,
}
"""How many runs the small budget of a suite takes."""


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
    for cell in [one for line in list_lines(suite, budget) for one in line.possible_cells()]:
        cell.config.build_objective()
        known = {*DATASETS.settings(cell.config.data), *MASK_SETTINGS, BALANCE}
        assert set(cell.config.data_settings) <= known
        assert cell.config.model in model_names()
        assert all(name in METRICS for name in cell.config.metrics or [])


def test_a_planted_shortcut_has_an_oracle(suite):
    for variant in [one for one in suite.variants if one.chosen_in is None]:
        configs = [
            line.cell(0, 0).config for line in list_lines(suite, "small") if line.variant is variant
        ]
        planted = [c for c in configs if c.data_settings.get("background_randomness") != 1]
        # the papers' tables on biased MNIST are without one
        planted = [c for c in planted if not (suite.paper and c.data == "biased_mnist")]
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


def test_the_small_budget_has_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == RUNS[suite.name.replace("-", "_")]


def test_every_explainer_is_measured_as_the_paper_does():
    suite = find_suite("alignment-table1")
    (config, *_) = [cell.config for cell in plan(suite, "paper", lambda config: None).cells]
    assert isinstance(config, Config)
    measured = {metric.name: metric for metric in config.build_metrics()}
    assert measured["rps"].epsilons == [16 / 255]
    assert len(measured["adv_insertion"].explainers) == 4
    assert all(measured[name].max_samples is None for name in MEASURED)
    for name in MEASURED:  # the paper multiplies the gradient by the normalised input
        explainer = config.metric_settings[name]["explainers"]["input_times_gradient"]
        assert explainer == {"baseline": MEAN}
    assert [metric.name for metric in config.build_metrics("validation")] == ["accuracy", "rps"]
