import pytest
import torch

from rightreasons import bounds
from rightreasons.certification.evidence import gradient_size_bound, proved_gradient, proved_margin
from rightreasons.types import Interval, Target


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(4))
def test_no_point_has_a_smaller_margin(
    net_of, batch_of, region_for, points_in, method, dtype, seed
):
    region = region_for(net_of(seed, dtype=dtype), batch_of(seed, dtype=dtype), epsilon=0.3)
    everyone = torch.arange(len(region.batch))
    proved = proved_margin(region, everyone, method=method)
    assert torch.isfinite(proved).all()
    for points in points_in(region):
        assert (Target.MARGIN(region.model(points), region.prediction) >= proved).all()


def test_only_the_rows_asked_for(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of())
    whole = proved_margin(region, torch.arange(len(region.batch)), method="ibp")
    rows = torch.tensor([3, 1])
    assert torch.allclose(proved_margin(region, rows, method="ibp"), whole[rows])


def test_linear_relaxation_is_never_looser(net_of, batch_of, region_for):
    region = region_for(net_of(hidden=(8, 8, 8)), batch_of(), epsilon=0.3)
    everyone = torch.arange(len(region.batch))
    ibp, crown = (proved_margin(region, everyone, method=m) for m in ("ibp", "crown"))
    assert (crown >= ibp - 1e-5).all()


def test_both_precisions_must_agree(net_of, batch_of, region_for, monkeypatch):
    region = region_for(net_of(), batch_of())
    everyone = torch.arange(len(region.batch))
    honest, asked = bounds.margin_bounds, []

    def pessimist(model, lower, upper, y, **settings):
        asked.append(lower.dtype)
        margins = honest(model, lower, upper, y, **settings)
        return margins - 100 if lower.dtype == torch.float32 else margins

    before = proved_margin(region, everyone, method="ibp")
    monkeypatch.setattr(bounds, "margin_bounds", pessimist)
    after = proved_margin(region, everyone, method="ibp")
    assert asked == [torch.float64, torch.float32]
    assert (after < before - 50).all()


def test_what_cannot_be_bounded_is_not_proved(net_of, batch_of, region_for, monkeypatch):
    region = region_for(net_of(), batch_of())
    margins = torch.full((len(region.batch), 3), torch.nan)
    monkeypatch.setattr(bounds, "margin_bounds", lambda *arguments, **settings: margins.clone())
    everyone = torch.arange(len(region.batch))
    assert (proved_margin(region, everyone, method="ibp") == -torch.inf).all()
    nan = Interval(region.mask * torch.nan, region.mask * torch.nan)
    assert (gradient_size_bound(region, nan) == torch.inf).all()


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("target", [Target.LOSS, Target.LOGIT])
def test_no_point_has_a_larger_gradient(net_of, batch_of, region_for, points_in, method, target):
    region = region_for(net_of(hidden=(8, 8)), batch_of(), epsilon=0.2)
    interval = proved_gradient(region, target, method=method)
    size = gradient_size_bound(region, interval)
    for points in points_in(region):
        x = points.double().requires_grad_()
        value = target(region.exact(x), region.batch.y).sum()
        (gradient,) = torch.autograd.grad(value, x)
        inside = gradient[:, region.columns]
        assert ((inside >= interval.lower) & (inside <= interval.upper)).all()
        assert ((inside * region.mask).norm(dim=1) <= size).all()


def test_features_outside_the_mask_do_not_count(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of())
    wide = torch.where(region.mask == 0, torch.inf, 3.0)
    expected = 3.0 * region.mask.sum(dim=1).sqrt()
    assert torch.allclose(gradient_size_bound(region, Interval(-wide, wide)), expected)
