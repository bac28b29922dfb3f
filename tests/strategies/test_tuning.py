import pytest

from rightreasons.strategies.masktune import last_rate, tuned
from rightreasons.strategies.stages import Stages


def test_the_rate_the_last_epoch_began_with():
    assert last_rate([{"lr": 0.05}, {"lr": 0.02}, {"lr": 0.0}], lr=0.1) == 0.02
    assert last_rate([{"lr": 0.0}], lr=0.1) == 0.1


@pytest.mark.parametrize(("lr", "expected"), [(None, 0.025), (0.5, 0.5)])
def test_fine_tuning_keeps_one_rate(tiny_splits, make_net, fit_settings, lr, expected):
    from rightreasons.objectives import CrossEntropy

    net, objective = make_net(), CrossEntropy().as_objective()
    settings = {**fit_settings, "scheduler": "cosine", "select": "accuracy"}
    stages = Stages(tiny_splits, out=None, resume=False, settings=settings)
    first = stages.fit("train", net, objective, tiny_splits.train)
    second = tuned(stages, net, objective, tiny_splits.train, first, epochs=1, lr=lr)
    assert [row["lr"] for row in second.history] == [pytest.approx(expected)]
    assert second.selection == {"used": "none", "epoch": 1}
