import pytest

from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import CrossEntropy
from rightreasons.strategies import Strategy


def test_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Strategy()


def test_a_strategy_is_its_procedure(tiny_splits, make_net, fit_settings):
    class Backwards(Strategy):
        def run(self, model, objective, stages):
            stages.fit("val", model, objective, stages.data.val, epochs=1)
            stages.fit("train", model, objective, stages.data.train)

    fitted = Backwards().fit(make_net(), CrossEntropy(), tiny_splits, **fit_settings)
    assert [(row["stage"], row["epoch"]) for row in fitted.history] == [
        ("val", 1),
        ("train", 1),
        ("train", 2),
    ]


def test_settings_are_those_of_fit(tiny_splits, make_net, fit_settings):
    from rightreasons.strategies import Once

    with pytest.raises(InvalidSettingError, match="Expected `lr` above 0"):
        Once().fit(make_net(), CrossEntropy(), tiny_splits, **{**fit_settings, "lr": 0.0})
