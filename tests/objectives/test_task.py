from rightreasons.objectives import CVAR, R3, CrossEntropy, WeightDecay, with_task


def test_penalties_stay_with_their_weights_and_settings():
    before = CrossEntropy() + "auto" * R3() + 0.5 * WeightDecay()
    before = before.with_settings(frozen_statistics=True, max_rows=7)
    after = with_task(before, CVAR())
    assert after.weights_asked_for == {"cvar": 1.0, "r3": "auto", "weight_decay": 0.5}
    assert after.task == "cvar"
    assert (after.frozen_statistics, after.max_rows) == (True, 7)
    assert "cross_entropy" in before.weights
