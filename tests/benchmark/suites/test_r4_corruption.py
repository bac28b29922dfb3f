import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.r4_figures import r4_corruption


@pytest.fixture
def suite():
    return r4_corruption()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("right", "R3", "worst group") == Figure(0.8543, 0.059)
    assert find("right", "Cert-R4", "worst group") == Figure(0.9470, 0.004)


def test_masks_are_corrupted_and_nothing_else(suite):
    wanted = {"variants": ["right", "shift"], "methods": ["R3"]}
    right, wrong = lines(suite, "small", **wanted)
    one, other = right.cell(0, 0).config, wrong.cell(0, 0).config
    assert other.data_settings == {"colours": "faint", "mask_corruption": "shift"}
    assert vars(other) | {"data_settings": one.data_settings} == vars(one)


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 3 * 2 + 4 * 2
