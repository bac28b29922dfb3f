import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.r4_figures import r4_mask_fraction


@pytest.fixture
def suite():
    return r4_mask_fraction()


def configs(suite, variant, method):
    (line,) = lines(suite, "small", variants=[variant], methods=[method])
    return [cell.config for cell in line.possible_cells()]


def test_the_papers_figures(suite):
    find = suite.figures.find
    assert find("mnist 100 %", "Adv-R4", "worst group") == Figure(0.8951, 0.012)
    assert find("derm 100 %", "Cert-R4", "worst group") == Figure(0.7811, 0.049)


def test_fewer_masks_weigh_more(suite):
    whole = configs(suite, "mnist 100 %", "Cert-R4")
    few = configs(suite, "mnist masks 20 %", "Cert-R4")
    for one, other in zip(whole, few, strict=True):
        assert other.settings["weight"] == pytest.approx(5 * one.settings["weight"])
        assert other.data_settings == {"colours": "faint", "mask_fraction": 0.2}


def test_fewer_data_do_not(suite):
    whole, few = configs(suite, "derm 100 %", "R3"), configs(suite, "derm data 20 %", "R3")
    assert [config.settings for config in few] == [config.settings for config in whole]
    assert few[0].data_settings["mask_fraction_keep"] == "data"
    assert few[0].batch_size == whole[0].batch_size == 64


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    faint, ross, derm = 4 * (2 + 2) + 2 * 3 * 3, 2 * 3, 3 * (2 + 2) + 2 * 3
    assert len(planned.cells) + planned.num_unknown == faint + ross + derm
