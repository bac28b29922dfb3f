import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import plan
from rightreasons.benchmark.suites.reff import reff_table3


@pytest.fixture
def suite():
    return reff_table3()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("p = 0", "baseline", "accuracy") == Figure(0.3080, 0.0133)
    assert find("p = 0", "ReFF", "accuracy") == Figure(0.4644, 0.0101)
    assert find("p = 0", "ReFF (L1)", "accuracy") == Figure(0.4322, 0.0108)
    assert find("p = 0", "ReFF (L2)", "accuracy") == Figure(0.4249, 0.0098)
    assert find("p = 0", "ABN", "accuracy") == Figure(0.5323, 0.0477)
    assert find("p = 1", "ReFF", "accuracy") == Figure(0.9949, 0.0008)
    assert find("p = 0", "R3", "accuracy") is None


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == (11 + 3) * (2 + 2) + 2 * 3 * 3
    models = {cell.config.model for cell in planned.cells}
    assert models == {"small_cnn", "attention_branch"}
