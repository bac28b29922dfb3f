import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import plan
from rightreasons.benchmark.suites.reff import reff_table2


@pytest.fixture
def suite():
    return reff_table2()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("digit 31", "baseline", "accuracy") == Figure(0.2845, 0.0166)
    assert find("digit 31", "ReFF (single layer)", "accuracy") == Figure(0.4098, 0.0166)
    assert find("digit 16", "ReFF", "accuracy") == Figure(0.2264, 0.007)
    assert find("digit 8", "baseline", "accuracy") == Figure(0.1202, 0.0057)


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 4 * (2 + 2) + 2 * 3 * 3
    sizes = {cell.config.data_settings["digit_size"] for cell in planned.cells}
    assert sizes <= {31, 16, 8}
