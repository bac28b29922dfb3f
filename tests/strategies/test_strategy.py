import pytest
import torch

import rightreasons as rr
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.objectives import CrossEntropy
from rightreasons.strategies import STRATEGIES, MaskTune, Once, Strategy


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


def test_it_is_one_fit(tiny_splits, make_net, fit_settings, tmp_path):
    ours, theirs = make_net(), make_net()
    fitted = Once().fit(ours, rr.recipes.erm(), tiny_splits, out=tmp_path / "a", **fit_settings)
    expected = rr.fit(
        theirs,
        rr.recipes.erm(),
        tiny_splits.train,
        validation=tiny_splits.val,
        out=tmp_path / "b",
        **fit_settings,
    )
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)
    assert [row["accuracy"] for row in fitted.history] == [
        row["accuracy"] for row in expected.history
    ]
    files = [{path.name for path in (tmp_path / run).iterdir()} for run in ("a", "b")]
    assert files[0] == files[1]


def test_strategies_by_name():
    assert isinstance(STRATEGIES.create("masktune", k=3.0), MaskTune)
    assert all(issubclass(STRATEGIES[name], Strategy) for name in STRATEGIES)


def test_mistakes():
    with pytest.raises(UnknownNameError, match="Expected a strategy.*Did you mean 'masktune'"):
        STRATEGIES["masktuna"]
    with pytest.raises(InvalidSettingError, match="but got tau"):
        STRATEGIES.create("masktune", tau=1)
