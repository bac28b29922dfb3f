import pytest

from rightreasons.benchmark import Budget, Figure, Figures, Measure, Method, Variant
from rightreasons.errors import InvalidSettingError, UnknownNameError


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


@pytest.mark.parametrize("seeds", [(), (0, 1, 0)])
def test_seeds_must_be_distinct(make_suite, seeds):
    with pytest.raises(InvalidSettingError, match="'small' of the suite 'tiny' to have distinct"):
        make_suite(budgets={"small": Budget(seeds=seeds)})


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("variants", ()),
        ("variants", (Variant(name="a"), Variant(name="a"))),
        ("methods", (Method(name="a"), Method(name="a"))),
        ("measures", (Measure(key="accuracy", name="a"), Measure(key="accuracy", name="a"))),
    ],
)
def test_names_must_be_distinct(make_suite, kind, members):
    with pytest.raises(InvalidSettingError, match=f"Expected the {kind} .* distinct names"):
        make_suite(**{kind: members})


def test_every_method_must_have_as_many_candidates(make_suite):
    methods = (Method(name="ERM"), Method(name="R3", grid=({"lr": 1e-3}, {"lr": 1e-2})))
    with pytest.raises(InvalidSettingError, match="same number of candidates.*got ERM 1, R3 2"):
        make_suite(methods=methods)
    with pytest.raises(InvalidSettingError, match="at least one, but got ERM 0"):
        make_suite(methods=(Method(name="ERM", grid=()),))
    with pytest.raises(InvalidSettingError, match="candidates in 'b'.*got ERM 1, oracle 2"):
        make_suite(variants=(Variant(name="a"), Variant(name="b", grids={"ERM": ({},)})))


@pytest.mark.parametrize(
    "changes",
    [
        {"base": {"leraning_rate": 1}},
        {"base": {"data": "decoy_digits", "seed": 3}},
        {"base": {"data": "decoy_digits", "data_dir": "here"}},
        {"variants": (Variant(name="a", overrides={"oops": 1}),)},
        {"methods": (Method(name="a", overrides={"oops": 1}),)},
        {"methods": (Method(name="a", grid=({"oops": 1},)),)},
        {"budgets": {"small": Budget(seeds=(0,), overrides={"oops": 1})}},
        {"budgets": {"small": Budget(seeds=(0,), variants={"wrong": {"oops": 1}})}},
    ],
)
def test_overrides_must_be_fields_of_a_run(make_suite, changes):
    with pytest.raises(InvalidSettingError, match="Expected overrides of the suite 'tiny' among"):
        make_suite(**changes)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("metric", {"select_by": "swop_accuracy"}),
        ("metric", {"measures": (Measure(key="worst", name="worst"),)}),
        ("method", {"variants": (Variant(name="a", grids={"EMR": ({},)}),)}),
        ("variant", {"budgets": {"small": Budget(seeds=(0,), variants={"rong": {}})}}),
        ("variant", {"figures": Figures("", {"rong": {}})}),
        ("method", {"figures": Figures("", {"wrong": {"EMR": {}}})}),
        ("measure", {"figures": Figures("", {"wrong": {"ERM": {"wurst": Figure(0.5)}}})}),
    ],
)
def test_names_must_be_known(make_suite, kind, changes):
    with pytest.raises(UnknownNameError, match=f"Expected a {kind}, but got"):
        make_suite(**changes)
