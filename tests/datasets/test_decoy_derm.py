import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.datasets.miniature import derma_arrays, derma_files, ham_files

from rightreasons.datasets import decoy_derm
from rightreasons.errors import InvalidSettingError

SHARED = Path(__file__).parents[3] / "shared" / "data"
REAL = Path(os.environ.get("RIGHTREASONS_DATA", SHARED))
PALETTE = torch.tensor([[0.5, 0.5, 0.7], [0.5, 0.7, 0.5]])


@pytest.fixture
def derma_dir(tmp_path):
    derma_files(tmp_path)
    return tmp_path


def swatches(part):
    """The colour of each swatch, which must be one."""
    x, mask = part.batch.x, part.batch.mask
    colours = x[mask.bool().expand_as(x)].reshape(len(x), 3, -1)
    assert torch.equal(colours, colours[:, :, :1].expand_as(colours))
    return colours[:, :, 0]


def test_labels_and_sizes(derma_dir):
    data = decoy_derm(derma_dir)
    assert (len(data.train), len(data.val), len(data.test)) == (400, 200, 1000)
    classes = torch.from_numpy(derma_arrays()["test_labels"][:, 0])
    assert torch.equal(data.test.labels, (classes != 5).long())
    assert torch.equal(data.test.groups, data.test.labels)
    assert data.card.shape == (3, 28, 28)
    assert data.card.source.endswith("here from dermamnist.npz")


def test_the_swatch_tells_the_label_in_training_and_validation(derma_dir):
    data = decoy_derm(derma_dir)
    for part in (data.train, data.val):
        assert part.batch.mask.sum(dim=(1, 2, 3)).unique().tolist() == [49.0]
        assert torch.equal(swatches(part), PALETTE[part.labels])


def test_either_colour_at_test_and_for_the_oracle(derma_dir):
    oracle = decoy_derm(derma_dir, oracle=True)
    data = decoy_derm(derma_dir)
    assert oracle.test.digest() == data.test.digest()
    assert torch.equal(oracle.train.batch.mask, data.train.batch.mask)
    for part, label in ((oracle.train, 0), (oracle.train, 1), (data.test, 0), (data.test, 1)):
        green = (swatches(part) == PALETTE[1]).all(dim=1)[part.labels == label].float().mean()
        assert 0.4 < green < 0.6


def test_everything_outside_the_swatch_is_the_photograph(derma_dir):
    batch = decoy_derm(derma_dir).val.batch
    original = torch.from_numpy(derma_arrays()["val_images"]).permute(0, 3, 1, 2).float() / 255
    outside = ~batch.mask.bool().expand_as(batch.x)
    assert torch.equal(batch.x[outside], original[outside])


def test_merged_validation_and_corner_masks(derma_dir):
    data = decoy_derm(derma_dir)
    merged = decoy_derm(derma_dir, merge_validation=True, test_masks="corners")
    assert merged.val is None
    assert torch.equal(merged.train.batch.x, torch.cat([data.train.batch.x, data.val.batch.x]))
    assert merged.test.batch.mask.sum(dim=(1, 2, 3)).unique().tolist() == [196.0]
    assert (merged.test.batch.mask >= data.test.batch.mask).all()
    assert torch.equal(merged.test.batch.x, data.test.batch.x)


def test_sixty_four_pixels(tmp_path):
    ham_files(tmp_path)
    data = decoy_derm(tmp_path, size=64)
    assert data.card.shape == (3, 64, 64)
    assert data.train.batch.mask.sum(dim=(1, 2, 3)).unique().tolist() == [256.0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": 32}, "Expected `size` to be 28 or 64, but got 32"),
        ({"test_masks": "all"}, "Expected `test_masks` to be 'patch' or 'corners'"),
        ({"oracle": 1}, "Expected `oracle` to be True or False"),
        ({"merge_validation": "no"}, "Expected `merge_validation` to be True or False"),
        ({"download": 0}, "Expected `download` to be True or False"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_bad_settings(derma_dir, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        decoy_derm(derma_dir, **settings)


@pytest.mark.skipif(
    not (REAL / "dermamnist_rebuilt.npz").exists() and not (REAL / "dermamnist.npz").exists(),
    reason=f"no DermaMNIST in {REAL}",
)
def test_the_real_thing():
    data = decoy_derm(REAL)
    assert (len(data.train), len(data.val), len(data.test)) == (7007, 1003, 2005)
    assert data.card.train_group_counts == (4693, 2314)
    assert torch.equal(swatches(data.train), PALETTE[data.train.labels])
    outside = data.train.batch.x[:, :, 7:21, 7:21]  # skin: red is brightest
    assert np.argmax(outside.mean(dim=(0, 2, 3)).tolist()) == 0
