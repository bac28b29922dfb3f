import pytest

from rightreasons.benchmark.cell import config_key
from rightreasons.benchmark.plan import plan
from rightreasons.benchmark.suites.r4_tables import r4_table1, r4_table2


def test_the_papers_figures():
    find = r4_table2().figures.find
    assert find("mnist-faint", "ERM", "masked fragility, largest").mean == 497.44
    assert find("mnist-faint", "Cert-R4", "core fragility, largest").mean == 39.4
    assert find("mnist-faint", "Cert-R4", "masked / core").mean == 0.024
    assert find("derm", "Adv-R4", "masked / core").mean == 0.985
    assert find("derm", "Cert-R4", "masked fragility, largest").mean == 1.297
    assert find("derm", "Cert-R4", "masked fragility, mean") is None


def test_ratios_are_those_of_the_two_other_tables():
    for block in r4_table2().figures.values.values():
        for row in block.values():
            masked, core = (
                row["masked fragility, largest"].mean,
                row["core fragility, largest"].mean,
            )
            assert row["masked / core"].mean == pytest.approx(masked / core, abs=6e-4)


def test_candidates_are_those_of_table_1():
    keys = [
        [config_key(cell.config) for cell in plan(suite, "small", lambda config: None).cells]
        for suite in (r4_table1(), r4_table2())
    ]
    assert keys[0] == keys[1]
