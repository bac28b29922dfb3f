import pytest
import torch

from rightreasons.datasets import Augmented, InMemory
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

ROWS = torch.tensor([5, 0, 17])


@pytest.fixture
def base():
    torch.manual_seed(0)
    x = torch.rand(40, 3, 6, 8)
    y = torch.arange(40) % 2
    return InMemory(Batch(x=x, y=y, mask=x[:, :1].round(), group=y))


def test_itself_it_is_the_data_unchanged(base):
    data = Augmented(base, flip=True, crop=2)
    assert torch.equal(data.take(ROWS).x, base.take(ROWS).x)
    assert torch.equal(next(iter(data.batches([ROWS]))).x, base.take(ROWS).x)
    assert data.digest() == base.digest()
    assert (len(data), data.has_masks, data.card) == (40, True, base.card)
    assert torch.equal(data.labels, base.labels)
    assert torch.equal(data.groups, base.groups)


def test_masks_move_with_their_images(base):
    everyone = torch.arange(40)
    batch = Augmented(base, flip=True, crop=2, seed=1).at_epoch(3).take(everyone)
    assert not torch.equal(batch.x, base.batch.x)
    assert torch.equal(batch.mask, batch.x[:, :1].round())
    assert torch.equal(batch.index, everyone)


def test_flips_mirror_about_half(base):
    batch = Augmented(base, flip=True).at_epoch(0).take(torch.arange(40))
    same = (batch.x == base.batch.x).flatten(1).all(dim=1)
    mirrored = (batch.x == base.batch.x.flip(3)).flatten(1).all(dim=1)
    assert (same ^ mirrored).all()
    assert 8 <= int(same.sum()) <= 32


def test_crops_are_windows_of_the_image_with_repeated_edges(base):
    batch = Augmented(base, crop=1).at_epoch(0).take(torch.arange(40))
    padded = torch.nn.functional.pad(base.batch.x, (1, 1, 1, 1), mode="replicate")
    windows = [
        padded[:, :, top : top + 6, left : left + 8] for top in range(3) for left in range(3)
    ]
    hits = torch.stack([(batch.x == window).flatten(1).all(dim=1) for window in windows])
    assert hits.any(dim=0).all()
    assert hits.any(dim=1).sum() >= 7  # nearly all of the nine places occur


def test_depends_on_seed_epoch_and_place_alone(base):
    data = Augmented(base, flip=True, crop=2, seed=4)
    first = data.at_epoch(1).take(ROWS).x
    again = next(iter(data.at_epoch(7).at_epoch(1).batches([ROWS.flip(0)]))).x.flip(0)
    assert torch.equal(first, again)
    assert not torch.equal(first, data.at_epoch(2).take(ROWS).x)
    other_seed = Augmented(base, flip=True, crop=2, seed=5)
    assert not torch.equal(first, other_seed.at_epoch(1).take(ROWS).x)


def test_masks_of_whole_rows_are_spread_out():
    mask = torch.tensor([0.0, 1.0, 0.0, 0.0]).reshape(1, 1, 1, 4).expand(8, 1, 1, 4)
    base = InMemory(Batch(x=mask.expand(8, 2, 4, 4), y=torch.zeros(8).long(), mask=mask))
    batch = Augmented(base, flip=True).at_epoch(0).take(torch.arange(8))
    assert torch.equal(batch.mask, batch.x[:, :1])


def test_data_without_masks():
    base = InMemory(Batch(x=torch.rand(2, 1, 4, 4), y=torch.tensor([0, 1])))
    assert Augmented(base, flip=True).at_epoch(0).take(torch.tensor([0])).mask is None


def test_only_images_can_be_moved():
    base = InMemory(Batch(x=torch.rand(2, 5), y=torch.tensor([0, 1])))
    with pytest.raises(InvalidSettingError, match=r"images of shape \(C, H, W\).* shape \(5,\)"):
        Augmented(base, flip=True)


@pytest.mark.parametrize(
    ("settings", "words"), [({"crop": -1}, "`crop` to be a whole"), ({"flip": 1}, "`flip` to be T")]
)
def test_bad_settings(base, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        Augmented(base, **settings)


def test_other_data_are_augmented_in_the_same_way(base):
    masked = InMemory(base.batch.replace(mask=1 - base.batch.mask))
    at_epoch = Augmented(base, flip=True, crop=2, seed=3).at_epoch(2)
    rebased = at_epoch.rebase(masked)
    rows = torch.arange(len(base))
    assert torch.equal(rebased.take(rows).x, at_epoch.take(rows).x)
    assert torch.equal(rebased.take(rows).mask, 1 - at_epoch.take(rows).mask)
