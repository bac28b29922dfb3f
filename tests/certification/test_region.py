import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_ends_hold_the_box_despite_rounding(net_of, batch_of, region_for, dtype):
    region = region_for(net_of(), batch_of(), epsilon=0.1)
    batch = region.batch
    lower, upper = region.ends(dtype)
    assert lower.dtype == dtype
    double_model = batch.x.double()
    reach = 0.1 * batch.mask.double()
    low = torch.minimum((double_model - reach).clamp(min=0.0), double_model)
    high = torch.maximum((double_model + reach).clamp(max=1.0), double_model)
    assert (lower.double() <= low).all() and (upper.double() >= high).all()
    assert torch.allclose(lower.double(), low, atol=1e-6)
    assert torch.allclose(upper.double(), high, atol=1e-6)
    still = batch.mask == 0
    assert torch.equal(lower[still], batch.x[still].to(dtype))
    assert torch.equal(upper[still], batch.x[still].to(dtype))


def test_the_full_range_is_every_valid_value(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of(), epsilon=None, valid_range=(-1.0, 2.0))
    lower, upper = region.ends(torch.float64)
    moves = region.batch.mask != 0
    assert torch.allclose(lower[moves], torch.tensor(-1.0, dtype=torch.float64))
    assert torch.allclose(upper[moves], torch.tensor(2.0, dtype=torch.float64))


def test_inputs_put_values_where_they_came_from(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of())
    assert torch.equal(region.inputs(region.probe.masked.values), region.batch.x)
    moved = region.inputs(region.box.upper)
    assert moved.dtype == torch.float64
    changed = moved != region.batch.x.double()
    assert changed.any()
    assert not changed[region.batch.mask == 0].any()


def test_a_search_stays_in_the_box(net_of, batch_of, region_for):
    region = region_for(net_of(), batch_of(), epsilon=0.1)
    own, outer = region.search_box(), region.ends(torch.float32)
    assert own.lower.dtype == torch.float32
    assert (region.inputs(own.lower) >= outer.lower).all()
    assert (region.inputs(own.upper) <= outer.upper).all()
    values = region.probe.masked.values
    assert ((own.lower <= values) & (values <= own.upper)).all()


def test_the_probe_takes_predictions_for_labels_and_the_exact_one_labels(
    net_of, batch_of, region_for
):
    region = region_for(net_of(), batch_of())
    assert torch.equal(region.probe.masked.y, region.prediction)
    assert torch.equal(region.double_probe.masked.y, region.batch.y)
    assert region.double_probe.logits.dtype == region.mask.dtype == torch.float64
