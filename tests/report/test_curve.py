from rightreasons.report.page import curves_of


def test_every_accuracy_and_every_part_of_the_loss_has_a_chart(make_section):
    section = make_section(("erm", 0.5, {}), ("r3", 0.8, {}), ("r3", 0.8, {"seed": 1}))
    curves = {curve.title: curve.chart for curve in curves_of(section)}
    assert list(curves) == [
        "Training accuracy",
        "Validation accuracy",
        "Loss part cross_entropy",
        "Loss part r3",
    ]
    assert [chart.count("<path") for chart in curves.values()] == [3, 3, 3, 2]
    assert "r3, seed 1" in curves["Loss part r3"]


def test_the_measure_of_the_selection_is_shown_too(make_section):
    log = [{"epoch": 1, "validation": {"accuracy": 0.5, "group_accuracy/worst": 0.25}}]
    titles = [curve.title for curve in curves_of(make_section(("erm", 0.5, {"log": log})))]
    assert titles == ["Validation accuracy", "Validation group accuracy, worst"]


def test_runs_without_a_log_have_no_curves(make_section):
    assert curves_of(make_section(("erm", 0.5, {"log": None}))) == []


def test_what_is_no_number_is_left_out(make_section):
    log = [
        {"epoch": 1, "accuracy": float("nan"), "parts": ["x"], "validation": {"accuracy": "high"}},
        {"epoch": 2, "accuracy": 0.5, "parts": {"cross_entropy": None}},
    ]
    (curve,) = curves_of(make_section(("erm", 0.5, {"log": log})))
    assert curve.title == "Training accuracy"
    assert "epoch 1" not in curve.chart
