import pytest

from rightreasons.report.caution import list_cautions

THREE = range(3)


def seeds(recipe, worst, **changes):
    return [(recipe, worst, {"seed": seed, **changes}) for seed in THREE]


def test_the_same_seeds_settings_and_data_need_no_caution(make_section):
    assert list_cautions(make_section(*seeds("erm", 0.5), *seeds("r3", 0.8))) == ()


FAILED = {"diagnosis": {"learned": False, "message": "The model did not learn: lower it."}}


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([("erm", 0.5, {})], "The model was trained with one seed only"),
        ([("erm", 0.5, {}), ("r3", 0.5, {})], "Every method was trained with one seed only"),
        ([*seeds("erm", 0.5), ("r3", 0.5, {})], "r3 was trained with one seed only"),
        (
            [*seeds("erm", 0.5), ("r3", 0.5, {}), ("group_dro", 0.5, {})],
            "r3 and group_dro were trained with one seed only",
        ),
        ([*seeds("erm", 0.5), ("r3", 0.5, {})], "different seeds: erm 0, 1, 2; r3 0."),
        (seeds("erm", 0.5, **FAILED), "erm, seed 2: The model did not learn: lower it."),
        (
            [*seeds("erm", 0.5), *seeds("r3", 0.5, model="lenet", training={"epochs": 9})],
            "more than their recipe: model (mlp or lenet), epochs (4 or 9)",
        ),
        (
            seeds("erm", 0.5, selection={"used": "accuracy", "epoch": 2}),
            "The epoch of erm was chosen by validation accuracy, which a shortcut raises",
        ),
        (
            [*seeds("erm", 0.5), ("erm", 0.5, {"seed": 1, "name": "twin"})],
            "twin repeats erm with seed 1 and is not counted.",
        ),
        (
            [*seeds("erm", 0.5), *seeds("r3", 0.5, versions={"torch": "9"})],
            "different versions of rightreasons and torch",
        ),
        (
            [
                ("erm", 0.5, {"data_settings": {"seed": 5}, "data_sha256": "5"}),
                ("r3", 0.5, {"data_settings": {"seed": 6}, "data_sha256": "6"}),
            ],
            "did not all see the same samples",
        ),
    ],
)
def test_cautions(make_section, runs, expected):
    assert any(expected in caution for caution in list_cautions(make_section(*runs)))


def test_settings_of_the_recipes_are_no_other_difference(make_section):
    runs = [*seeds("erm", 0.5), *seeds("r3", 0.5, settings={"weight": 30.0})]
    assert list_cautions(make_section(*runs)) == ()


def test_small_groups(make_section, make_metrics):
    test = make_metrics(0.5) | {"group_accuracy/ill/n": 7.0}
    found = list_cautions(make_section(*seeds("erm", 0.5, test=test)))
    assert found == ("The group “ill” has only 7 test samples, so its accuracy is coarse.",)


def test_findings_of_the_diagnosis_are_told_once_for_each_method(make_section):
    found = {"diagnosis": {"learned": True, "message": "It reads the tag.", "findings": ["a"]}}
    one = list_cautions(make_section(("erm", 0.5, found)))
    assert one[0] == "erm, diagnosis of its training: It reads the tag."
    runs = [("erm", 0.5, {"seed": seed, **(found if seed else {})}) for seed in range(3)]
    assert list_cautions(make_section(*runs))[0] == (
        "erm, in 2 of 3 seeds, first seed 1: It reads the tag."
    )
