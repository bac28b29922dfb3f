from rightreasons.benchmark import Budget, Figures, Variant, compare


def told(suite):
    return "\n".join(compare(suite, []).notes)


def test_borrowed_settings_are_told(make_suite):
    following = [Variant(name=name, chosen_in="all") for name in ("few", "fewer")]
    notes = told(make_suite(variants=(Variant(name="all"), *following)))
    assert "not chosen anew in few, fewer: they are those chosen in all." in notes
    assert "chosen anew" not in told(make_suite())


def test_thresholds_are_told(make_suite):
    suite = make_suite(
        variants=(
            Variant(name="a"),
            Variant(name="b"),
            Variant(name="c", select_if=("calibration_error", 0.1)),
            Variant(name="d", chosen_in="a"),
        ),
        select_if=("accuracy", 0.93),
    )
    assert "In a, b only candidates with accuracy of at least 0.93 on validation" in told(suite)
    assert "In c only candidates with calibration_error of at most 0.1 on" in told(suite)
    assert "only candidates" not in told(make_suite())


def test_ties_are_told(make_suite):
    assert "candidates within one standard error of the best" in told(make_suite(ties_within=1))
    assert "candidates within 2 standard errors of the best" in told(make_suite(ties_within=2.0))
    assert "standard error" not in told(make_suite())


def test_where_candidates_are_compared_is_told(make_suite):
    assert "on validation data at seed 0, among 2 candidates" in told(make_suite())
    both = {"small": Budget(seeds=(0, 1), seeds_of_choice=2)}
    assert "validation data at seeds 0, 1 (mean), among" in told(make_suite(budgets=both))


def test_columns_tell_titles_and_brackets(make_suite):
    parts = {"variants": (Variant(name="a", title="first"),), "figures": Figures("Table 0")}
    notes = compare(make_suite(**parts, layout="columns"), []).notes
    assert notes[0] == "a: first."
    assert "The paper's figures, in square brackets: Table 0." in notes
    notes = compare(make_suite(**parts), []).notes
    assert "a: first." not in notes
    assert "The paper's figures: Table 0." in notes
