import pytest

from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.strategies import STRATEGIES, MaskTune, Strategy


def test_strategies_by_name():
    assert isinstance(STRATEGIES.create("masktune", k=3.0), MaskTune)
    assert all(issubclass(STRATEGIES[name], Strategy) for name in STRATEGIES)


def test_mistakes():
    with pytest.raises(UnknownNameError, match="Expected a strategy.*Did you mean 'masktune'"):
        STRATEGIES["masktuna"]
    with pytest.raises(InvalidSettingError, match="but got tau"):
        STRATEGIES.create("masktune", tau=1)
