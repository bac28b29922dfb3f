import pytest

from rightreasons.benchmark.plan import plan
from rightreasons.benchmark.suites.alignment import alignment_table1
from rightreasons.run.config import Config


@pytest.fixture
def suite():
    return alignment_table1()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("lenet", "CE only", "accuracy").mean == 0.868
    assert find("lenet", "CE only", "RPS-Grad").mean == 0.760
    assert find("lenet", "Hessian", "A-Ins-LRP").mean == 0.563
    assert find("lenet", "l2", "Ins-xGrad").mean == 0.482
    assert find("lenet", "l2 + cosine", "A-Ins-Grad").mean == 0.358


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 4 * (2 + 2)


def test_every_explainer_is_measured_as_the_paper_does(suite):
    (config, *_) = [cell.config for cell in plan(suite, "paper", lambda config: None).cells]
    assert isinstance(config, Config)
    measured = {metric.name: metric for metric in config.build_metrics()}
    assert measured["rps"].epsilons == [16 / 255]
    assert len(measured["adv_insertion"].explainers) == 4
    assert [metric.name for metric in config.build_metrics("validation")] == ["accuracy", "rps"]
