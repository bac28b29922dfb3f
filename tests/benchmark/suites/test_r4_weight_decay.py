import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.r4_figures import r4_weight_decay


@pytest.fixture
def suite():
    return r4_weight_decay()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("100 %, decay 0.001", "R3", "worst group") == Figure(0.8543, 0.059)
    assert find("20 %, decay 0.001", "R3", "worst group") == Figure(0.8541)
    assert find("20 %, decay 0.001", "Cert-R4", "worst group") is None


def test_decay_and_masks_vary(suite):
    (line,) = lines(suite, "small", variants=["20 %, decay 0.01"], methods=["R3"])
    config = line.cell(0, 0).config
    assert config.settings == {"weight_decay": 0.01, "weight": 500.0}
    assert config.data_settings == {"colours": "faint", "mask_fraction": 0.2}


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 4 * 2 + 2 + 2 * (3 + 2)
