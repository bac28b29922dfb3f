import random

import numpy as np
import pytest
import torch

from rightreasons.core import rng
from rightreasons.core.rng import drawn_from, random_stream, sample_noise
from rightreasons.errors import InvalidSettingError


def test_depends_on_seed_and_purpose_only():
    first = random_stream(3, "train", 1).random(8).tolist()
    assert random_stream(3, "train", 1).random(8).tolist() == first
    for other in (random_stream(4, "train", 1), random_stream(3, "train", 2), random_stream(3)):
        assert other.random(8).tolist() != first


def test_a_number_is_not_its_name():
    assert random_stream(0, 1).random() != random_stream(0, "1").random()


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidSettingError, match="Expected `seed` to be a whole number from 0"):
        random_stream(-1)


def test_draws_depend_on_seed_and_purpose_and_leave_the_others_alone():
    def draws(*where):
        with drawn_from(*where):
            return torch.rand(1).item(), np.random.rand(), random.random()

    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    assert draws(0, 1, 2) == draws(0, 1, 2)
    assert all(a != b for a, b in zip(draws(0, 1, 2), draws(0, 1, 3), strict=True))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert random.getstate() == before[2]


def test_noise_depends_on_the_sample_and_not_on_the_batch():
    whole = sample_noise(torch.arange(6), (2, 3), num_draws=4, seed=1)
    assert whole.shape == (4, 6, 2, 3)
    for order in (torch.tensor([5, 0, 3]), torch.tensor([2])):
        assert torch.equal(sample_noise(order, (2, 3), num_draws=4, seed=1), whole[:, order])


def test_samples_draws_and_seeds_differ():
    noise = sample_noise(torch.arange(50), (1,), num_draws=3, seed=0)
    assert noise.unique().numel() == noise.numel()
    other = sample_noise(torch.arange(50), (1,), num_draws=3, seed=1)
    assert not torch.isin(noise, other).any()


def test_more_draws_begin_with_the_same():
    few = sample_noise(torch.tensor([4]), (3,), num_draws=2, seed=0)
    assert torch.equal(sample_noise(torch.tensor([4]), (3,), num_draws=5, seed=0)[:2], few)


@pytest.mark.parametrize(
    ("kind", "mean", "deviation"), [("uniform", 0.5, 12**-0.5), ("normal", 0.0, 1.0)]
)
def test_noise_is_distributed_as_it_says(kind, mean, deviation):
    noise = sample_noise(torch.arange(2000), (10,), num_draws=1, seed=0, kind=kind)
    assert float(noise.mean()) == pytest.approx(mean, abs=0.03)
    assert float(noise.std()) == pytest.approx(deviation, abs=0.03)
    columns = noise[0].T
    assert torch.corrcoef(columns).fill_diagonal_(0).abs().max() < 0.1


def test_the_global_state_is_left_alone():
    before = torch.get_rng_state()
    first = sample_noise(torch.arange(3), (2,), num_draws=1, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert torch.equal(sample_noise(torch.arange(3), (2,), num_draws=1, seed=0), first)


def test_no_samples_no_noise():
    assert sample_noise(torch.arange(0), (2,), num_draws=3, seed=0).shape == (3, 0, 2)


@pytest.mark.parametrize("seed", [0, 2**40 + 3])
@pytest.mark.parametrize(("shape", "num_draws"), [((), 1), ((3,), 1), ((2, 2), 4)])
def test_many_samples_at_once_draw_what_each_draws_alone(shape, num_draws, seed):
    index = torch.cat([torch.arange(rng.FEWEST_AT_ONCE), torch.tensor([2**31 + 5])])
    together = sample_noise(index, shape, num_draws=num_draws, seed=seed)
    parts = [sample_noise(some, shape, num_draws=num_draws, seed=seed) for some in index.split(50)]
    assert together.shape == (num_draws, len(index), *shape)
    assert torch.equal(together, torch.cat(parts, dim=1))


def test_another_generator_is_seen(monkeypatch):
    index = torch.arange(rng.FEWEST_AT_ONCE)
    expected = sample_noise(index, (3,), num_draws=1, seed=0)
    monkeypatch.setattr(rng, "_MIDDLE", 396)
    assert rng._few_uniform(index, 3, 0) is None
    assert torch.equal(sample_noise(index, (3,), num_draws=1, seed=0), expected)
