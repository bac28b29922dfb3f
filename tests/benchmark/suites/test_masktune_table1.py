import pytest

from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.masktune import masktune_table1


@pytest.fixture
def suite():
    return masktune_table1()


def test_every_method_can_be_built(suite):
    for line in lines(suite, "small"):
        config = line.cell(0, 0).config
        config.build_objective()
        config.build_strategy()
        assert config.model == "small_cnn"


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == (9 + 10) * 3


def test_the_net_fits_the_digits(suite):
    (line,) = lines(suite, "small", variants=["decoy digits"], methods=["ERM"])
    config = line.cell(0, 0).config
    data = config.load_data()
    assert config.build_model(data)(data.val.batch.x[:2]).shape == (2, 10)
