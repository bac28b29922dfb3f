import pytest
import torch

from rightreasons.datasets import Card, block_mnist
from rightreasons.datasets.images.pixels import PixelMemory
from rightreasons.datasets.sets.block_mnist import NullBlock, null_pattern
from rightreasons.errors import DatasetNotFoundError


def whole(part):
    return part.take(torch.arange(len(part)))


def test_parts_and_card(npz_dir):
    data = block_mnist(npz_dir, validation=100, subset=200)
    assert (len(data.train), len(data.val), len(data.test)) == (200, 100, 300)
    assert data.card.shape == tuple(whole(data.test).x.shape[1:]) == (1, 56, 28)
    counts = torch.bincount(data.train.labels).tolist()
    assert list(data.card.train_group_counts) == counts and sum(counts) == 200
    assert block_mnist(npz_dir, validation=0).val is None


def test_training_halves_are_redrawn_and_others_fixed(npz_dir):
    data = block_mnist(npz_dir, validation=100)
    first, second = (whole(data.train.at_epoch(epoch)) for epoch in (0, 1))
    assert not torch.equal(first.mask, second.mask)
    for part in (data.val, data.test):
        assert torch.equal(whole(part.at_epoch(0)).x, whole(part.at_epoch(1)).x)
    inside = data.test.take(torch.arange(300))
    digits = inside.x[(1 - inside.mask).bool()].reshape(300, 28, 28)
    again = block_mnist(npz_dir, validation=100, seed=1).test.take(torch.arange(300))
    assert not torch.equal(again.mask, inside.mask)
    assert torch.equal(again.x[(1 - again.mask).bool()].reshape(300, 28, 28), digits)


def test_everything_outside_the_block_is_the_digit(npz_dir, tiny_mnist):
    batch = whole(block_mnist(npz_dir, validation=0).test)
    seen = batch.x[~batch.mask.bool()].reshape(-1, 28, 28)
    assert torch.equal(seen, torch.from_numpy(tiny_mnist["x_test"]).float() / 255)


def test_without_mnist(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected MNIST in"):
        block_mnist(tmp_path)


CARD = Card(name="blocks", shape=(1, 56, 28), classes=("0", "1"), groups=("a", "b"))


@pytest.fixture
def base():
    pixels = torch.randint(256, (40, 1, 28, 28), dtype=torch.uint8)
    return PixelMemory(pixels, torch.arange(40) % 2, Card(shape=(1, 28, 28)))


def null_block(base, **settings):
    return NullBlock(base, CARD, **{"seed": 0, "part": "train", "redraws": True, **settings})


def taken(data):
    return data.take(torch.arange(len(data)))


def test_a_crossed_box_with_a_margin():
    pattern = null_pattern(28)[0]
    assert torch.equal(pattern, pattern.T) and torch.equal(pattern, pattern.flip(0))
    assert not pattern[:4].any() and not pattern[:, 24:].any()
    assert pattern[4:6, 4:24].all()
    assert pattern.diagonal()[4:24].all()
    assert not pattern[8, 10:18].any()
    assert set(pattern.unique().tolist()) == {0.0, 1.0}


def test_one_half_is_the_image_the_other_the_box(base):
    batch, digits = taken(null_block(base)), taken(base).x
    above = batch.mask[:, 0, 0, 0].bool()
    assert 5 < above.sum() < 35
    for index in range(40):
        upper, lower = batch.x[index, :, :28], batch.x[index, :, 28:]
        box, digit = (upper, lower) if above[index] else (lower, upper)
        assert torch.equal(box, null_pattern(28)) and torch.equal(digit, digits[index])
    assert torch.equal(batch.mask[:, :, :28], 1 - batch.mask[:, :, 28:])
    assert torch.equal(batch.mask[:, 0, :28].mean(dim=(1, 2)), above.float())
    assert torch.equal(batch.group, batch.y) and batch.annotated.all()


def test_places_are_drawn_anew_in_every_epoch(base):
    data = null_block(base)
    seen = [taken(data.at_epoch(epoch)).mask[:, 0, 0, 0] for epoch in range(3)]
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[1], seen[2])
    again = taken(data.at_epoch(2).at_epoch(0)).mask[:, 0, 0, 0]
    assert torch.equal(again, seen[0])
    rows = torch.tensor([7, 3])
    assert torch.equal(data.at_epoch(1).take(rows).mask[:, 0, 0, 0], seen[1][rows])


def test_where_nothing_is_redrawn_an_epoch_changes_nothing(base):
    data = null_block(base, redraws=False)
    assert data.at_epoch(3) is data


def test_the_digest_tells_parts_seeds_and_redrawing(base):
    digests = {
        null_block(base, **change).digest()
        for change in ({}, {"part": "val"}, {"seed": 1}, {"redraws": False})
    }
    assert len(digests) == 4
    assert null_block(base).digest() == null_block(base).digest()
    assert null_block(base).has_masks and torch.equal(null_block(base).groups, base.labels)
