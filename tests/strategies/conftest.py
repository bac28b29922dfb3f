"""What tests of strategies share."""

import pytest
from tests.strategies import tiny


@pytest.fixture
def tiny_splits():
    return tiny.splits()


@pytest.fixture
def make_net():
    return tiny.net


@pytest.fixture
def fit_settings():
    return dict(tiny.FIT)
