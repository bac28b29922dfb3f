import pytest

from rightreasons.benchmark import Budget, Variant
from rightreasons.errors import UnknownNameError


def test_a_budget_is_found_by_name(make_suite):
    suite = make_suite(budgets={"small": Budget(seeds=(0,)), "paper": Budget(seeds=(0, 1))})
    assert suite.budget("paper").seeds == (0, 1)
    with pytest.raises(UnknownNameError, match="Expected a budget, but got 'papre'. Did you mean"):
        suite.budget("papre")


def test_a_variant_may_have_grids_of_its_own(make_suite):
    own = [{"lr": 1.0}, {"lr": 2.0}]
    other = Variant(name="other", grids={"ERM": own})
    suite = make_suite(variants=(Variant(name="plain"), other))
    erm, oracle = suite.methods
    assert suite.grid(other, erm) == own
    assert suite.grid(other, oracle) == oracle.grid
    assert suite.grid(suite.variants[0], erm) == erm.grid


def test_a_variant_may_have_few_methods(make_suite):
    few = Variant(name="few", methods=("oracle",))
    suite = make_suite(variants=(Variant(name="plain"), few))
    assert suite.methods_of(suite.variants[0]) == list(suite.methods)
    assert [method.name for method in suite.methods_of(few)] == ["oracle"]


def test_a_variant_may_take_candidates_from_another(make_suite):
    own = Variant(name="own", grids={"ERM": ({"lr": 1.0}, {"lr": 2.0})})
    scaled = {"oracle": ({"lr": 0.1}, {"lr": 0.2})}
    following = Variant(name="following", chosen_in="own", grids=scaled)
    suite = make_suite(variants=(following, own))
    erm, oracle = suite.methods
    assert suite.grid(following, erm) == suite.grid(own, erm) == own.grids["ERM"]
    assert suite.grid(following, oracle) == scaled["oracle"]


def test_a_variant_is_found_by_name(make_suite):
    suite = make_suite()
    assert suite.variant("wrong") is suite.variants[0]
    with pytest.raises(UnknownNameError, match="Expected a variant, but got 'rong'. Did you mean"):
        suite.variant("rong")


def test_a_variant_may_have_a_threshold_of_its_own(make_suite):
    harder = Variant(name="harder", select_if=("accuracy", 0.5))
    suite = make_suite(variants=(Variant(name="plain"), harder), select_if=("accuracy", 0.9))
    assert suite.threshold(suite.variants[0]) == ("accuracy", 0.9)
    assert suite.threshold(harder) == ("accuracy", 0.5)
    assert make_suite().threshold(Variant(name="wrong")) is None
