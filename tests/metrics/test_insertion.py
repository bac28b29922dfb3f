import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.attacks import AttributionManipulation, frame_map
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import InputGradient, postprocessed
from rightreasons.metrics import AdvInsertion, Deletion, Insertion
from rightreasons.metrics.insertion import RATIOS, importance_ranks, probability_curve


def test_the_ratios_are_the_paper_s():
    assert len(RATIOS) == 20
    assert RATIOS[:2] == (0.0, 0.05) and RATIOS[-1] == 0.95


def test_equal_values_rank_in_reading_order():
    maps = torch.tensor([[[[1.0, 3.0], [3.0, 1.0]]]])
    assert importance_ranks(maps).tolist() == [[2, 0, 1, 3]]


class Sum(nn.Module):
    """Logits (sum of x, 0), which show how much of the sample is left."""

    def __init__(self):
        super().__init__()
        self.num_rows = 0

    def forward(self, x):
        self.num_rows += len(x)
        total = x.flatten(1).sum(dim=1)
        return torch.stack([total, torch.zeros_like(total)], dim=1)


def test_all_ratios_of_all_samples_are_passed_once():
    model = Sum()
    x = torch.arange(12.0).reshape(2, 1, 2, 3)
    probe = rr.Probe(model, rr.Batch(x=x, y=torch.tensor([0, 0])), max_rows=3)
    ranks = importance_ranks(x)
    model.num_rows = 0
    values = probability_curve(
        probe, ranks, ratios=(0.0, 0.5, 1.0), baseline=torch.tensor(0.0), deletes=False
    )
    assert model.num_rows == 1 + 2 * 2  # the empty image once
    expected = [[0, 12, 15], [0, 30, 51]]
    assert values.logit().round().tolist()[0] == expected[0]
    assert values[1].tolist() == pytest.approx(
        torch.tensor(expected[1]).double().sigmoid().tolist()
    )
    deleted = probability_curve(
        probe, ranks, ratios=(0.0, 0.5, 1.0), baseline=torch.tensor(0.0), deletes=True
    )
    assert deleted.logit().round().tolist()[0] == [15, 3, 0]


@pytest.mark.parametrize("metric", [Insertion, Deletion])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ratios": []}, "Expected `ratios` to be a number or a list of numbers, 1 or more"),
        ({"ratios": "ab"}, "Expected `ratios` to be a number or a list of numbers, 1 or more"),
        ({"ratios": 1.2}, "Expected `ratios` to be fractions from 0 to 1"),
        ({"ratios": [0.5, 1.2]}, "Expected `ratios` to be fractions from 0 to 1"),
        ({"sign": "negative"}, "Expected `sign` to be 'absolute' or 'positive' or 'signed'"),
    ],
)
def test_reconstruction_settings_out_of_range(metric, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        metric(**settings)


def test_one_ratio_is_a_list_of_one():
    assert Insertion(ratios=0.5).ratios == (0.5,)


def test_a_baseline_for_other_channels():
    batch = rr.Batch(x=torch.rand(2, 3, 4, 4), y=torch.tensor([0, 1]))
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    with pytest.raises(InvalidBatchError, match="a number or 3 of them.*but got 2"):
        rr.evaluate(model, batch, [Insertion(baseline=[0.1, 0.2])])


INSERTION_RATIOS = (0.0, 0.25, 0.6, 1.0)
BASELINE = (0.4, 0.6)


@pytest.fixture
def insertion_batch():
    return rr.Batch(x=torch.rand(4, 2, 4, 4, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0]))


def insertion_net():
    layers = (nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(48, 3))
    return nn.Sequential(*layers).double()


def test_insertion_equals_its_slow_twin(insertion_batch):
    model = insertion_net()
    metric = Insertion(ratios=INSERTION_RATIOS, baseline=BASELINE)
    values = rr.evaluate(model, insertion_batch, [metric], max_rows=3)
    maps = [
        slow.saliency_map(model, x, y)
        for x, y in zip(insertion_batch.x, insertion_batch.y, strict=True)
    ]
    curve = slow.insertion(
        model, insertion_batch, maps=maps, ratios=INSERTION_RATIOS, baseline=BASELINE
    )
    for ratio, value in zip(INSERTION_RATIOS, curve, strict=True):
        assert values[f"insertion/input_gradient/{ratio:g}"] == pytest.approx(value, rel=1e-6)
    mean = sum(curve) / len(curve)
    assert (
        values["insertion"] == values["insertion/input_gradient"] == pytest.approx(mean, rel=1e-6)
    )


def test_the_right_order_is_better_than_the_wrong_one():
    """Only the first two columns matter, and one of them counts against the label."""
    model = nn.Linear(4, 2, bias=False)
    model.weight.data = torch.tensor([[8.0, -4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    insertion_batch = rr.Batch(x=torch.ones(3, 4), y=torch.tensor([0, 0, 0]))
    values = {
        sign: rr.evaluate(model, insertion_batch, [Insertion(sign=sign)])["insertion"]
        for sign in ("signed", "positive", "absolute")
    }
    assert values["signed"] > values["absolute"]
    assert values["positive"] == pytest.approx(values["absolute"])  # ties keep their order


def test_several_explainers(insertion_batch):
    values = rr.evaluate(
        insertion_net(), insertion_batch, [Insertion(explainers=["lrp", "input-gradient"])]
    )
    assert values["insertion"] == values["insertion/lrp"]
    assert values["insertion/lrp/0"] == values["insertion/input_gradient/0"]
    assert len(values) == 1 + 2 * 21


DELETION_RATIOS = (0.0, 0.3, 1.0)


def test_deletion_equals_its_slow_twin():
    batch = rr.Batch(x=torch.rand(3, 2, 4, 4, dtype=torch.float64), y=torch.tensor([0, 1, 1]))
    layers = (nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(48, 2))
    model = nn.Sequential(*layers).double()
    values = rr.evaluate(model, batch, [Deletion(ratios=DELETION_RATIOS)], max_rows=4)
    maps = [slow.saliency_map(model, x, y) for x, y in zip(batch.x, batch.y, strict=True)]
    curve = slow.insertion(
        model, batch, maps=maps, ratios=DELETION_RATIOS, baseline=(0.0, 0.0), deletes=True
    )
    for ratio, value in zip(DELETION_RATIOS, curve, strict=True):
        assert values[f"deletion/input_gradient/{ratio:g}"] == pytest.approx(value, rel=1e-6)
    assert values["deletion"] == pytest.approx(sum(curve) / 3, rel=1e-6)


def test_what_mattered_goes_first():
    model = nn.Linear(4, 2, bias=False)
    model.weight.data = torch.tensor([[5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    batch = rr.Batch(x=torch.ones(2, 4), y=torch.tensor([0, 0]))
    values = rr.evaluate(model, batch, [Deletion(ratios=(0.0, 0.25))])
    assert values["deletion/input_gradient/0"] > 0.99
    assert values["deletion/input_gradient/0.25"] == 0.5


ADV_INSERTION_RATIOS = (0.0, 0.2, 0.5)
NAME = "adv_insertion/input_gradient"


@pytest.fixture
def adv_insertion_batch():
    return rr.Batch(x=torch.rand(4, 2, 6, 6, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0]))


def adv_insertion_net():
    layers = (nn.Conv2d(2, 4, 3, padding=1), nn.Softplus(5), nn.Flatten(), nn.Linear(144, 3))
    return nn.Sequential(*layers).double()


def test_is_insertion_in_the_order_of_what_the_attack_found(adv_insertion_batch):
    model = adv_insertion_net()
    settings = {"epsilon": 0.2, "num_steps": 4, "step_size": 0.3}
    metric = AdvInsertion(ratios=ADV_INSERTION_RATIOS, **settings)
    found = rr.evaluate(model, adv_insertion_batch, [metric], max_rows=3)
    frame = frame_map(6, 6)
    attack = AttributionManipulation(explainer=InputGradient(), valid_range=(0.0, 1.0), **settings)
    bent = attack(model, adv_insertion_batch.x, adv_insertion_batch.y, target=frame).x
    maps = [
        slow.saliency_map(model, x, y) for x, y in zip(bent, adv_insertion_batch.y, strict=True)
    ]
    curve = slow.insertion(
        model, adv_insertion_batch, maps=maps, ratios=ADV_INSERTION_RATIOS, baseline=(0.0, 0.0)
    )
    for ratio, value in zip(ADV_INSERTION_RATIOS, curve, strict=True):
        assert found[f"{NAME}/{ratio:g}"] == pytest.approx(value, rel=1e-6)
    assert found["adv_insertion"] == pytest.approx(sum(curve) / 3, rel=1e-6)
    clean = rr.evaluate(model, adv_insertion_batch, [Insertion(ratios=ADV_INSERTION_RATIOS)])[
        "insertion"
    ]
    assert found[f"{NAME}/gap"] == pytest.approx(clean - sum(curve) / 3, abs=1e-7)
    for key, x in (("frame", bent), ("frame_before", adv_insertion_batch.x)):
        fractions = postprocessed(InputGradient()(model, x, adv_insertion_batch.y), normalise="l1")
        assert found[f"{NAME}/{key}"] == pytest.approx(
            float((fractions * frame).sum() / 4), rel=1e-6
        )
    assert found[f"{NAME}/frame"] > found[f"{NAME}/frame_before"]
    assert found[f"{NAME}/flipped"] == 0


def test_several_explainers_are_attacked_each_on_its_own(adv_insertion_batch):
    metric = AdvInsertion(
        explainers=["input_times_gradient", "lrp"],
        num_steps=2,
        ratios=ADV_INSERTION_RATIOS,
        norm="l2",
        epsilon=1,
    )
    values = rr.evaluate(adv_insertion_net(), adv_insertion_batch, [metric])
    assert values["adv_insertion"] == values["adv_insertion/input_times_gradient"]
    for name in ("input_times_gradient", "lrp"):
        before, after = (values[f"adv_insertion/{name}/{k}"] for k in ("frame_before", "frame"))
        assert after > before


def test_vectors_have_no_frame():
    adv_insertion_batch = rr.Batch(x=torch.rand(3, 4), y=torch.tensor([0, 1, 1]))
    with pytest.raises(InvalidBatchError, match="images .* for AdvInsertion, whose target is a fr"):
        rr.evaluate(nn.Linear(4, 2), adv_insertion_batch, ["adv-insertion"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "Expected `epsilon` to be a finite number above 0"),
        ({"explainers": "occlusion"}, "Expected a differentiable `explainer` to attack"),
        ({"border": 2}, "Expected `border` to be a number from 0"),
    ],
)
def test_adv_insertion_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        AdvInsertion(**settings)
