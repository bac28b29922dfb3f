import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.masktune_selective import masktune_table4


@pytest.fixture
def suite():
    return masktune_table4()


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("cifar10", "SR", "error at 95 %") == Figure(0.0874)
    assert find("cifar10", "SelectiveNet", "coverage at 90 %") == Figure(0.896)
    assert find("cifar10", "Deep Gamblers", "error at 100 %") == Figure(0.1081)
    assert find("cifar10", "OSP", "error at 90 %") == Figure(0.0467)
    assert find("cifar10", "SR", "error at 80 %") is None
    assert find("cifar10", "MaskTune", "error at 80 %") == Figure(0.0213, 0.0011)


def test_each_method_is_measured_by_its_own_confidence_and_on_the_same_net(suite):
    configs = {line.method.name: line.cell(0, 1).config for line in lines(suite, "small")}
    scores = {
        name: config.metric_settings.get("risk_coverage", {}).get("score", "softmax")
        for name, config in configs.items()
    }
    expected = {"SelectiveNet": "selection", "Deep Gamblers": "abstain", "MaskTune": "logit"}
    assert {name: score for name, score in scores.items() if score != "softmax"} == expected
    for name, config in configs.items():
        net = config.model_settings.get("backbone", config.model)
        assert net == "small_cnn", name
        assert config.data_settings == {"validation": 10_000, "flip": True}


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == len(suite.methods) * 3
