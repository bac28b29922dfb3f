import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.r4_tables import decoy_mnist


@pytest.fixture
def suite():
    return decoy_mnist()


def test_the_small_budget_is_what_the_figures_were_promised_for(suite):
    config = next(
        line.cell(2, 0).config
        for line in lines(suite, "small")
        if (line.variant.name, line.method.name) == ("ross", "R3")
    )
    assert (config.data, config.data_settings) == ("decoy_mnist", {"colours": "ross"})
    assert (config.recipe, config.settings) == ("r3", {"weight": 30.0})
    assert (config.model, config.model_settings) == ("mlp", {"hidden": [512]})
    assert (config.epochs, config.batch_size, config.lr) == (10, 250, 2e-3)
    assert (config.optimizer, config.scheduler) == ("adam", "cosine")


def test_the_oracle_differs_from_erm_in_its_data_alone(suite):
    for budget in ("small", "paper"):
        by_method = {
            (line.variant.name, line.method.name): line.cell(0, 1).config
            for line in lines(suite, budget)
        }
        for variant in ("ross", "faint"):
            erm, oracle = by_method[variant, "ERM"], by_method[variant, "oracle"]
            assert oracle.data_settings == {**erm.data_settings, "oracle": True}
            assert vars(oracle) | {"data_settings": erm.data_settings} == vars(erm)


def test_it_stays_within_its_budget(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 2 * 3 * (5 + 2)


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("faint", "ERM", "average group") == Figure(0.6389, 0.012)
    assert find("faint", "ERM", "worst group") == Figure(0.2239, 0.017)
    assert find("faint", "R3", "average group") == Figure(0.9222, 0.007)
    assert find("faint", "R3", "worst group of means") == Figure(0.8543, 0.059)
    assert find("ross", "R3", "worst group") is None
