import pytest

from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.reff import reff_table3
from rightreasons.benchmark.suites.reff_regimes import WEIGHTS, reff_regimes


@pytest.fixture
def configs():
    """By variant and method."""
    found = lines(reff_regimes(), "small")
    return {(line.variant.name, line.method.name): line.cell(0, 0).config for line in found}


def test_the_first_column_has_runs_of_table_3(configs):
    offered = {
        line.method.name: [line.cell(number, 0).config for number in range(2)]
        for line in lines(reff_table3(), "small", variants=["p = 0"])
    }
    for method in ("baseline", *WEIGHTS):
        assert configs["as in Table 3", method] in offered[method]


def test_one_thing_is_changed_in_each_of_the_next(configs):
    for method in WEIGHTS:
        usual = configs["as in Table 3", method]
        assert configs["no ramp", method].settings == {"weight": WEIGHTS[method]}
        assert configs["no padding", method].settings == usual.settings
        assert configs["no padding", method].model_settings == {"padding": 0}
        assert configs["48 pixels", method].data_settings["size"] == 48


def test_its_size():
    planned = plan(reff_regimes(), "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 5 * 4 - 2  # baselines know no ramp
