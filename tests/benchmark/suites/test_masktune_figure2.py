import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.masktune import masktune_figure2


@pytest.fixture
def suite():
    return masktune_figure2()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("one square", "MaskTune", "original") == Figure(0.9846, 0.0021)
    assert find("one square", "MaskTune", "biased") == Figure(0.9826, 0.0027)
    assert find("one square", "ERM", "biased") is None


def test_methods_differ_in_their_strategy_alone(suite):
    configs = {line.method.name: line.cell(0, 1).config for line in lines(suite, "small")}
    erm = configs.pop("ERM")
    assert erm.strategy == "once"
    for config in configs.values():
        changed = {"strategy": "once", "strategy_settings": {}}
        assert vars(config) | changed == vars(erm)


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 4 * 3
