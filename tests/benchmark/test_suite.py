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


OWN = Variant(name="own")


@pytest.mark.parametrize("seeds", [(), (0, 1, 0)])
def test_seeds_must_be_distinct(make_suite, seeds):
    with pytest.raises(InvalidSettingError, match="'small' of the suite 'tiny' to have distinct"):
        make_suite(budgets={"small": Budget(seeds=seeds)})


@pytest.mark.parametrize("number", [0, 3])
def test_choosing_at_seeds_that_are_not_there_is_refused(make_suite, number):
    budget = Budget(seeds=(0, 1), seeds_of_choice=number)
    with pytest.raises(InvalidSettingError, match=f"1 to 2 seeds.*`seeds_of_choice` is {number}"):
        make_suite(budgets={"small": budget})


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
        ("metric", {"select_if": ("acuracy", 0.9)}),
        ("metric", {"variants": (Variant(name="a", select_if=("acuracy", 0.9)),)}),
        ("metric", {"measures": (Measure(key="worst", name="worst"),)}),
        ("method", {"variants": (Variant(name="a", grids={"EMR": ({},)}),)}),
        ("method", {"variants": (Variant(name="a", methods=("ERM", "EMR")),)}),
        ("variant", {"variants": (Variant(name="a", chosen_in="wrong"),)}),
        ("variant", {"budgets": {"small": Budget(seeds=(0,), variants={"rong": {}})}}),
        ("variant", {"figures": Figures("", {"rong": {}})}),
        ("method", {"figures": Figures("", {"wrong": {"EMR": {}}})}),
        ("measure", {"figures": Figures("", {"wrong": {"ERM": {"wurst": Figure(0.5)}}})}),
    ],
)
def test_names_must_be_known(make_suite, kind, changes):
    with pytest.raises(UnknownNameError, match=f"Expected a {kind}, but got"):
        make_suite(**changes)


def test_candidates_are_counted_among_the_methods_present(make_suite):
    methods = (Method(name="ERM"), Method(name="R3", grid=({"lr": 1e-3}, {"lr": 1e-2})))
    apart = (Variant(name="a", methods=("ERM",)), Variant(name="b", methods=("R3",)))
    assert make_suite(methods=methods, variants=apart).variants == apart


@pytest.mark.parametrize("methods", [(), ("ERM", "ERM")])
def test_a_variant_must_have_distinct_methods(make_suite, methods):
    with pytest.raises(InvalidSettingError, match="Expected the methods of the variant 'a' .*one"):
        make_suite(variants=(Variant(name="a", methods=methods),))


@pytest.mark.parametrize(
    "last", [Variant(name="last", chosen_in="next"), Variant(name="last", chosen_in="last")]
)
def test_chains_of_choices_are_refused(make_suite, last):
    following = Variant(name="next", chosen_in="own")
    with pytest.raises(InvalidSettingError, match="'last' .*one that chooses its own, but .*takes"):
        make_suite(variants=(OWN, following, last))


def test_a_choice_must_be_made_for_every_method(make_suite):
    few = Variant(name="own", methods=("oracle",))
    with pytest.raises(InvalidSettingError, match="those of 'own', .*: oracle; but got ERM"):
        make_suite(variants=(few, Variant(name="next", chosen_in="own")))


def test_a_scaled_grid_must_have_as_many_candidates(make_suite):
    grids = {"ERM": ({"lr": 1.0},)}
    with pytest.raises(InvalidSettingError, match="candidates of ERM .*chosen: 2; but got 1"):
        make_suite(variants=(OWN, Variant(name="next", chosen_in="own", grids=grids)))


def test_a_threshold_belongs_where_the_choice_is_made(make_suite):
    following = Variant(name="next", chosen_in="own", select_if=("accuracy", 0.5))
    with pytest.raises(InvalidSettingError, match="'next' .* takes them from 'own'. Say it there"):
        make_suite(variants=(OWN, following))


def test_a_threshold_must_be_finite(make_suite):
    with pytest.raises(InvalidSettingError, match="`select_if` .*finite number, but got"):
        make_suite(select_if=("accuracy", float("nan")))


def test_the_layout_must_be_known(make_suite):
    with pytest.raises(
        InvalidSettingError, match="`layout` to be 'blocks' or 'columns' or 'reference', but got"
    ):
        make_suite(layout="rows")


def test_ties_have_a_finite_width(make_suite):
    with pytest.raises(InvalidSettingError, match="`ties_within` of the suite .* but got -1"):
        make_suite(ties_within=-1)
