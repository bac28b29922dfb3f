import hashlib
import importlib

import numpy as np
import pytest
import torch
from tests.conftest import DATA_DIR
from tests.datasets.miniature import derma_arrays, derma_files, ham_files

from rightreasons.datasets import decoy_derm
from rightreasons.datasets.sets.decoy_derm import read_dermamnist
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

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


@pytest.mark.slow
@pytest.mark.skipif(
    not (DATA_DIR / "dermamnist_rebuilt.npz").exists()
    and not (DATA_DIR / "dermamnist.npz").exists(),
    reason=f"no DermaMNIST in {DATA_DIR}",
)
def test_the_real_thing():
    data = decoy_derm(DATA_DIR)
    assert (len(data.train), len(data.val), len(data.test)) == (7007, 1003, 2005)
    assert data.card.train_group_counts == (4693, 2314)
    assert torch.equal(swatches(data.train), PALETTE[data.train.labels])
    outside = data.train.batch.x[:, :, 7:21, 7:21]  # skin: red is brightest
    assert np.argmax(outside.mean(dim=(0, 2, 3)).tolist()) == 0


dermamnist = importlib.import_module("rightreasons.datasets.sets.decoy_derm")
FEW = (6, 3, 4)


@pytest.mark.parametrize("name", ["dermamnist.npz", "dermamnist_rebuilt.npz"])
def test_published_and_rebuilt_files_are_read_as_they_are(tmp_path, name):
    derma_files(tmp_path, name=name, counts=FEW)
    derma, expected = read_dermamnist(tmp_path), derma_arrays(counts=FEW)
    assert derma.file == name
    for part in ("train", "val", "test"):
        assert np.array_equal(getattr(derma, part).x, expected[f"{part}_images"])
        assert np.array_equal(getattr(derma, part).y, expected[f"{part}_labels"][:, 0])


def test_the_published_file_comes_first(tmp_path):
    derma_files(tmp_path, name="dermamnist_rebuilt.npz", counts=FEW)
    derma_files(tmp_path, name="dermamnist.npz", counts=FEW)
    assert read_dermamnist(tmp_path).file == "dermamnist.npz"


def test_larger_images_are_shrunk(tmp_path):
    arrays = derma_arrays(size=128, counts=FEW)
    arrays["val_images"][:] = 77
    np.savez(tmp_path / "dermamnist_128.npz", **arrays)
    derma = read_dermamnist(tmp_path, size=64)
    assert derma.train.x.shape == (6, 64, 64, 3)
    assert (derma.val.x == 77).all()


def test_photographs_are_decoded_and_dealt_out_by_their_split(tmp_path):
    ham_files(tmp_path, counts=FEW)
    derma = read_dermamnist(tmp_path, size=64)
    assert derma.file == "ham10000_128.npz"
    assert [len(part.y) for part in derma[:3]] == [6, 3, 4]
    assert derma.test.x.shape == (4, 64, 64, 3)
    reds = [
        int(image[32, 32, 0]) for part in (derma.test, derma.val, derma.train) for image in part.x
    ]
    assert np.abs(np.array(reds) - 10 * np.arange(13)).max() <= 3
    assert derma.train.y.tolist() == [(7 + index) % 7 for index in range(6)]


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="28 pixels in .* none of dermamnist.npz, derm"):
        read_dermamnist(tmp_path)
    with pytest.raises(DatasetNotFoundError, match="64 pixels.*ham10000_128.npz. Put one of them"):
        read_dermamnist(tmp_path, size=64)
    derma_files(tmp_path, counts=FEW)
    with pytest.raises(DatasetNotFoundError, match="to be a folder, but got the file"):
        read_dermamnist(tmp_path / "dermamnist.npz")
    with pytest.raises(InvalidSettingError, match="Expected `size` to be 28 or 64, but got 32"):
        read_dermamnist(tmp_path, size=32)


@pytest.mark.parametrize("name", ["dermamnist_64.npz", "ham10000_128.npz"])
def test_damaged_files(tmp_path, name):
    (tmp_path / name).write_bytes(b"PK no archive")
    with pytest.raises(DatasetCorruptError, match=f"{name} to hold DermaMNIST, but it is trunc"):
        read_dermamnist(tmp_path, size=64)


def test_files_of_something_else(tmp_path):
    np.savez(tmp_path / "dermamnist.npz", x=np.zeros(3))
    with pytest.raises(DatasetCorruptError, match="train_images"):
        read_dermamnist(tmp_path)
    arrays = derma_arrays(counts=FEW)
    arrays["val_labels"][1] = 7
    np.savez(tmp_path / "dermamnist.npz", **arrays)
    with pytest.raises(
        DatasetCorruptError, match="the val part of .* labels from 0 to 7. Is it De"
    ):
        read_dermamnist(tmp_path)


def test_the_published_file_is_fetched_and_checked(tmp_path, monkeypatch):
    source = tmp_path / "there"
    source.mkdir()
    derma_files(source, counts=FEW)
    content = (source / "dermamnist.npz").read_bytes()
    monkeypatch.setattr(dermamnist, "SOURCE", f"{source.as_uri()}/")
    monkeypatch.setitem(dermamnist.PUBLISHED, "dermamnist.npz", "0" * 64)
    here = tmp_path / "here"
    with pytest.raises(DatasetCorruptError, match="sha256"):
        read_dermamnist(here, download=True)
    sha256 = hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(dermamnist.PUBLISHED, "dermamnist.npz", sha256)
    assert len(read_dermamnist(here, download=True).train.y) == 6
    assert (here / "dermamnist.npz").read_bytes() == content
