import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons import bounds
from rightreasons.certification import evidence
from rightreasons.types import Interval, Target


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(4))
def test_no_point_has_a_smaller_margin(
    net_of, batch_of, region_for, points_in, method, dtype, seed
):
    region = region_for(net_of(seed, dtype=dtype), batch_of(seed, dtype=dtype), epsilon=0.3)
    all_rows = torch.arange(len(region.batch))
    proved = evidence.prove_margin(region, all_rows, method=method)
    assert torch.isfinite(proved).all()
    for points in points_in(region):
        assert (Target.MARGIN(region.model(points), region.prediction) >= proved).all()


def test_only_the_rows_asked_for(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of())
    whole = evidence.prove_margin(region, torch.arange(len(region.batch)), method="ibp")
    rows = torch.tensor([3, 1])
    assert torch.allclose(evidence.prove_margin(region, rows, method="ibp"), whole[rows])


def test_linear_relaxation_is_never_looser(net_of, batch_of, region_for):
    region = region_for(net_of(hidden=(8, 8, 8)), batch_of(), epsilon=0.3)
    all_rows = torch.arange(len(region.batch))
    ibp, crown = (evidence.prove_margin(region, all_rows, method=m) for m in ("ibp", "crown"))
    assert (crown >= ibp - 1e-5).all()


def test_both_precisions_must_agree(net_of, batch_of, region_for, monkeypatch):
    region = region_for(net_of(), batch_of())
    all_rows = torch.arange(len(region.batch))
    honest, asked = bounds.margin_bounds, []

    def pessimist(model, lower, upper, y, **settings):
        asked.append(lower.dtype)
        margins = honest(model, lower, upper, y, **settings)
        return margins - 100 if lower.dtype == torch.float32 else margins

    before = evidence.prove_margin(region, all_rows, method="ibp")
    monkeypatch.setattr(bounds, "margin_bounds", pessimist)
    after = evidence.prove_margin(region, all_rows, method="ibp")
    assert asked == [torch.float64, torch.float32]
    assert (after < before - 50).all()


def test_what_cannot_be_bounded_is_not_proved(net_of, batch_of, region_for, monkeypatch):
    region = region_for(net_of(), batch_of())
    margins = torch.full((len(region.batch), 3), torch.nan)
    monkeypatch.setattr(bounds, "margin_bounds", lambda *arguments, **settings: margins.clone())
    all_rows = torch.arange(len(region.batch))
    assert (evidence.prove_margin(region, all_rows, method="ibp") == -torch.inf).all()
    nan = Interval(region.mask * torch.nan, region.mask * torch.nan)
    assert (evidence.masked_gradient_bound(region, nan) == torch.inf).all()


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("target", [Target.LOSS, Target.LOGIT])
def test_no_point_has_a_larger_gradient(net_of, batch_of, region_for, points_in, method, target):
    region = region_for(net_of(hidden=(8, 8)), batch_of(), epsilon=0.2)
    interval = evidence.bound_gradient(region, target, method=method)
    size = evidence.masked_gradient_bound(region, interval)
    for points in points_in(region):
        x = points.double().requires_grad_()
        value = target(region.double_model(x), region.batch.y).sum()
        (gradient,) = torch.autograd.grad(value, x)
        inside = gradient[:, region.columns]
        assert ((inside >= interval.lower) & (inside <= interval.upper)).all()
        assert ((inside * region.mask).norm(dim=1) <= size).all()


def test_features_outside_the_mask_do_not_count(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of())
    wide = torch.where(region.mask == 0, torch.inf, 3.0)
    expected = 3.0 * region.mask.sum(dim=1).sqrt()
    assert torch.allclose(evidence.masked_gradient_bound(region, Interval(-wide, wide)), expected)


def test_the_margin_found_is_that_of_the_model_itself(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of(), epsilon=0.5)
    points, classes, margins = evidence.search_margin(region, num_steps=5, num_restarts=2)
    logits = region.model(region.inputs(points))
    assert torch.equal(classes, logits.argmax(dim=1))
    assert torch.equal(margins, Target.MARGIN(logits, region.prediction))
    box = region.search_box()
    assert ((points >= box.lower) & (points <= box.upper)).all()


def test_the_margin_found_is_small(net_of, batch_of, region_for, points_in):
    region = region_for(net_of(), batch_of(), epsilon=0.5)
    _, _, margins = evidence.search_margin(region, num_steps=10, num_restarts=3)
    tried = [Target.MARGIN(region.model(x), region.prediction) for x in points_in(region)]
    assert (margins <= torch.stack(tried).amin(dim=0) + 0.05).all()


def test_the_corner_of_a_linear_model_is_the_worst_point(net_of, batch_of, region_for, points_in):
    for seed in range(3):
        region = region_for(net_of(seed, hidden=()), batch_of(seed, size=60), epsilon=0.5)
        _, _, margins = evidence.search_margin(region, num_steps=0, num_restarts=1)
        tried = [Target.MARGIN(region.model(x), region.prediction) for x in points_in(region)]
        assert (margins <= torch.stack(tried).amin(dim=0) + 1e-5).all()


def test_without_steps_the_sample_itself_is_seen(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of(), epsilon=0.5)
    _, _, margins = evidence.search_margin(region, num_steps=0, num_restarts=1)
    nominal = Target.MARGIN(region.model(region.batch.x), region.prediction)
    assert (margins <= nominal + 1e-6).all()


def test_the_gradient_found_is_at_least_the_sample_s(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of(), epsilon=0.5)
    for target in (Target.LOSS, Target.LOGIT):
        gradient = region.double_probe.masked.gradient(target)
        nominal = (gradient * region.mask).norm(dim=1)
        found = evidence.search_gradient(region, target, num_steps=5, num_restarts=3)
        assert found.dtype == torch.float64
        assert (found >= nominal).all()
        assert (found > nominal).any()


def test_counts_what_layers_with_weights_give():
    net = rr.models.mlp(inputs=6, hidden=(8, 5), classes=3)
    assert evidence.num_hidden_units(net, torch.rand(4, 6)) == 8 + 5 + 3


def test_images_count_every_position():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    assert evidence.num_hidden_units(net, torch.rand(2, 1, 4, 4)) == 2 * 2 * 2 + 3


def test_a_single_layer_and_none_at_all():
    assert evidence.num_hidden_units(nn.Linear(6, 3), torch.rand(1, 6)) == 3
    assert evidence.num_hidden_units(nn.Flatten(), torch.rand(1, 2, 3)) == 6


def test_no_hook_is_left():
    net = rr.models.mlp(inputs=6, hidden=(8,), classes=3)
    evidence.num_hidden_units(net, torch.rand(1, 6))
    assert not any(module._forward_hooks for module in net.modules())
