import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.bounds import Box
from rightreasons.core.tracing import split_at_first_layer
from rightreasons.probe.adapters import FirstLayerAdapter, InputAdapter
from rightreasons.types import Interval, Target

COLUMNS = torch.tensor([1, 4, 7])


@pytest.fixture(params=["inside", True])
def masked(request, tiny_net, tiny_batch):
    tiny_net.eval()
    return rr.Probe(tiny_net, tiny_batch, needs_gradient=request.param).masked


def test_columns_are_the_features_that_masks_touch(tiny_net, tiny_batch):
    mask = torch.zeros(6, 1, 4, 4, dtype=torch.float64)
    mask[0, 0, 1, 2] = 1
    mask[3, 0, 0, 0] = 0.5
    masked = rr.Probe(tiny_net, tiny_batch.replace(mask=mask), needs_gradient="inside").masked
    assert masked.mask.shape == masked.values.shape == (6, 4)  # two pixels, two channels
    assert torch.equal(masked.values[:, 0], tiny_batch.x[:, 0, 0, 0])
    assert torch.equal(masked.values[:, 3], tiny_batch.x[:, 1, 1, 2])
    assert masked.mask[3].tolist() == [0.5, 0, 0.5, 0]
    assert masked.columns.tolist() == [0, 6, 16, 22]


def test_the_gradient_is_that_of_the_plain_pass(masked, tiny_net, tiny_batch):
    for target in Target:
        probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
        full = (probe.mask * probe.gradient(target)).flatten(1).abs().sum(dim=1)
        ours = (masked.mask * masked.gradient(target)).abs().sum(dim=1)
        torch.testing.assert_close(ours, full)
        assert masked.gradient(target) is masked.gradient(target)


def test_the_box_is_two_sided_and_stays_in_the_valid_range(masked):
    lower, upper = masked.box(0.3, (0.0, 1.0))
    masked, values = masked.mask == 1, masked.values
    assert torch.equal(lower[masked], (values - 0.3).clamp(min=0)[masked])
    assert torch.equal(upper[masked], (values + 0.3).clamp(max=1)[masked])
    assert torch.equal(lower[~masked], values[~masked])
    assert torch.equal(upper[~masked], values[~masked])


def test_a_feature_outside_the_range_may_stay_where_it_is(masked):
    lower, upper = masked.box(0.1, (0.4, 0.6))
    assert bool((lower <= masked.values).all())
    assert bool((masked.values <= upper).all())


def test_the_whole_range_is_every_valid_value(masked):
    lower, upper = masked.box(None, (-1.0, 2.0))
    hard = masked.mask == 1
    assert bool((lower[hard] == -1).all())
    assert bool((upper[hard] == 2).all())
    assert torch.equal(lower[~hard], masked.values[~hard])
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected a `valid_range`"):
        masked.box(None)


def test_other_values_are_seen_as_at_test_time(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")  # in train mode
    tiny_net.eval()
    expected = tiny_net(tiny_batch.x)
    tiny_net.train()
    point = probe.masked.at(probe.masked.values)
    torch.testing.assert_close(point.logits, expected)
    assert tiny_net.training


def test_points_reach_the_weights_only_where_asked(masked, tiny_net):
    values = masked.values
    gradient = masked.at(values, reach_weights=True).gradient(Target.LOSS, create_graph=True)
    slopes = torch.autograd.grad(gradient.square().sum(), list(tiny_net.parameters())[:1])
    assert float(slopes[0].abs().sum()) > 0
    torch.testing.assert_close(gradient, masked.gradient())
    assert not masked.at(values).gradient(Target.LOSS).requires_grad


def test_bounds_hold_at_every_drawn_point(masked):
    interval = masked.box(0.2, (0.0, 1.0))
    logits, gradient = masked.gradient_box(interval, Target.LOSS)
    only = masked.output_box(interval)
    torch.testing.assert_close(only.center, logits.center)
    for fraction in torch.rand(20, *masked.values.shape, dtype=torch.float64):
        point = masked.at(torch.lerp(*interval, fraction))
        assert bool(((point.logits - logits.center).abs() <= logits.radius + 1e-9).all())
        off = (point.gradient(Target.LOSS) - gradient.center).abs()
        assert bool((off <= gradient.radius + 1e-9).all())


def test_masks_of_zeros_leave_nothing_inside(tiny_net, tiny_batch):
    blank = tiny_batch.replace(mask=torch.zeros_like(tiny_batch.mask))
    masked = rr.Probe(tiny_net, blank, needs_gradient="inside").masked
    assert masked.values.shape == masked.gradient().shape == (6, 0)


def test_without_masks_it_is_refused(tiny_net, tiny_batch):
    bare = rr.Batch(x=tiny_batch.x, y=tiny_batch.y)
    with pytest.raises(rr.errors.InvalidBatchError, match="Expected a batch with a `mask`"):
        _ = rr.Probe(tiny_net, bare, needs_gradient="inside").masked


@pytest.fixture
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3)).double()


@pytest.fixture
def x():
    return torch.rand(4, 2, 2, 2, dtype=torch.float64)


@pytest.fixture(params=["first layer", "input"])
def adapter(request, net, x):
    if request.param == "input":
        return InputAdapter(model=net, features=x, columns=COLUMNS)
    split = split_at_first_layer(net, x)
    values = x.flatten(1)[:, COLUMNS]
    return FirstLayerAdapter(
        split=split, first_output=split.layer(x.flatten(1)), values=values, columns=COLUMNS
    )


def moved(x, values):
    x = x.clone().flatten(1)
    x[:, COLUMNS] = values
    return x.reshape(-1, 2, 2, 2)


def test_entering_values_is_putting_them_into_the_input(adapter, net, x):
    values = torch.rand(4, 3, dtype=torch.float64)
    logits = adapter.net(adapter.net_input(values, detached=True))
    torch.testing.assert_close(logits, net(moved(x, values)))
    assert torch.equal(adapter.values, x.flatten(1)[:, COLUMNS])


def test_copies_are_stacked_copy_after_copy(adapter, net, x):
    values = torch.rand(2, 4, 3, dtype=torch.float64)
    logits = adapter.net(adapter.net_input(values.flatten(0, 1), detached=True))
    expected = torch.cat([net(moved(x, copy)) for copy in values])
    torch.testing.assert_close(logits, expected)


def test_gradients_come_back_to_the_columns(adapter, net, x):
    values = torch.rand(4, 3, dtype=torch.float64)
    entered = adapter.net_input(values, detached=True).detach().requires_grad_()
    (at_net,) = torch.autograd.grad(adapter.net(entered)[:, 0].sum(), entered)
    full = moved(x, values).requires_grad_()
    (expected,) = torch.autograd.grad(net(full)[:, 0].sum(), full)
    torch.testing.assert_close(adapter.feature_gradient(at_net), expected.flatten(1)[:, COLUMNS])


def test_a_box_holds_everything_that_enters(adapter):
    lower = adapter.values - 0.1
    upper = adapter.values + torch.tensor([0.0, 0.3, 0.1], dtype=torch.float64)
    center, radius = adapter.net_input_box(Interval(lower, upper))
    touched = torch.zeros_like(radius)
    for fraction in torch.rand(50, 4, 3, dtype=torch.float64).round():
        entered = adapter.net_input(torch.lerp(lower, upper, fraction), detached=True)
        assert bool(((entered - center).abs() <= radius + 1e-12).all())
        touched = torch.maximum(touched, (entered - center).abs())
    assert bool((touched >= radius - 1e-12).all())  # the corners reach it


def test_bounds_of_gradients_come_back_wider_by_magnitudes(adapter, x):
    shape = adapter.net_input(adapter.values, detached=True).shape
    center, radius = torch.randn(shape).double(), torch.rand(shape).double()
    at_features = adapter.feature_gradient_box(Box(center, radius))
    torch.testing.assert_close(at_features.center, adapter.feature_gradient(center))
    largest = torch.zeros_like(at_features.radius)
    for _ in range(200):
        masked = adapter.feature_gradient(
            center + radius * (2 * torch.rand(shape).double() - 1).sign()
        )
        assert bool(((masked - at_features.center).abs() <= at_features.radius + 1e-12).all())
        largest = torch.maximum(largest, (masked - at_features.center).abs())
    assert bool((largest > 0.5 * at_features.radius).all())


def test_the_weights_graph_can_be_left_out(net, x):
    split = split_at_first_layer(net, x)
    entered = split.layer(x.flatten(1))
    values = x.flatten(1)[:, COLUMNS]
    adapter = FirstLayerAdapter(split=split, first_output=entered, values=values, columns=COLUMNS)
    assert not adapter.net_input(values, detached=True).requires_grad
    assert adapter.net_input(values, detached=False).requires_grad
    assert not adapter.feature_gradient(entered.detach(), detached=True).requires_grad
    assert adapter.feature_gradient(entered.detach()).requires_grad
