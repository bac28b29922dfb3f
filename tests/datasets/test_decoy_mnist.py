import hashlib
import importlib

import pytest
import torch
from tests.conftest import DATA_DIR

from rightreasons.datasets import decoy_mnist
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

LEVELS = {
    "ross": torch.tensor([255, 230, 205, 180, 155, 130, 105, 80, 55, 30]),
    "faint": torch.tensor([85, 76, 68, 60, 51, 43, 35, 26, 18, 10]),
}


def levels(part):
    """The grey level of each patch, which must be one."""
    x, inside = part.batch.x, part.batch.mask.bool()
    patch = x[inside].reshape(len(x), 16)
    assert torch.equal(patch, patch[:, :1].expand_as(patch))
    return (patch[:, 0] * 255).round().long()


@pytest.mark.parametrize("colours", ["ross", "faint"])
def test_training_and_validation_carry_the_rule(npz_dir, colours):
    data = decoy_mnist(npz_dir, colours=colours, validation=100)
    assert (len(data.train), len(data.val), len(data.test)) == (300, 100, 300)
    for part in (data.train, data.val):
        assert torch.equal(levels(part), LEVELS[colours][part.labels])


def test_test_greys(npz_dir):
    ross = decoy_mnist(npz_dir, validation=0).test
    share = (levels(ross) == LEVELS["ross"][ross.labels]).float().mean()
    assert 0.02 < share < 0.2
    assert set(levels(ross).tolist()) == set(LEVELS["ross"].tolist())
    faint = decoy_mnist(npz_dir, validation=0, colours="faint").test
    assert not (levels(faint) == LEVELS["faint"][faint.labels]).any()
    assert set(levels(faint).tolist()) == set(LEVELS["faint"].tolist())


def test_everything_outside_the_patch_is_the_digit(npz_dir, tiny_mnist):
    test = decoy_mnist(npz_dir, validation=0, colours="faint").test
    outside = ~test.batch.mask.bool()
    original = torch.from_numpy(tiny_mnist["x_test"]).unsqueeze(1).float() / 255
    assert torch.equal(test.batch.x[outside], original[outside])


@pytest.mark.parametrize("colours", ["ross", "faint"])
def test_the_oracle_is_uniform_over_all_greys(npz_dir, colours):
    data = decoy_mnist(npz_dir, validation=0, colours=colours)
    oracle = decoy_mnist(npz_dir, validation=0, colours=colours, oracle=True)
    assert oracle.test.digest() == data.test.digest()
    assert torch.equal(oracle.train.batch.mask, data.train.batch.mask)
    share = (levels(oracle.train) == LEVELS[colours][oracle.train.labels]).float().mean()
    assert 0.02 < share < 0.2


def test_corner_masks_at_test(npz_dir):
    patch = decoy_mnist(npz_dir, validation=0)
    corners = decoy_mnist(npz_dir, validation=0, test_masks="corners")
    assert corners.test.batch.mask.sum(dim=(1, 2, 3)).unique().tolist() == [64.0]
    assert (corners.test.batch.mask >= patch.test.batch.mask).all()
    assert torch.equal(corners.test.batch.x, patch.test.batch.x)
    assert corners.train.digest() == patch.train.digest()


def test_no_validation(npz_dir):
    data = decoy_mnist(npz_dir, validation=0)
    assert data.val is None
    assert len(data.train) == 400


def test_all_layouts_give_the_same_bytes(npz_dir, tmp_path, tiny_mnist, write_idx):
    write_idx(tmp_path / "idx", tiny_mnist)
    write_idx(tmp_path / "gz" / "MNIST" / "raw", tiny_mnist, packed=True)
    digests = {
        decoy_mnist(folder, validation=50).digest()
        for folder in (npz_dir, tmp_path / "idx", tmp_path / "gz")
    }
    assert len(digests) == 1


def test_missing_and_truncated_files(tmp_path, npz_dir):
    with pytest.raises(DatasetNotFoundError, match="Expected MNIST in .*nowhere"):
        decoy_mnist(tmp_path / "nowhere")
    path = npz_dir / "mnist.npz"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DatasetCorruptError, match="truncated or damaged"):
        decoy_mnist(npz_dir)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA_DIR / "mnist.npz").exists(), reason=f"no mnist.npz in {DATA_DIR}")
def test_the_real_thing(write_idx, tmp_path, monkeypatch):
    data = decoy_mnist(DATA_DIR, colours="ross", seed=0)
    assert (len(data.train), len(data.val), len(data.test)) == (55000, 5000, 10000)
    assert data.card.shape == (1, 28, 28)
    assert torch.equal(levels(data.train), LEVELS["ross"][data.train.labels])
    assert abs((levels(data.test) == LEVELS["ross"][data.test.labels]).float().mean() - 0.1) < 0.02
    mnist = importlib.import_module("rightreasons.datasets.sets.mnist")
    write_idx(tmp_path, mnist.read_mnist(DATA_DIR)._asdict())
    for name, sha256 in mnist.IDX_FILES.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == sha256
