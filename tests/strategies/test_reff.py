import json

import numpy as np
import pytest
import torch

import rightreasons as rr
from rightreasons.annotators import PseudoAnnotator, draw_annotated
from rightreasons.datasets import InMemory, Splits
from rightreasons.strategies import ReFF
from rightreasons.strategies.strategy import Stages

QUICK = {"annotator_width": 2, "annotator_depth": 1, "annotator_updates": 30, "annotator_lr": 0.02}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from tests.strategies import tiny

    folder, seen, original = tmp_path_factory.mktemp("reff"), {}, Stages.fit

    def spy(self, name, model, objective, data, **changes):
        seen[name] = data
        return original(self, name, model, objective, data, **changes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stages, "fit", spy)
        strategy = ReFF(num_annotations=4, **QUICK)
        fitted = strategy.fit(tiny.net(), rr.recipes.r3(), tiny.splits(), out=folder, **tiny.FIT)
    return folder, seen, fitted, tiny.splits()


def test_it_trains_with_masks_by_hand_and_predicted(run):
    folder, seen, fitted, splits = run
    assert [row["stage"] for row in fitted.history] == ["annotator", "train", "train"]
    assert ["accuracy" in row for row in fitted.history] == [False, True, True]
    train = splits.train.batch
    kept = draw_annotated(train.y, torch.ones(64).bool(), 4)
    batch = seen["train"].take(torch.arange(64))
    assert batch.annotated.nonzero().flatten().tolist() == kept.tolist()
    assert torch.equal(batch.mask[kept], train.mask[kept])
    rest = ~batch.annotated
    rows = np.load(folder / "stage-2-masks.npy").reshape(64, 1, 8, 8)
    torch.testing.assert_close(batch.mask[rest], torch.from_numpy(rows)[rest] / 255)
    assert torch.equal(batch.x, train.x)


def test_the_annotator_and_its_quality_are_kept(run):
    folder, _, _, splits = run
    annotator = PseudoAnnotator.load(folder / "annotator")
    rows = np.load(folder / "stage-2-masks.npy").reshape(64, 1, 8, 8) / 255
    assert np.abs(annotator.masks(splits.train.batch.x).numpy() - rows).max() < 0.003
    told = json.loads((folder / "annotator" / "quality.json").read_text())
    assert (told["num_annotations"], told["num_predicted"]) == (8, 56)
    held_out = told["held_out"]
    assert held_out["num_masks"] == 56
    assert 0 <= held_out["calibration_error"] <= 1
    assert 0 < held_out["soft_iou"] <= 1


def test_data_with_few_masks_of_their_own(tiny_splits, make_net, fit_settings, tmp_path):
    batch = tiny_splits.train.batch
    some = torch.arange(64) < 6
    few = InMemory(batch.replace(mask=batch.mask * some.reshape(-1, 1, 1, 1), annotated=some))
    splits = Splits(train=few, val=tiny_splits.val, test=tiny_splits.test)
    settings = {**QUICK, "annotator_updates": 2, "weight_by_confidence": True}
    ReFF(**settings).fit(make_net(), rr.recipes.erm(), splits, out=tmp_path, **fit_settings)
    told = json.loads((tmp_path / "annotator" / "quality.json").read_text())
    assert told == {"num_annotations": 6, "num_predicted": 58, "held_out": None}


@pytest.mark.parametrize("recipe", ["r3", "reff_l1"])
@pytest.mark.parametrize("by_confidence", [False, True])
def test_doubt_is_no_mask(tiny_splits, make_net, fit_settings, caplog, recipe, by_confidence):
    settings = {**QUICK, "annotator_updates": 2, "weight_by_confidence": by_confidence}
    objective = getattr(rr.recipes, recipe)()
    ReFF(num_annotations=4, **settings).fit(make_net(), objective, tiny_splits, **fit_settings)
    words = "which to reff_l1 means that the model should look there. Leave it out, or use a rec"
    assert (words in caplog.text) == (by_confidence and recipe == "reff_l1")


def test_with_all_masks_it_is_one_fit(tiny_splits, make_net, fit_settings, caplog):
    caplog.set_level("INFO", logger="rightreasons")
    net, plain = make_net(), make_net()
    fitted = ReFF().fit(net, rr.recipes.r3(), tiny_splits, **fit_settings)
    rr.fit(plain, rr.recipes.r3(), tiny_splits.train, **fit_settings)
    assert {row["stage"] for row in fitted.history} == {"train"}
    assert "All 64 training samples are annotated" in caplog.text
    for name, value in plain.state_dict().items():
        assert torch.equal(net.state_dict()[name], value)


def test_the_optimizer_of_the_classifier_is_not_the_annotators(
    tiny_splits, make_net, fit_settings, tmp_path
):
    """Momentum was refused, and frozen weights left the annotator as it was drawn."""
    changed = {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 1e-3, "freeze": "*.bias"}
    changed |= {"scheduler": "step", "milestones": "1"}
    kept = []
    for name, more in (("plain", {}), ("changed", changed)):
        strategy = ReFF(num_annotations=4, **{**QUICK, "annotator_updates": 2})
        settings = {**fit_settings, "lr": 0.005, **more}
        objective = rr.recipes.r3(weight=0.1)
        strategy.fit(make_net(), objective, tiny_splits, out=tmp_path / name, **settings)
        kept.append((tmp_path / name / "annotator" / "model.safetensors").read_bytes())
    assert kept[0] == kept[1]
