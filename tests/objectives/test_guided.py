from rightreasons.objectives import R3, CrossEntropy
from rightreasons.objectives.cross_entropy import decayed, guided


def test_penalties_come_on_top_of_the_task():
    objective = guided(2.0 * R3(), 0.5, [1.0, 3.0])
    assert objective.weights == {"cross_entropy": 1.0, "r3": 2.0, "weight_decay": 0.5}
    assert objective.terms["cross_entropy"].class_weights.tolist() == [1, 3]


def test_without_decay_nothing_is_added():
    task = CrossEntropy().as_objective()
    assert decayed(task, 0.0) is task
    assert list(guided(2.0 * R3(), 0.0, None).weights) == ["cross_entropy", "r3"]
