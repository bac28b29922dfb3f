import itertools
import math

import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.bounds import Box
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import (
    CertificateError,
    InvalidBatchError,
    InvalidSettingError,
    UnknownNameError,
    UnsupportedLayerError,
)
from rightreasons.metrics import CertifiedChange, GradientFragility
from rightreasons.metrics.box import BoxMetric, draw_start_points
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.probe.probe import Probe
from rightreasons.types import Interval

KINDS = [CertifiedChange, GradientFragility]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "Expected `epsilon` to be a finite number above 0, but got 0"),
        ({"epsilon": None}, "Expected `epsilon` to be a finite number above 0, but got None"),
        ({"num_samples": -1}, "Expected `num_samples` to be a whole number from 0"),
        ({"num_steps": 1.5}, "Expected `num_steps` to be a whole number from 0"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_settings_out_of_range(kind, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        kind(**settings)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_target(kind):
    with pytest.raises(UnknownNameError, match="Expected a target, but got 'logits'"):
        kind(target="logits")


def test_the_box_ends_where_valid_values_do(tiny_net, tiny_batch):
    class Some(BoxMetric):
        name = "some"

        def measure(self, probe):
            return {"lower": self.box(probe.masked).lower, "upper": self.box(probe.masked).upper}

        def summary(self, rows):
            return 0.0

    metric = Some(epsilon=0.3, target="loss", num_samples=0, num_steps=0, seed=0)
    metric.prepare(InMemory(tiny_batch, Card(valid_range=(0.1, 0.8))))
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient="inside", create_graph=False)
    box = metric.measure(probe)
    values, mask = probe.masked.values, probe.masked.mask
    expected = (values - 0.3 * mask).clamp(min=0.1).minimum(values)
    assert torch.allclose(box["lower"], expected)
    assert torch.allclose(box["upper"], (values + 0.3 * mask).clamp(max=0.8).maximum(values))


def change_net(seed, *, hidden=(6,)):
    torch.manual_seed(seed)
    net = rr.models.mlp(inputs=4, hidden=hidden, classes=3).double()
    for parameter in net.parameters():
        parameter.data *= 1 + seed % 3
    return net


def change_batch(seed, *, size=5):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [0, 0.5, 1, 0]])
    return rr.Batch(
        x=torch.rand(size, 4, generator=generator, dtype=torch.float64),
        y=torch.randint(3, (size,), generator=generator),
        mask=mask.double()[:size],
    )


def rows_of(net, batch, **settings):
    data = InMemory(batch, Card(valid_range=(0.0, 1.0)))
    metric = CertifiedChange(**settings)
    metric.prepare(data)
    taken = data.take(torch.arange(len(batch)))
    return metric.measure(rr.Probe(net, taken, needs_gradient="inside", create_graph=False))


def certified_change(net, batch, **settings):
    data = InMemory(batch, Card(valid_range=(0.0, 1.0)))
    values = rr.evaluate(net, data, [CertifiedChange(**settings)])
    return {key.removeprefix("certified_change").strip("/"): v for key, v in values.items()}


@pytest.mark.parametrize("seed", range(4))
def test_certified_change_equals_its_slow_twin(seed):
    net, batch = change_net(seed), change_batch(seed)
    values = certified_change(net, batch, epsilon=0.2)
    expected = slow.certified_change(net, batch, epsilon=0.2, valid_range=(0.0, 1.0))
    assert {key: values[key] for key in expected} == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("target", ["loss", "logit", "margin"])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_no_attack_and_no_corner_changes_more_than_was_proved(target, hidden, epsilon):
    value = rr.Target(target)
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)))[:, None]
    for seed in range(6):
        net, batch = change_net(seed, hidden=hidden), change_batch(seed)
        rows = rows_of(net, batch, epsilon=epsilon, target=target, num_samples=2, num_steps=4)
        assert (rows["attack"] <= rows["proved"] + 1e-12).all()
        moved = (batch.x + epsilon * batch.mask * corners).clamp(0, 1).flatten(0, 1)
        values = value(net(moved), batch.y.repeat(len(corners))).view(len(corners), -1)
        change = (values - value(net(batch.x), batch.y)).abs()
        assert (change <= rows["proved"] + 1e-12).all()


def test_a_linear_model_reaches_what_was_proved():
    net, batch = change_net(0, hidden=()), change_batch(0)
    rows = rows_of(net, batch, epsilon=0.05)
    free = (batch.x > 0.05) & (batch.x < 0.95) | (batch.mask == 0)
    reached = free.all(dim=1)
    assert reached.any()
    assert torch.allclose(rows["attack"][reached], rows["proved"][reached])


def test_the_valid_range_counts():
    net, batch = change_net(0, hidden=()), change_batch(0)
    inner = certified_change(net, batch.replace(x=torch.full_like(batch.x, 0.5)), epsilon=10.0)
    weights = net[-1].weight.detach() if hasattr(net, "__getitem__") else None
    steep = weights[batch.y].abs()
    expected = (steep * 0.5 * (batch.mask > 0))[batch.mask.any(dim=1)].sum(dim=1).mean()
    assert inner[""] == pytest.approx(float(expected))


def test_without_a_stated_range_features_move_by_epsilon():
    net, batch = change_net(0, hidden=()), change_batch(0)
    values = rr.evaluate(net, batch, [CertifiedChange(epsilon=10.0)])
    steep = net[-1].weight.detach()[batch.y].abs()
    expected = (steep * 10.0 * batch.mask)[batch.mask.any(dim=1)].sum(dim=1).mean()
    assert values["certified_change"] == pytest.approx(float(expected))


def test_certified_change_only_samples_with_masks_count():
    net, batch = change_net(2), change_batch(2)
    values = certified_change(net, batch)
    assert values["n"] == 4
    assert set(values) == {"", "max", "attack", "attack_max", "n"}
    assert 0 < values["attack"] <= values[""] <= values["max"]
    assert values["attack"] <= values["attack_max"] <= values["max"]
    assert certified_change(net, batch[1:2]) == {"n": 0.0}


def test_without_a_search_nothing_is_found():
    values = certified_change(change_net(1), change_batch(1), num_samples=0, num_steps=0)
    assert values["attack"] == 0 < values[""]


def fragility_net(seed, *, hidden=(6,)):
    torch.manual_seed(seed)
    return rr.models.mlp(inputs=5, hidden=hidden, classes=3).double()


def fragility_batch(seed, *, size=6, soft=False):
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.rand(size, 5, generator=generator) < 0.4).double()
    mask[0] = torch.tensor([1.0, 0, 0, 0, 0])
    mask[1] = 0
    if soft:
        mask = mask * torch.rand(size, 5, generator=generator, dtype=torch.float64)
    return rr.Batch(
        x=torch.rand(size, 5, generator=generator, dtype=torch.float64),
        y=torch.randint(3, (size,), generator=generator),
        mask=mask,
    )


def gradient_fragility(net, batch, **settings):
    data = InMemory(batch, Card(valid_range=(0.0, 1.0)))
    values = rr.evaluate(net, data, [GradientFragility(**settings)])
    return {key.removeprefix("gradient_fragility").strip("/"): v for key, v in values.items()}


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_fragility_equals_its_slow_twin(seed, soft):
    net, batch = fragility_net(seed), fragility_batch(seed, soft=soft)
    values = gradient_fragility(net, batch, epsilon=0.2)
    expected = slow.gradient_fragility(net, batch, epsilon=0.2, valid_range=(0.0, 1.0))
    assert {key: values[key] for key in expected} == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("target", ["loss", "logit", "margin"])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_no_attack_finds_more_than_was_proved(target, hidden):
    for seed in range(5):
        net, batch = (
            fragility_net(seed, hidden=hidden),
            fragility_batch(seed),
        )
        data = InMemory(batch)
        metric = GradientFragility(epsilon=0.3, target=target, num_samples=8, num_steps=5)
        metric.prepare(data)
        taken = data.take(torch.arange(len(batch)))
        probe = rr.Probe(net, taken, needs_gradient="inside", create_graph=False)
        rows = metric.measure(probe)
        assert (rows["attack"] <= rows["proved"] + 1e-12).all()
        assert (rows["attack_max"] <= rows["proved_max"] + 1e-12).all()


def test_the_search_finds_something():
    values = gradient_fragility(fragility_net(0), fragility_batch(0, size=20), epsilon=0.3)
    assert 0 < values["attack"] < values[""]
    assert values["attack_max"] <= values["max"]
    more = gradient_fragility(
        fragility_net(0),
        fragility_batch(0, size=20),
        epsilon=0.3,
        num_samples=30,
        num_steps=10,
    )
    assert more["attack"] > values["attack"]


def test_wider_boxes_are_more_fragile():
    narrow, wide = (
        gradient_fragility(fragility_net(1), fragility_batch(1), epsilon=e) for e in (0.05, 0.2)
    )
    for key in ("", "max", "core", "core_max"):
        assert narrow[key] < wide[key]


def test_a_linear_model_has_logits_that_are_not_fragile():
    values = gradient_fragility(fragility_net(0, hidden=()), fragility_batch(0), target="logit")
    assert values[""] == values["max"] == values["core"] == values["attack"] == 0
    assert math.isnan(values["ratio"])


def test_gradient_fragility_only_samples_with_masks_count():
    net, batch = fragility_net(2), fragility_batch(2)
    counts = batch.mask.any(dim=1)
    values = gradient_fragility(net, batch)
    assert values["n"] == counts.sum()
    assert values[""] == pytest.approx(gradient_fragility(net, batch[counts])[""])
    assert gradient_fragility(net, batch[1:2]) == {"n": 0.0}


def test_a_sample_all_masked_has_no_core():
    net, batch = fragility_net(2), fragility_batch(2)
    mask = batch.mask.clone()
    mask[2] = 1
    rest = [n for n in range(len(batch)) if n != 2]
    with_full = gradient_fragility(net, batch.replace(mask=mask))
    assert with_full["core"] == pytest.approx(
        gradient_fragility(net, batch[torch.tensor(rest)])["core"]
    )
    everything = gradient_fragility(net, batch.replace(mask=torch.ones_like(mask)))
    assert math.isnan(everything["core"])


def test_the_core_can_be_left_out():
    values = gradient_fragility(fragility_net(0), fragility_batch(0), core=False)
    assert set(values) == {"", "max", "attack", "attack_max", "n"}
    assert values[""] == gradient_fragility(fragility_net(0), fragility_batch(0))[""]
    with pytest.raises(InvalidSettingError, match="Expected `core` to be True or False"):
        GradientFragility(core=1)


def test_widths_beyond_all_numbers_are_shown():
    net, batch = fragility_net(0).float(), fragility_batch(0).to(torch.float32)
    values = rr.evaluate(net, batch, [GradientFragility(epsilon=3e38)])
    assert not math.isfinite(values["gradient_fragility"])
    assert not math.isfinite(values["gradient_fragility/max"])


def test_images_with_one_mask_for_all_channels():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(18, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    x = torch.rand(3, 2, 3, 3, dtype=torch.float64)
    mask = (torch.rand(3, 1, 3, 3) < 0.5).double()
    y = torch.tensor([0, 1, 0])
    shared = gradient_fragility(net, rr.Batch(x=x, y=y, mask=mask))
    full = gradient_fragility(net, rr.Batch(x=x, y=y, mask=mask.expand_as(x)))
    assert shared == pytest.approx(full)


def probe_of(tiny_batch, net, rows):
    batch = tiny_batch.replace(index=torch.arange(len(tiny_batch)))[rows]
    return Probe(net.eval(), batch, needs_gradient="inside", create_graph=False)


def test_points_lie_in_the_box_and_differ(tiny_net, tiny_batch):
    probe = probe_of(tiny_batch, tiny_net, slice(None))
    box = probe.masked.box(0.2)
    points = draw_start_points(probe, box, num_points=3, seed=0)
    assert points.shape == (3, *probe.masked.values.shape)
    assert ((points >= box.lower) & (points <= box.upper)).all()
    free = (box.lower < box.upper).expand_as(points)
    assert points[free].unique().numel() == free.sum()


def test_points_of_a_sample_do_not_depend_on_its_batch(tiny_net, tiny_batch):
    def full(rows):
        probe = probe_of(tiny_batch, tiny_net, rows)
        points = draw_start_points(probe, probe.masked.box(0.2), num_points=2, seed=3)
        columns = probe.masked.columns
        return probe.features.detach().flatten(1).repeat(2, 1, 1).index_copy(2, columns, points)

    whole = full(slice(None))
    assert torch.equal(full(slice(2, 4)), whole[:, 2:4])


def test_a_batch_without_an_index(tiny_net, tiny_batch):
    probe = Probe(tiny_net.eval(), tiny_batch, needs_gradient="inside", create_graph=False)
    box = Interval(probe.masked.values, probe.masked.values)
    with pytest.raises(InvalidBatchError, match="Expected batches with an `index`"):
        draw_start_points(probe, box, num_points=1, seed=0)


def prepared(kind, batch, **settings):
    metric = kind(**settings)
    metric.prepare(InMemory(batch, Card()))
    return metric


def measure(metric, net, batch):
    batch = batch.replace(index=torch.arange(len(batch)))
    return metric.measure(
        Probe.at_test_time(net, batch, needs_gradient="inside", create_graph=False)
    )


def test_a_layer_that_jumps_changes_more_than_its_slope_says_and_is_refused():
    net = nn.Sequential(nn.Linear(4, 1), nn.Softplus(threshold=1.0), nn.Linear(1, 3)).double()
    batch = change_batch(0)
    with pytest.raises(UnsupportedLayerError, match=r"without jumps.*`1` \(Softplus\).*by 0.313"):
        measure(prepared(CertifiedChange, batch), net, batch)
    net[1] = nn.Softplus()
    measure(prepared(CertifiedChange, batch), net, batch)


@pytest.mark.parametrize(
    ("kind", "what"), [(CertifiedChange, "change"), (GradientFragility, "width of the gradient")]
)
def test_an_attack_that_finds_more_than_was_proved_is_an_error(monkeypatch, kind, what):
    net, batch = change_net(0), change_batch(0)
    metric = prepared(kind, batch, epsilon=0.5)
    rows = measure(metric, net, batch)
    assert bool((rows["attack"] <= rows["proved"] * (1 + 1e-9)).all())
    gradient_box = MaskedFeatures.gradient_box

    def too_small(self, interval, target):
        logits, gradient = gradient_box(self, interval, target)
        return logits, Box(0.01 * gradient.center, 0.01 * gradient.radius)

    monkeypatch.setattr(MaskedFeatures, "gradient_box", too_small)
    words = f"Expected an attack to find no larger {what} than was proved, but `{kind.name}` found"
    with pytest.raises(CertificateError, match=words):
        measure(metric, net, batch)


def test_what_single_precision_rounds_is_measured_again_in_double(monkeypatch):
    """A sure prediction is rounded to 1, by more than the bound of its small gradient."""
    net, batch = change_net(0).float(), change_batch(0).to(torch.float32)
    metric, measured = prepared(GradientFragility, batch, epsilon=0.5), []
    search, gradient_box = GradientFragility._search, MaskedFeatures.gradient_box

    def rounded(self, probe):
        measured.append((probe.features.dtype, len(probe.batch)))
        found = search(self, probe)
        is_first = (torch.arange(len(probe.batch)) == 0)[:, None]
        error = 1e3 if probe.features.dtype == torch.float32 else 0.0
        return Interval(found.lower, found.upper + error * is_first)

    monkeypatch.setattr(GradientFragility, "_search", rounded)
    rows = measure(metric, net, batch)
    assert measured == [(torch.float32, len(batch)), (torch.float64, 1), (torch.float64, 1)]
    assert bool((rows["attack"] > rows["proved"])[0])

    def too_small(self, interval, target):
        logits, gradient = gradient_box(self, interval, target)
        return logits, Box(0.01 * gradient.center, 0.01 * gradient.radius)

    monkeypatch.setattr(MaskedFeatures, "gradient_box", too_small)
    with pytest.raises(CertificateError, match="no larger width of the gradient than was proved"):
        measure(metric, net, batch)
