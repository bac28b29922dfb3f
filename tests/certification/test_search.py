import torch

from rightreasons.certification.evidence import found_gradient, found_margin
from rightreasons.types import Target


def test_the_margin_found_is_that_of_the_model_itself(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of(), epsilon=0.5)
    points, classes, margins = found_margin(region, num_steps=5, num_restarts=2)
    logits = region.model(region.inputs(points))
    assert torch.equal(classes, logits.argmax(dim=1))
    assert torch.equal(margins, Target.MARGIN(logits, region.prediction))
    box = region.own_box()
    assert ((points >= box.lower) & (points <= box.upper)).all()


def test_the_margin_found_is_small(net_of, batch_of, region_for, points_in):
    region = region_for(net_of(), batch_of(), epsilon=0.5)
    _, _, margins = found_margin(region, num_steps=10, num_restarts=3)
    tried = [Target.MARGIN(region.model(x), region.prediction) for x in points_in(region)]
    assert (margins <= torch.stack(tried).amin(dim=0) + 0.05).all()


def test_the_corner_of_a_linear_model_is_the_worst_point(net_of, batch_of, region_for, points_in):
    for seed in range(3):
        region = region_for(net_of(seed, hidden=()), batch_of(seed, size=60), epsilon=0.5)
        _, _, margins = found_margin(region, num_steps=0, num_restarts=1)
        tried = [Target.MARGIN(region.model(x), region.prediction) for x in points_in(region)]
        assert (margins <= torch.stack(tried).amin(dim=0) + 1e-5).all()


def test_without_steps_the_sample_itself_is_seen(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of(), epsilon=0.5)
    _, _, margins = found_margin(region, num_steps=0, num_restarts=1)
    nominal = Target.MARGIN(region.model(region.batch.x), region.prediction)
    assert (margins <= nominal + 1e-6).all()


def test_the_gradient_found_is_at_least_the_sample_s(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of(), epsilon=0.5)
    for target in (Target.LOSS, Target.LOGIT):
        gradient = region.exact_probe.masked.gradient(target)
        nominal = (gradient * region.mask).norm(dim=1)
        found = found_gradient(region, target, num_steps=5, num_restarts=3)
        assert found.dtype == torch.float64
        assert (found >= nominal).all()
        assert (found > nominal).any()
