from rightreasons.report.column import make_columns


def table(section):
    return {column.key: column for column in make_columns(section)}


def test_telling_columns_come_first_and_details_are_no_columns(make_section):
    keys = list(table(make_section(("erm", 0.5, {}))))
    assert keys == [
        "group_accuracy/worst",
        "group_accuracy/average",
        "accuracy",
        "swap_accuracy",
        "input_gradient_mass",
        "calibration_error",
        "swap_accuracy/worst",
        "group_accuracy/weighted",
    ]


def test_cells_say_value_interval_and_what_to_compare_with(make_section):
    columns = table(make_section(("erm", 0.5, {})))
    (cell,) = columns["group_accuracy/worst"].cells
    assert (cell.value, cell.interval, cell.spread) == ("50.0\u202f%", "47.0 to 53.0", "")
    assert columns["input_gradient_mass"].cells[0].note == "mask covers 10.0\u202f%"
    assert columns["accuracy"].higher_is_better is True
    assert columns["calibration_error"].higher_is_better is False


def test_best_is_marked_only_where_intervals_do_not_overlap(make_section):
    apart = table(make_section(("erm", 0.5, {}), ("r3", 0.8, {})))
    assert [cell.is_best for cell in apart["group_accuracy/worst"].cells] == [False, True]
    assert not any(cell.is_best for cell in apart["swap_accuracy"].cells)
    near = table(make_section(("erm", 0.5, {}), ("r3", 0.55, {})))
    assert not any(cell.is_best for cell in near["group_accuracy/worst"].cells)


def test_lower_is_best_where_it_should_be(make_section, make_metrics):
    runs = [
        (recipe, 0.5, {"seed": seed, "test": make_metrics(0.5, mass=mass + 0.01 * seed)})
        for recipe, mass in (("erm", 0.6), ("r3", 0.1))
        for seed in range(3)
    ]
    cells = table(make_section(*runs))["input_gradient_mass"].cells
    assert [cell.is_best for cell in cells] == [False, True]
    assert cells[1].spread == "±\u202f1.0"


def test_measures_of_other_versions_are_shown_as_they_are(make_section):
    section = make_section(
        ("erm", 0.5, {"test": {"leak_rate/top": 12.5, "accuracy": 0.5}}),
        ("r3", 0.5, {"test": {"accuracy": 0.5}}),
    )
    column = table(section)["leak_rate/top"]
    assert (column.title, column.higher_is_better) == ("leak rate, top", None)
    assert [cell.value for cell in column.cells] == ["12.5", ""]


def test_a_group_called_like_a_detail_is_no_column(make_section):
    section = make_section(("erm", 0.5, {"test": {"group_accuracy/a/n/low": 0.5}}))
    assert make_columns(section) == []


def test_certified_measures_are_no_shares(make_section):
    values = {
        "gradient_fragility": 0.0123,
        "gradient_fragility/max": 1.0,
        "gradient_fragility/core": 2.0,
        "gradient_fragility/ratio": 0.5,
        "relative_core_sensitivity": -0.25,
        "relative_core_sensitivity/core_noisy": 0.5,
    }
    columns = table(make_section(("erm", 0.5, {"test": values})))
    fragility, sensitivity = "gradient_fragility", "relative_core_sensitivity"
    assert list(columns) == [fragility, f"{fragility}/ratio", sensitivity]
    assert columns[fragility].cells[0].value == "0.0123"
    assert columns[fragility].higher_is_better is False
    assert columns[sensitivity].cells[0].value == "\u22120.25"
    assert columns[sensitivity].higher_is_better is True
    assert all(column.meaning for column in columns.values())
