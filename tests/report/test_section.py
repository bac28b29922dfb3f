import pytest

from rightreasons.report.record import read_record
from rightreasons.report.section import group_records

TRAINING = {"epochs": 4, "batch_size": 50, "lr": 0.002, "optimizer": "adam", "clip": None}


def labels(section):
    return [method.label for method in section.methods]


def test_seeds_of_one_method_are_put_together_and_ordered(make_section):
    section = make_section(("r3", 0.8, {"seed": 2}), ("r3", 0.6, {"seed": 0}), ("erm", 0.5, {}))
    assert labels(section) == ["erm", "r3"]
    assert section.methods[1].seeds == (0, 2)
    estimate = section.methods[1].estimate("group_accuracy/worst")
    assert (round(estimate.value, 6), estimate.num_seeds) == (0.7, 2)


def test_the_baseline_comes_first_and_has_the_first_colour(make_section):
    section = make_section(("r3", 0.8, {}), ("erm", 0.5, {}), ("group_dro", 0.5, {}))
    assert [(m.label, m.colour) for m in section.methods] == [
        ("erm", 0),
        ("r3", 1),
        ("group_dro", 2),
    ]
    assert make_section(("r3", 0.8, {})).methods[0].colour == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"settings": {"weight": 30.0}}, ["r3", "r3 (weight=30)"]),
        ({"training": {**TRAINING, "epochs": 9}}, ["r3 (epochs=4)", "r3 (epochs=9)"]),
        ({"model": "lenet"}, ["r3 (mlp)", "r3 (lenet)"]),
        ({"model_settings": {"hidden": [9]}}, ["r3", "r3 (model hidden=(9))"]),
        ({"selection": {"used": "accuracy"}}, ["r3 (select=none)", "r3 (select=accuracy)"]),
        ({"strategy": "jtt"}, ["r3", "r3 + jtt"]),
    ],
)
def test_labels_tell_what_differs(make_section, changes, expected):
    assert labels(make_section(("r3", 0.8, {}), ("r3", 0.8, changes))) == expected


def test_a_strategy_is_not_the_baseline_and_its_settings_are_told(make_section):
    section = make_section(
        ("erm", 0.8, {"strategy": "jtt", "strategy_settings": {"upweight": 9}}),
        ("erm", 0.8, {"strategy": "jtt"}),
        ("erm", 0.5, {}),
    )
    assert labels(section) == ["erm", "erm + jtt (strategy upweight=9)", "erm + jtt"]


def test_weights_that_set_themselves_do_not_part_seeds(make_section):
    section = make_section(
        ("r3", 0.8, {"terms": {"cross_entropy": 1.0, "r3": 12.0}}),
        ("r3", 0.8, {"terms": {"cross_entropy": 1.0, "r3": 14.0}, "seed": 1}),
    )
    assert labels(section) == ["r3"]


def test_the_same_seed_again_does_not_count(make_section):
    section = make_section(("erm", 0.5, {"name": "first"}), ("erm", 0.9, {"name": "again"}))
    assert [record.folder.name for record in section.records] == ["first"]
    assert [record.folder.name for record in section.methods[0].repeated] == ["again"]


def titles(make_run, *changes):
    records = [read_record(make_run("erm", 0.5, **change)) for change in changes]
    return [(section.title, len(section.records)) for section in group_records(records)]


def test_other_data_have_their_own_section(make_run):
    oracle = {"data_settings": {"oracle": True}, "data_sha256": "f"}
    assert titles(make_run, {}, oracle, {"seed": 1}) == [
        ("lesions", 2),
        ("lesions (oracle=True)", 1),
    ]


def test_the_seed_of_the_data_does_not_part_them(make_run):
    first, second = ({"data_settings": {"seed": s}, "seed": s} for s in (0, 1))
    assert titles(make_run, first, second) == [("lesions", 2)]


def test_other_files_under_the_same_name_are_other_data(make_run):
    found = titles(make_run, {}, {"data_sha256": "other"})
    assert found == [("lesions, data 1", 1), ("lesions, data 2", 1)]


def test_groups_are_those_with_test_samples_in_the_order_of_the_card(make_section):
    test = {"group_accuracy/ill/n": 3.0, "group_accuracy/healthy/n": 2.0, "group_accuracy/7/n": 1.0}
    (method,) = make_section(("erm", 0.5, {"test": test})).methods
    assert method.group_names == ("healthy", "ill", "7")
