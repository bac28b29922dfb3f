import pytest

from rightreasons.report.reliance import find_reliance
from rightreasons.report.verdict import judge_section


def signs(make_section, **changes):
    return find_reliance(make_section(("r3", 0.5, changes)).methods[0]).signs


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
    reliance = find_reliance(section.methods[0])
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
    reliance = find_reliance(make_section(("erm", 0.5, {"test": {"accuracy": 0.9}})).methods[0])
    assert not reliance.is_known
    assert (reliance.mass, reliance.before, reliance.signs) == (None, None, ())


NOT_LEARNED = {"diagnosis": {"learned": False, "message": "It did not learn."}}


def plain_accuracy(value, half=0.02):
    ends = {"accuracy/low": value - half, "accuracy/high": value + half}
    return {"test": {"accuracy": value, **ends}}


def only_swap(value):
    return {"test": {"accuracy": 0.9, "swap_accuracy": value}}


@pytest.mark.parametrize(
    ("runs", "tone", "badge", "headline"),
    [
        (
            [("erm", 0.5, {}), ("r3", 0.8, {})],
            "good",
            "Clear improvement",
            "r3 is clearly better than erm: 80.0 % right in the worst group, against 50.0 %.",
        ),
        (
            [("erm", 0.5, {}), ("r3", 0.8, {}), ("group_dro", 0.7, {})],
            "good",
            "Clear improvement",
            "r3 is clearly better than erm: 80.0 % right in the worst group, against 50.0 %.",
        ),
        (
            [("erm", 0.5, {}), ("r3", 0.55, {})],
            "unclear",
            "No clear difference",
            "No clear difference between r3 and erm: 55.0 % right in the worst group, against "
            "50.0 %.",
        ),
        (
            [("erm", 0.8, {}), ("r3", 0.5, {})],
            "bad",
            "No improvement",
            "erm is clearly better than r3: 80.0 % right in the worst group, against 50.0 %.",
        ),
        (
            [("erm", 0.8, {}), ("r3", 0.79, {})],
            "unclear",
            "No clear difference",
            "No clear difference between erm and r3: 80.0 % right in the worst group, against "
            "79.0 %.",
        ),
        (
            [("group_dro", 0.5, {}), ("r3", 0.8, {})],
            "good",
            "Clearly better",
            "r3 is clearly better than group_dro: 80.0 % right in the worst group, against 50.0 %.",
        ),
        (
            [("erm", 0.5, {}), ("r3", 0.8, NOT_LEARNED)],
            "good",
            "No sign of a shortcut",
            "erm is 50.0 % right in the worst group, and nothing measured here points to a "
            "shortcut.",
        ),
        (
            [("erm", 0.5, NOT_LEARNED), ("r3", 0.8, NOT_LEARNED)],
            "bad",
            "Not learned",
            "The training of erm and r3 failed: no better than always the most frequent class.",
        ),
        (
            [("as it is", 0.5, NOT_LEARNED)],
            "bad",
            "Not learned",
            "The model as it was given fails: no better than always the most frequent class.",
        ),
        (
            [("erm", 0, plain_accuracy(0.5)), ("r3", 0, plain_accuracy(0.8))],
            "mixed",
            "More accurate",
            "r3 is clearly better than erm: 80.0 % right over all test samples, against 50.0 %.",
        ),
        (
            [("erm", 0, only_swap(0.5)), ("r3", 0, only_swap(0.8))],
            "bad",
            "Every method fails",
            "No clear difference between r3 and erm: 80.0 % right after what the mask covers was "
            "exchanged, against 50.0 %.",
        ),
        (
            [("erm", 0, plain_accuracy(0.9))],
            "unclear",
            "Cannot tell",
            "erm is 90.0 % right over all test samples; whether for the right reasons, these data "
            "cannot tell.",
        ),
        (
            [("erm", 0, {"test": {"calibration_error": 0.1}})],
            "unclear",
            "Cannot tell",
            "The runs share no measure of accuracy on test data, so nothing can be said.",
        ),
    ],
)
def test_rules(make_section, runs, tone, badge, headline):
    verdict = judge_section(make_section(*runs))
    assert (verdict.tone, verdict.badge) == (tone, badge)
    assert verdict.headline.replace("\u202f", " ") == headline


def told(verdict):
    return " ".join(verdict.sentences).replace("\u202f", " ")


def test_a_method_alone_that_takes_the_shortcut(make_section, make_metrics):
    verdict = judge_section(make_section(("erm", 0, {"test": make_metrics(0.6, mass=0.4)})))
    assert (verdict.tone, verdict.badge) == ("bad", "Signs of a shortcut")
    assert "it holds 40.0 % for erm" in told(verdict)
    assert "right 65.0 % of the time with erm; the worst group is 5.0 points below" in told(verdict)


def test_better_is_not_solved_while_signs_remain(make_section, make_metrics):
    section = make_section(
        ("erm", 0, {"test": make_metrics(0.4, mass=0.9)}),
        ("r3", 0, {"test": make_metrics(0.7, mass=0.3)}),
    )
    verdict = judge_section(section)
    assert (verdict.tone, verdict.badge) == ("mixed", "Better, not solved")
    assert "r3 still shows signs of the shortcut: 3.0 times the mask's share" in told(verdict)


def test_the_gap_the_reliance_and_the_swap_are_told_of_both(make_section, make_metrics):
    one, two = make_metrics(0.4, average=0.7, mass=0.4), make_metrics(0.8, average=0.9)
    section = make_section(
        ("erm", 0, {"test": one, "validation": make_metrics(0.9, swap=0.6)}),
        ("r3", 0, {"test": two, "validation": make_metrics(0.9)}),
    )
    text = told(judge_section(section))
    assert "right 70.0 % of the time with erm and 90.0 % of the time with r3." in text
    assert "The gap between the average and the worst group fell from 30.0 points to 10.0" in text
    assert "The mask covers 10.0 % of the input." in text
    assert "it holds 40.0 % for erm and 5.0 % for r3." in text
    assert (
        "between validation samples takes the accuracy of erm from 95.0 % to 60.0 % and r3" in text
    )
    assert "Nothing measured here points to a shortcut in r3 any more." in text


@pytest.mark.parametrize(
    ("average", "expected"), [(0.845, "stayed about the same"), (0.95, "grew from 5.0 points")]
)
def test_a_gap_that_did_not_fall(make_section, make_metrics, average, expected):
    best = {"test": make_metrics(0.8, average=average)}
    assert expected in told(judge_section(make_section(("erm", 0.5, {}), ("r3", 0, best))))


def test_a_gap_that_masks_do_not_explain_is_not_hidden(make_section, make_metrics):
    best = {"test": make_metrics(0.7, average=0.9)}
    text = told(judge_section(make_section(("erm", 0.5, {}), ("r3", 0, best))))
    assert "yet its worst group is 20.0 points below the average" in text


def test_what_it_costs_is_told(make_section, make_metrics):
    section = make_section(
        ("erm", 0, {"test": make_metrics(0.4, accuracy=0.95)}),
        ("r3", 0, {"test": make_metrics(0.8, accuracy=0.85)}),
    )
    assert "It costs overall accuracy: 85.0 % for r3, 95.0 % for erm." in told(
        judge_section(section)
    )


def test_other_methods_are_told_with_those_that_are_as_good(make_section):
    runs = [("erm", 0.5, {}), ("r3", 0.8, {}), ("group_dro", 0.78, {}), ("input_gradient", 0.6, {})]
    verdict = judge_section(make_section(*runs))
    assert (
        "Right in the worst group, the others: group_dro 78.0 % and input_gradient 60.0 %. No "
        "clear difference to r3: group_dro." in told(verdict)
    )
    assert [method.label for method in verdict.compared] == ["erm", "r3"]


def test_why_there_is_no_clear_difference(make_section):
    near = judge_section(make_section(("erm", 0.5, {}), ("r3", 0.51, {})))
    assert "The intervals overlap, so the difference may be chance." in told(near)
    unknown = judge_section(make_section(("erm", 0, only_swap(0.5)), ("r3", 0, only_swap(0.8))))
    assert "There is no interval to judge it by" in told(unknown)


def test_one_seed_is_a_caution(make_section):
    verdict = judge_section(make_section(("erm", 0.5, {}), ("r3", 0.8, {})))
    assert any("one seed only" in caution for caution in verdict.cautions)


def found(*names):
    return {"diagnosis": {"learned": True, "message": "It fits. A finding.", "findings": [*names]}}


def test_a_swap_that_changed_nothing_is_no_probe(make_section, make_metrics):
    blind = make_metrics(0.8) | {"swap_accuracy/changed": 0.01}
    reliance = find_reliance(make_section(("r3", 0, {"test": blind})).methods[0])
    assert reliance.probes == ("input gradients", "groups")
    seeing = make_metrics(0.8) | {"swap_accuracy/changed": 0.9}
    section = make_section(("r3", 0, {"test": seeing, "validation": blind}))
    assert find_reliance(section.methods[0]).swapped_on == "test"


def test_samples_that_the_swap_left_alone_do_not_hide_its_cost(make_section, make_metrics):
    """One sample in ten has a mask, or fewer: all of those are wrong after the swap."""
    costs = {"swap_accuracy/cost": 0.9, "swap_accuracy/before": 1.0}
    clear = {"swap_accuracy/cost/low": 0.8, "swap_accuracy/cost/high": 1.0}
    for ends in ({"swap_accuracy/changed": 0.1}, {"swap_accuracy/changed": 0.04} | clear):
        few = make_metrics(0.85, accuracy=0.9, swap=0.87) | costs | ends
        assert find_reliance(make_section(("r3", 0, {"test": few})).methods[0]).signs == (
            "90.0 points lost when the masked part is exchanged",
        )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"mass": 0.02, "swap": 0.3}, "only 2.0 % of the input gradient lies in a mask of 10.0 %"),
        ({"mass": 0.9}, "exchanging that part costs 0.0 points"),
        ({"mass": 0.9, "swap": 0.3}, ""),
        ({"mass": 0.05}, ""),
    ],
)
def test_maps_and_swap_that_disagree_are_a_caution(make_section, make_metrics, values, words):
    verdict = judge_section(make_section(("erm", 0, {"test": make_metrics(0.8, **values)})))
    first = verdict.cautions[0].replace("\u202f", " ")
    assert first.startswith("Maps and swap disagree on erm: ") == bool(words)
    assert words in first


@pytest.mark.parametrize(
    ("runs", "tone", "badge"),
    [
        ([("r3", 0.8, found("polarity"))], "mixed", "Check first"),
        ([("erm", 0.5, {}), ("r3", 0.8, found("polarity"))], "mixed", "Better; check first"),
        ([("r3", 0.8, found("reads_mask"))], "bad", "Signs of a shortcut"),
        ([("r3", 0.8, found("masks_tell_class"))], "good", "No sign of a shortcut"),
        ([("erm", 0.02, {}), ("r3", 0.01, {})], "bad", "Every method fails"),
        ([("erm", 0.02, {}), ("r3", 0.2, {})], "bad", "Every method fails"),
        ([("r3", 0.3, {})], "bad", "Fails"),
    ],
)
def test_no_all_clear_with_a_doubt_and_red_where_all_fail(make_section, runs, tone, badge):
    verdict = judge_section(make_section(*runs))
    assert (verdict.tone, verdict.badge) == (tone, badge)


def test_a_gap_is_no_all_clear(make_section, make_metrics):
    gap = {"test": make_metrics(0.7, average=0.9)}
    alone = judge_section(make_section(("r3", 0, gap)))
    assert (alone.tone, alone.badge) == ("mixed", "A gap remains")
    both = judge_section(make_section(("erm", 0.5, {}), ("r3", 0, gap)))
    assert (both.tone, both.badge) == ("mixed", "Better; a gap remains")
    assert any("errors in the worst group" in step for step in both.next_steps)


def test_what_to_try_next(make_section, make_metrics):
    def steps(*runs):
        return " ".join(judge_section(make_section(*runs)).next_steps)

    cheats = {"test": make_metrics(0.4, mass=0.9)}
    assert "--recipe counterexamples" in steps(("erm", 0, cheats))
    tried = steps(("erm", 0, cheats), ("counterexamples", 0, cheats))
    assert "--recipe counterexamples" not in tried
    assert "rightreasons audit" in steps(("erm", 0, plain_accuracy(0.9)))
    assert "Look at some masks" in steps(("r3", 0.8, found("polarity")))
    assert "weight=auto" in steps(("erm", 0.8, {}), ("r3", 0.8, NOT_LEARNED))
    seeds = [("r3", 0.8, {"seed": seed}) for seed in range(3)]
    assert steps(*seeds) == ""
    assert "three seeds" in steps(*seeds[:2])


def test_the_record_has_plain_values(make_section):
    record = judge_section(make_section(("erm", 0.5, {}), ("r3", 0.8, {}))).to_record()
    assert record["headline"].endswith("80.0 % right in the worst group, against 50.0 %.")
    assert (record["tone"], list(record["methods"])) == ("good", ["erm", "r3"])
    assert record["methods"]["r3"]["probes"] == [
        "exchanged masked parts",
        "input gradients",
        "groups",
    ]
