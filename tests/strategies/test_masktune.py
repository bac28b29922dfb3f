import numpy as np
import pytest
import torch
from tests.reference import strategies as slow
from tests.reference.strategies import deviations_mask, soft_mask, top_mask

import rightreasons as rr
from rightreasons.datasets import InMemory, MaskBits
from rightreasons.datasets.dataset import Splits
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.explainers import InputGradient, XGradCAM, last_spatial_layer
from rightreasons.strategies import MaskTune
from rightreasons.strategies import masktune as heat_map
from rightreasons.strategies.masktune import (
    draw_heat_maps,
    explainer_factory,
    fine_tune,
    heat_mask,
    last_rate,
)
from rightreasons.strategies.strategy import Stages


def test_maps_are_of_the_predicted_class(tiny_splits, make_net, monkeypatch):
    monkeypatch.setattr(heat_map, "BATCH_SIZE", 20)
    net, data = make_net().eval(), tiny_splits.train
    found = list(draw_heat_maps(net, data, explainer_factory("xgrad_cam", {}, None)))
    assert torch.equal(torch.cat([places for places, _ in found]), torch.arange(64))
    predicted = net(data.batch.x).argmax(dim=1)
    expected = XGradCAM(layers=["2"])(net, data.batch.x, predicted)
    torch.testing.assert_close(torch.cat([heat for _, heat in found]), expected)


def test_a_batch_takes_one_pass(tiny_splits, make_net, monkeypatch):
    monkeypatch.setattr(heat_map, "BATCH_SIZE", 20)
    net, sizes = make_net(), []
    net[-1].register_forward_hook(lambda _module, _given, logits: sizes.append(len(logits)))
    last_spatial_layer(net, tiny_splits.train.batch.x)  # found out once for a model
    sizes.clear()
    maker = explainer_factory("xgrad_cam", {}, "2")
    assert len(list(draw_heat_maps(net, tiny_splits.train, maker))) == 4
    assert sizes == [20, 20, 20, 4]


def test_the_layer_may_be_named(tiny_splits, make_net):
    net, x = make_net(), tiny_splits.train.batch.x
    assert explainer_factory("xgrad_cam", {}, None)(net, x).layers == ("2",)
    assert explainer_factory("grad_cam", {}, "0")(net, x).layers == ("0",)
    assert explainer_factory("grad_cam", {"layers": ["1"]}, None)(net, x).layers == ("1",)


def test_other_explainers_are_summed_over_channels(tiny_splits, make_net):
    net, data = make_net().eval(), tiny_splits.val
    ((_, heat),) = draw_heat_maps(net, data, explainer_factory("input_gradient", {}, None))
    predicted = net(data.batch.x).argmax(dim=1)
    torch.testing.assert_close(heat, InputGradient()(net, data.batch.x, predicted).abs())


def test_the_model_is_left_in_its_mode(tiny_splits, make_net):
    net = make_net()
    before = net[1].running_mean.clone()
    list(draw_heat_maps(net, tiny_splits.val, explainer_factory("xgrad_cam", {}, None)))
    assert net.training
    assert torch.equal(net[1].running_mean, before)


def test_mistakes_are_told_at_once():
    with pytest.raises(UnknownNameError, match="Did you mean 'xgrad_cam'"):
        explainer_factory("xgradcam", {}, None)
    with pytest.raises(InvalidSettingError, match="but got sharpness"):
        explainer_factory("grad_cam", {"sharpness": 2}, None)
    with pytest.raises(InvalidSettingError, match="that reads a `layer`.* but got 'lrp'"):
        explainer_factory("lrp", {}, "conv4")


HEAT = torch.cat([torch.rand(4, 1, 5, 6), torch.rand(2, 1, 5, 6).mul(3).sub(2).clamp(min=0)]).pow(3)


@pytest.mark.parametrize("statistics", ["all", "positive"])
@pytest.mark.parametrize("k", [0.0, 1.0, 2.0])
def test_deviations_equal_the_slow_twin(statistics, k):
    expected = [deviations_mask(one[0].tolist(), k, statistics == "positive") for one in HEAT]
    assert heat_mask(HEAT, k=k, statistics=statistics)[:, 0].tolist() == expected


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_top_equals_the_slow_twin(share):
    expected = [top_mask(one[0].tolist(), share) for one in HEAT]
    assert heat_mask(HEAT, rule="top", share=share)[:, 0].tolist() == expected


def test_soft_equals_the_slow_twin():
    expected = torch.tensor([soft_mask(one[0].tolist()) for one in HEAT])
    torch.testing.assert_close(heat_mask(HEAT, rule="soft")[:, 0], expected)


@pytest.mark.parametrize("rule", ["deviations", "top", "soft"])
@pytest.mark.parametrize("statistics", ["all", "positive"])
def test_no_heat_no_mask(rule, statistics):
    blank = torch.zeros(2, 1, 3, 3)
    assert not heat_mask(blank, rule=rule, statistics=statistics).any()


@pytest.mark.parametrize("k", [0.0, 2.0])
def test_a_flat_map_stands_out_nowhere(k):
    assert not heat_mask(torch.full((1, 1, 28, 28), 0.1), k=k).any()


def test_a_map_does_not_depend_on_the_others():
    together = heat_mask(HEAT)
    for n in range(len(HEAT)):
        assert torch.equal(heat_mask(HEAT[n : n + 1])[0], together[n])


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
    second = fine_tune(stages, net, objective, tiny_splits.train, first, epochs=1, lr=lr)
    assert [row["lr"] for row in second.history] == [pytest.approx(expected)]
    assert second.selection == {"used": "none", "epoch": 1}


def masks_of(folder, number):
    return np.load(folder / f"stage-{number}-masks.npy")


def twin_masks(net, x, k=2.0):
    """Explained one by one for the predicted class, cut by the slow twin."""
    masks = []
    for sample in x:
        predicted = net(sample[None]).argmax(dim=1)
        heat = rr.explainers.XGradCAM(layers=["2"])(net, sample[None], predicted)[0, 0]
        masks.append(slow.deviations_mask(heat.double().tolist(), k, positive=False))
    return torch.tensor(masks)[:, None]


def trained_first(make_net, tiny_splits, fit_settings):
    net = make_net()
    rr.fit(net, rr.recipes.erm(), tiny_splits.train, validation=tiny_splits.val, **fit_settings)
    return net


def test_masks_equal_the_slow_twin(make_net, tiny_splits, fit_settings, tmp_path):
    net, first = make_net(), trained_first(make_net, tiny_splits, fit_settings)
    MaskTune().fit(net, rr.recipes.erm(), tiny_splits, out=tmp_path, **fit_settings)
    rows = masks_of(tmp_path, 2)
    assert rows.shape == (64, 8)  # 64 pixels are 8 bytes
    masks = MaskBits(rows, size=(8, 8)).at(torch.arange(64))
    assert torch.equal(masks, twin_masks(first, tiny_splits.train.batch.x))
    assert 0 < masks.mean() < 0.2


def test_it_fine_tunes_on_covered_images(make_net, tiny_splits, fit_settings):
    """By hand: fit, explain, cover, fit again with the second seed."""
    net, first = make_net(), trained_first(make_net, tiny_splits, fit_settings)
    settings = {**fit_settings, "scheduler": "constant"}
    fitted = MaskTune(tune_lr=0.01).fit(net, rr.recipes.erm(), tiny_splits, **fit_settings)
    batch = tiny_splits.train.batch
    covered = [
        slow.covered(image.tolist(), mask[0].tolist())
        for image, mask in zip(batch.x, twin_masks(first, batch.x), strict=True)
    ]
    data = InMemory(batch.replace(x=torch.tensor(covered)), tiny_splits.card)
    stages = Stages(tiny_splits, out=None, resume=False, settings={**settings, "lr": 0.01})
    stages.fits.append(("train", fitted))
    stages.fit("tune", first, rr.recipes.erm(), data, epochs=1)
    for name, value in first.state_dict().items():
        torch.testing.assert_close(net.state_dict()[name], value)
    assert [row["stage"] for row in fitted.history] == ["train", "train", "tune"]


def test_maps_of_the_selected_weights_tuning_from_the_last(make_net, tiny_splits, fit_settings):
    settings = {**fit_settings, "epochs": 4, "select": "worst_group"}
    seen = []
    original = Stages.fit

    def spy(self, name, model, *arguments, **changes):
        seen.append({key: value.clone() for key, value in model.state_dict().items()})
        return original(self, name, model, *arguments, **changes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stages, "fit", spy)
        MaskTune().fit(make_net(), rr.recipes.erm(), tiny_splits, **settings)
    last = make_net()
    rr.fit(last, rr.recipes.erm(), tiny_splits.train, **{**settings, "select": "none"})
    for name, value in last.state_dict().items():
        assert torch.equal(seen[1][name], value)


@pytest.mark.parametrize("accumulate", [True, False])
def test_iterations(make_net, tiny_splits, fit_settings, tmp_path, accumulate):
    strategy = MaskTune(iterations=2, accumulate=accumulate)
    strategy.fit(make_net(), rr.recipes.erm(), tiny_splits, out=tmp_path, **fit_settings)
    first, second = (
        MaskBits(masks_of(tmp_path, number), size=(8, 8)).at(torch.arange(64)).bool()
        for number in (2, 3)
    )
    assert bool((second | ~first).all()) == accumulate
    assert not torch.equal(first, second)


def test_it_stops_where_nothing_is_left(make_net, tiny_splits, fit_settings, caplog):
    net, first = make_net(), trained_first(make_net, tiny_splits, fit_settings)
    caplog.set_level("INFO", logger="rightreasons")
    strategy = MaskTune(rule="top", share=0.99, iterations=3, stop_below=0.99)
    fitted = strategy.fit(net, rr.recipes.erm(), tiny_splits, **fit_settings)
    assert [row["stage"] for row in fitted.history].count("tune") == 1
    assert "Stopped in iteration 1 of MaskTune" in caplog.text
    for name, value in first.state_dict().items():
        assert torch.equal(net.state_dict()[name], value)


@pytest.mark.parametrize(
    "settings",
    [
        {"rule": "soft", "fill": "mean", "iterations": 2},
        {"rule": "top", "share": 0.2, "fill": "blur", "statistics": "positive"},
        {"explainer": "smooth_grad", "explainer_settings": {"num_draws": 2}, "k": 1},
    ],
)
def test_its_settings_work_together(make_net, tiny_splits, fit_settings, settings, tmp_path):
    ends = []
    for out in (None, tmp_path):
        net = make_net()
        MaskTune(**settings).fit(net, rr.recipes.erm(), tiny_splits, out=out, **fit_settings)
        ends.append(net.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_soft_masks_are_bytes(make_net, tiny_splits, fit_settings, tmp_path):
    strategy = MaskTune(rule="soft")
    strategy.fit(make_net(), rr.recipes.erm(), tiny_splits, out=tmp_path, **fit_settings)
    assert masks_of(tmp_path, 2).shape == (64, 64)
    assert masks_of(tmp_path, 2).max(axis=1).tolist() == [255] * 64


def test_what_is_no_image_is_refused(make_net, fit_settings):
    table = InMemory(rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    splits = Splits(train=table, val=None, test=table)
    with pytest.raises(
        InvalidSettingError, match=r"Expected images of shape \(C, H, W\) for MaskT"
    ):
        MaskTune().fit(make_net(), rr.recipes.erm(), splits, **fit_settings)


def test_a_layer_may_be_named_by_its_number(tiny_splits, make_net, fit_settings):
    """A configuration file reads the name 2 of an `nn.Sequential` as a number."""
    nets = [make_net(), make_net()]
    for net, layer in zip(nets, (2, "2"), strict=True):
        MaskTune(layer=layer).fit(net, rr.recipes.erm(), tiny_splits, **fit_settings)
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(one, other)


def test_the_body_alone_is_tuned_at_the_rate_it_had(tiny_splits, make_net, fit_settings):
    settings = {**fit_settings, "freeze": "4.*", "body_lr": 0.005}
    fitted = MaskTune().fit(make_net(), rr.recipes.erm(), tiny_splits, **settings)
    assert [row["lr"] for row in fitted.history] == pytest.approx([0.025, 0.0, 0.025])
