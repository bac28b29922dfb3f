import rightreasons as rr
from rightreasons.objectives.selective import deep_gamblers, one_sided, selective_net


def test_settings_reach_the_terms():
    gambler = deep_gamblers(reward=3.0, warm_up=0.1, weight_decay=1e-4)
    assert gambler.weights == {"deep_gamblers": 1.0, "weight_decay": 1e-4}
    term = gambler.terms["deep_gamblers"]
    assert (term.reward, term.warm_up) == (3.0, 0.1)
    term = selective_net(coverage=0.7, weight=8.0, alpha=0.4).terms["selective_net"]
    assert (term.coverage, term.weight, term.alpha) == (0.7, 8.0, 0.4)
    assert one_sided(mu=0.5).terms["one_sided"].mu == 0.5


def test_each_is_the_task_and_has_its_name():
    for name in ("deep_gamblers", "one_sided", "selective_net"):
        objective = getattr(rr.recipes, name)()
        assert objective.task == name
        assert objective.terms[name].is_task
