from rightreasons.report.page import groups_of


def test_groups_have_a_bar_for_each_method(make_section):
    groups, count = groups_of(make_section(("erm", 0.5, {}), ("r3", 0.8, {})))
    assert [(group.name, group.size) for group in groups] == [("healthy", 120), ("ill", 80)]
    assert count == 2
    assert [group.chart.count("<rect") for group in groups] == [2, 2]
    assert groups[1].lowest == 0.5


def test_of_too_many_groups_the_hardest_are_shown_in_their_order(make_section):
    shares = [0.9, 0.1, 0.8, 0.2]
    test = {}
    for number, share in enumerate(shares):
        test |= {f"group_accuracy/g{number}": share, f"group_accuracy/g{number}/n": 5.0}
    groups, count = groups_of(make_section(("erm", 0.5, {"test": test})), most=3)
    assert [group.name for group in groups] == ["g1", "g2", "g3"]
    assert count == 4


def test_without_groups_there_are_no_bars(make_section):
    assert groups_of(make_section(("erm", 0.5, {"test": {"accuracy": 0.5}}))) == ([], 0)


def test_a_size_without_an_accuracy_is_no_group(make_section):
    assert groups_of(make_section(("erm", 0.5, {"test": {"group_accuracy/a/n": 5.0}}))) == ([], 0)
