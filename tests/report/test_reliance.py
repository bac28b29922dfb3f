import pytest

from rightreasons.report.verdict import reliance_of


def signs(make_section, **changes):
    return reliance_of(make_section(("r3", 0.5, changes)).methods[0]).signs


@pytest.mark.parametrize(("mass", "expected"), [(0.05, 0), (0.15, 0), (0.16, 1)])
def test_a_gradient_denser_inside_the_mask_is_a_sign(make_section, make_metrics, mass, expected):
    found = signs(make_section, test=make_metrics(0.8, mass=mass))
    assert len(found) == expected
    assert all("1.6 times the mask's share" in sign for sign in found)


@pytest.mark.parametrize(("swap", "expected"), [(0.85, 0), (0.81, 0), (0.79, 1)])
def test_an_accuracy_that_drops_is_a_sign(make_section, make_metrics, swap, expected):
    found = signs(make_section, test=make_metrics(0.8, swap=swap))
    assert len(found) == expected
    assert all("6.0 points lost when the masked part is exchanged" in sign for sign in found)


def test_swaps_are_judged_on_validation_data_if_there_are_any(make_section, make_metrics):
    test, validation = make_metrics(0.8), make_metrics(0.9, swap=0.4)
    section = make_section(("erm", 0.8, {"test": test, "validation": validation}))
    reliance = reliance_of(section.methods[0])
    assert (reliance.swapped_on, round(reliance.before, 3), reliance.after) == (
        "validation",
        0.95,
        0.4,
    )
    assert len(reliance.signs) == 1


def test_a_gap_between_groups_is_a_sign_only_without_masks(make_section, make_metrics):
    with_masks = make_metrics(0.5, average=0.8)
    without = make_metrics(0.5, average=0.8, mass=None)
    assert signs(make_section, test=with_masks) == ()
    assert signs(make_section, test=without) == ("a worst group 30.0 points below the average",)


@pytest.mark.parametrize("changes", [{"average": 0.6}, {"average": 0.8, "half": 0.2}])
def test_a_gap_that_is_small_or_unsure_is_no_sign(make_section, make_metrics, changes):
    assert signs(make_section, test=make_metrics(0.5, mass=None, **changes)) == ()


def test_without_masks_and_groups_nothing_is_known(make_section):
    reliance = reliance_of(make_section(("erm", 0.5, {"test": {"accuracy": 0.9}})).methods[0])
    assert not reliance.is_known
    assert (reliance.mass, reliance.before, reliance.signs) == (None, None, ())
