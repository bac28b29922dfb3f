import numpy as np
import pytest
import torch
from tests.reference import strategies as slow

import rightreasons as rr
from rightreasons.datasets import InMemory, MaskBits
from rightreasons.datasets.dataset import Splits
from rightreasons.errors import InvalidSettingError
from rightreasons.strategies import MaskTune
from rightreasons.strategies.stages import Stages


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


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rule": "hard"}, "Expected `rule` to be 'deviations' or 'top' or 'soft'"),
        ({"k": -1}, "Expected `k` to be a number from 0, but got -1"),
        ({"k": True}, "Expected `k` to be a number from 0"),
        ({"statistics": "some"}, "Expected `statistics` to be 'all' or 'positive'"),
        ({"share": 1.0}, "Expected `share` to be a number from 0 to below 1"),
        ({"fill": "white"}, "Expected `fill` to be 'zero' or 'mean' or 'blur'"),
        ({"iterations": 0}, "Expected `iterations` to be a whole number from 1"),
        ({"accumulate": 1}, "Expected `accumulate` to be True or False"),
        ({"stop_below": 2}, "Expected `stop_below` to be a number from 0 to below 1"),
        ({"tune_epochs": 0}, "Expected `tune_epochs` to be a whole number from 1"),
        ({"tune_lr": 0}, "Expected `tune_lr` to be a finite number above 0"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        MaskTune(**settings)


def test_what_is_no_image_is_refused(make_net, fit_settings):
    table = InMemory(rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    splits = Splits(train=table, val=None, test=table)
    with pytest.raises(
        InvalidSettingError, match=r"Expected images of shape \(C, H, W\) for MaskT"
    ):
        MaskTune().fit(make_net(), rr.recipes.erm(), splits, **fit_settings)
