import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import RelativeCoreSensitivity

NAME = "relative_core_sensitivity"


def data_of(size=200, *, scale=1.0):
    y = torch.arange(size) % 2
    x = y[:, None].float().repeat(1, 2) * scale
    mask = torch.tensor([[1.0, 0.0]]).repeat(size, 1)
    mask[::10] = 0
    return InMemory(rr.Batch(x=x, y=y, mask=mask), Card(valid_range=(0.0, scale)))


def reader_of(feature, *, scale=1.0):
    model = nn.Linear(2, 2)
    model.weight.data = torch.zeros(2, 2)
    model.weight.data[:, feature] = torch.tensor([-1.0, 1.0]) / scale
    model.bias.data = torch.tensor([0.5, -0.5])
    return model


def test_a_model_that_reads_one_region_alone_has_an_end_of_the_scale():
    masked, core = (rr.evaluate(reader_of(f), data_of(), [NAME]) for f in (0, 1))
    assert core[NAME] == pytest.approx(1.0)
    assert core[f"{NAME}/masked_noisy"] == 1
    assert core[f"{NAME}/core_noisy"] < 1
    assert masked[NAME] == pytest.approx(-1.0)
    assert masked[f"{NAME}/n"] == 180


def test_noise_is_a_share_of_the_valid_range():
    small = rr.evaluate(reader_of(1), data_of(), [RelativeCoreSensitivity(noise=0.5)])
    large = rr.evaluate(
        reader_of(1, scale=256.0), data_of(scale=256.0), [RelativeCoreSensitivity(noise=0.5)]
    )
    assert small == large


def test_equals_its_slow_twin():
    torch.manual_seed(0)
    model = rr.models.mlp(inputs=2, hidden=(4,), classes=2)
    data = data_of(40)
    metric = RelativeCoreSensitivity(noise=0.4, num_draws=3, seed=2)
    values = rr.evaluate(model, data, [metric])
    expected = slow.relative_core_sensitivity(model, data.batch, noise=0.4, num_draws=3, seed=2)
    assert {key.removeprefix(NAME).strip("/"): v for key, v in values.items()} == expected


@pytest.mark.parametrize("right", [True, False])
def test_when_noise_tells_nothing_it_is_zero(right):
    data = data_of()
    batch = data.batch.replace(y=torch.full((200,), 0 if right else 1))
    model = reader_of(1)
    model.weight.data.zero_()
    values = rr.evaluate(model, InMemory(batch, Card(classes=("a", "b"))), [NAME])
    assert values[NAME] == 0
    assert values[f"{NAME}/core_noisy"] == values[f"{NAME}/masked_noisy"] == float(right)


def test_without_any_mask_there_is_no_value():
    batch = data_of().batch
    data = InMemory(batch.replace(mask=torch.zeros_like(batch.mask)))
    assert rr.evaluate(reader_of(0), data, [NAME]) == {f"{NAME}/n": 0.0}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"noise": 0}, "Expected `noise` to be a finite number above 0"),
        ({"num_draws": 0}, "Expected `num_draws` to be a whole number from 1"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        RelativeCoreSensitivity(**settings)
