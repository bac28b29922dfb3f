import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.attacks import AttributionManipulation, frame_map
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import InputGradient, postprocessed
from rightreasons.metrics import AdvInsertion, Insertion

RATIOS = (0.0, 0.2, 0.5)
NAME = "adv_insertion/input_gradient"


@pytest.fixture
def batch():
    return rr.Batch(x=torch.rand(4, 2, 6, 6, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0]))


def net():
    layers = (nn.Conv2d(2, 4, 3, padding=1), nn.Softplus(5), nn.Flatten(), nn.Linear(144, 3))
    return nn.Sequential(*layers).double()


def test_is_insertion_in_the_order_of_what_the_attack_found(batch):
    model = net()
    settings = {"epsilon": 0.2, "num_steps": 4, "step_size": 0.3}
    metric = AdvInsertion(ratios=RATIOS, **settings)
    found = rr.evaluate(model, batch, [metric], max_rows=3)
    frame = frame_map(6, 6)
    attack = AttributionManipulation(explainer=InputGradient(), valid_range=(0.0, 1.0), **settings)
    bent = attack(model, batch.x, batch.y, target=frame).x
    maps = [slow.saliency_map(model, x, y) for x, y in zip(bent, batch.y, strict=True)]
    curve = slow.insertion(model, batch, maps=maps, ratios=RATIOS, baseline=(0.0, 0.0))
    for ratio, value in zip(RATIOS, curve, strict=True):
        assert found[f"{NAME}/{ratio:g}"] == pytest.approx(value, rel=1e-6)
    assert found["adv_insertion"] == pytest.approx(sum(curve) / 3, rel=1e-6)
    clean = rr.evaluate(model, batch, [Insertion(ratios=RATIOS)])["insertion"]
    assert found[f"{NAME}/gap"] == pytest.approx(clean - sum(curve) / 3, abs=1e-7)
    for key, x in (("frame", bent), ("frame_before", batch.x)):
        shares = postprocessed(InputGradient()(model, x, batch.y), normalise="l1")
        assert found[f"{NAME}/{key}"] == pytest.approx(float((shares * frame).sum() / 4), rel=1e-6)
    assert found[f"{NAME}/frame"] > found[f"{NAME}/frame_before"]
    assert found[f"{NAME}/flipped"] == 0


def test_several_explainers_are_attacked_each_on_its_own(batch):
    metric = AdvInsertion(
        explainers=["input_times_gradient", "lrp"], num_steps=2, ratios=RATIOS, norm="l2", epsilon=1
    )
    found = rr.evaluate(net(), batch, [metric])
    assert found["adv_insertion"] == found["adv_insertion/input_times_gradient"]
    for name in ("input_times_gradient", "lrp"):
        before, after = (found[f"adv_insertion/{name}/{k}"] for k in ("frame_before", "frame"))
        assert after > before


def test_vectors_have_no_frame():
    batch = rr.Batch(x=torch.rand(3, 4), y=torch.tensor([0, 1, 1]))
    with pytest.raises(InvalidBatchError, match="images .* for AdvInsertion, whose target is a fr"):
        rr.evaluate(nn.Linear(4, 2), batch, ["adv-insertion"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "Expected `epsilon` to be a finite number above 0"),
        ({"explainers": "occlusion"}, "Expected a differentiable `explainer` to attack"),
        ({"border": 2}, "Expected `border` to be a number from 0"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        AdvInsertion(**settings)
