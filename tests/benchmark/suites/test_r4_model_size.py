import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.r4_figures import r4_model_size


@pytest.fixture
def suite():
    return r4_model_size()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("mnist 1 layer", "Cert-R4", "worst group") == Figure(0.947, 0.004)
    assert find("mnist 3 layers", "Cert-R4", "worst group") == Figure(0.7)
    assert find("derm 4 convolutions", "R3", "worst group") == Figure(0.6832, 0.088)


def test_nets_grow(suite):
    found = {line.variant.name: line.cell(0, 0).config for line in lines(suite, "small")}
    assert found["mnist 3 layers"].model_settings == {"hidden": [512, 512, 512]}
    assert found["derm 2 convolutions"].model_settings == {"width": 0.5, "depth": 2}
    assert found["derm 4 convolutions"].model_settings == {"width": 0.5}  # as in Table 1


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 3 * (2 + 2 + 2 + 1)
