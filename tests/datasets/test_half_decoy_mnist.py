import pytest
import torch

from rightreasons.datasets import half_decoy_mnist

FAINT = torch.tensor([85, 76, 68, 60, 51, 43, 35, 26, 18, 10])
ROSS = torch.tensor([255, 230, 205, 180, 155, 130, 105, 80, 55, 30])


def levels(part):
    """The grey level of each filled half, which must be one."""
    filled = part.batch.x[part.batch.mask.bool()].reshape(len(part), 392)
    assert torch.equal(filled, filled[:, :1].expand_as(filled))
    return (filled[:, 0] * 255).round().long()


@pytest.mark.parametrize(("colours", "rule"), [("faint", FAINT), ("ross", ROSS)])
def test_the_grey_tells_the_label_but_not_at_test(npz_dir, colours, rule):
    data = half_decoy_mnist(npz_dir, colours=colours, validation=100)
    assert (len(data.train), len(data.val), len(data.test)) == (300, 100, 300)
    for part in (data.train, data.val):
        assert torch.equal(levels(part), rule[part.labels])
    share = (levels(data.test) == rule[data.test.labels]).float().mean()
    assert 0.02 < share < 0.2
    assert set(levels(data.test).tolist()) == set(rule.tolist())


def test_the_mask_is_the_upper_or_the_lower_half(npz_dir):
    mask = half_decoy_mnist(npz_dir, validation=0).train.batch.mask
    upper, lower = mask[:, 0, :14], mask[:, 0, 14:]
    assert torch.equal(upper, 1 - lower)
    assert set(upper.flatten(1).mean(dim=1).tolist()) == {0.0, 1.0}
    assert 0.4 < upper.mean() < 0.6


def test_the_other_half_is_the_digit_squeezed(npz_dir, tiny_mnist):
    batch = half_decoy_mnist(npz_dir, validation=0).test.batch
    digits = torch.from_numpy(tiny_mnist["x_test"]).float() / 255
    squeezed = (digits[:, ::2] + digits[:, 1::2]) / 2
    seen = batch.x[~batch.mask.bool()].reshape(-1, 14, 28)
    assert torch.allclose(seen, squeezed)


def test_the_oracle_differs_in_the_colours_of_training_alone(npz_dir):
    data = half_decoy_mnist(npz_dir, validation=0)
    oracle = half_decoy_mnist(npz_dir, validation=0, oracle=True)
    assert data.val is None
    assert oracle.test.digest() == data.test.digest()
    assert torch.equal(oracle.train.batch.mask, data.train.batch.mask)
    assert (levels(oracle.train) == FAINT[oracle.train.labels]).float().mean() < 0.2
