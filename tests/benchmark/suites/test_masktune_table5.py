import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.masktune import masktune_table5


@pytest.fixture
def suite():
    return masktune_table5()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("two squares", "ERM", "biased") == Figure(0.1859, 0.0075)
    assert find("two squares", "2 iterations, accumulative", "original") == Figure(0.9861, 0.0061)
    assert find("two squares", "3 iterations", "original") == Figure(0.5876, 0.0076)


def test_iterations(suite):
    found = {line.method.name: line.cell(1, 3).config for line in lines(suite, "small")}
    assert found["1 iteration"].strategy_settings == {"k": 1.5}
    assert found["2 iterations, accumulative"].strategy_settings == {"iterations": 2, "k": 1.5}
    expected = {"iterations": 3, "accumulate": False, "k": 1.5}
    assert found["3 iterations"].strategy_settings == expected
    assert all(config.data_settings == {"squares": 2} for config in found.values())


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 6 * 2 * 3


def test_the_papers_cut_is_the_first_candidate_and_all_seeds_choose(suite):
    line = lines(suite, "small", methods=["1 iteration"])[0]
    assert line.cell(0, 3).config.strategy_settings == {"k": 2.0}
    assert line.seeds_after_choice() == ()
