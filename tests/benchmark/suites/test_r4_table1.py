import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import plan
from rightreasons.benchmark.suites.r4_tables import r4_table1


@pytest.fixture
def suite():
    return r4_table1()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("mnist-faint", "ERM", "average group") == Figure(0.6389, 0.012)
    assert find("mnist-faint", "Smooth-R3", "worst group") == Figure(0.8528, 0.019)
    assert find("mnist-faint", "IBP-Ex", "average group") == Figure(0.8969, 0.005)
    assert find("mnist-faint", "IBP-Ex + R3", "worst group of means") == Figure(0.8805, 0.019)
    assert find("mnist-faint", "Cert-R4", "worst group") == Figure(0.9470, 0.004)
    assert find("derm", "ERM", "worst group") == Figure(0.4839, 0.0)
    assert find("derm", "R3", "average group") == Figure(0.6844, 0.017)
    assert find("derm", "Rand-R4", "worst group") == Figure(0.6947, 0.004)
    assert find("derm", "Adv-R4", "average group") == Figure(0.7226, 0.006)
    assert find("derm", "Cert-R4", "worst group of means") == Figure(0.7811, 0.049)
    assert find("mnist-ross", "R3", "worst group") is None
    assert find("derm", "oracle", "worst group") is None


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 9 * (3 + 2) + 9 * 3 + 9 * (2 + 2)
