import pytest
import torch

from rightreasons.core.rng import sample_noise


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
