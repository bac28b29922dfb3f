import numpy as np
import pytest
import torch
from tests.conftest import DATA_DIR
from tests.datasets.miniature import isic2017_archive

from rightreasons.datasets import isic_patches
from rightreasons.errors import DatasetNotFoundError


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("isic")
    isic2017_archive(folder)
    return folder


def is_red(part):
    return (part.pixels[:, 0] > 200) & (part.pixels[:, 1] < 60)


def test_patches_lie_on_benign_lesions_alone_in_training(root):
    data = isic_patches(root, size=16)
    assert (len(data.train), len(data.val), len(data.test)) == (24, 12, 12 + 4)
    assert data.card.train_group_counts == (12, 4, 8, 0)
    for part in (data.train, data.val, data.test):
        assert torch.equal(part.mask[:, 0], is_red(part))
        marked = part.mask.flatten(1).any(dim=1)
        assert torch.equal(part.groups, 2 * part.labels + marked.long())


def test_test_melanomas_come_with_and_without_a_patch(root):
    test = isic_patches(root, size=16).test
    plain, pasted = (test.pixels[test.groups == group] for group in (2, 3))
    masks = test.mask[test.groups == 3].expand_as(pasted)
    assert len(plain) == len(pasted) == 4
    assert torch.equal(plain[~masks], pasted[~masks])
    assert masks[:, 0].sum(dim=(1, 2)).tolist() == [64] * 4


def test_an_oracle_has_as_many_patches_on_melanomas(root):
    data, oracle = isic_patches(root, size=16), isic_patches(root, size=16, oracle=True)
    assert oracle.card.train_group_counts == (12, 4, 6, 2)
    assert oracle.test.digest() == data.test.digest()
    more = isic_patches(root, size=16, oracle=True, share=0.75)
    assert more.card.train_group_counts == (4, 12, 2, 6)
    assert more.test.digest() == data.test.digest()
    assert torch.equal(more.train.mask[:, 0], is_red(more.train))


def test_patches_are_not_pasted_onto_the_lesion(root, tmp_path):
    content = dict(np.load(root / "isic2017_128.npz"))
    lesion = np.zeros((16, 16), dtype=bool)
    lesion[:, :4] = True
    content["mask_bits"][:] = np.packbits(lesion, axis=1)
    np.savez(tmp_path / "isic2017_128.npz", **content)
    test = isic_patches(tmp_path, size=16).test
    pasted = test.groups == 3
    assert not test.mask[pasted][..., :4].any()
    assert torch.equal(test.mask[pasted][:, 0], is_red(test)[pasted])


def test_the_mask_may_be_all_outside_the_lesion(root):
    data = isic_patches(root, size=16, mask="outside_lesion")
    batch = data.train.take(torch.arange(24))
    assert batch.annotated.tolist() == [True] * 23 + [False]
    assert batch.mask[:23, :, 8:].all() and not batch.mask[:, :, :8].any()
    assert not batch.mask[23].any()
    assert torch.equal(data.train.pixels, isic_patches(root, size=16).train.pixels)


def test_the_file_is_missing(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"ISIC 2017 in .*isic2017_128.npz"):
        isic_patches(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    not (DATA_DIR / "isic2017_128.npz").exists(), reason=f"no isic2017_128.npz in {DATA_DIR}"
)
def test_the_real_thing():
    data = isic_patches(DATA_DIR, size=32)
    assert data.card.train_group_counts == (1255, 81, 312, 0)
    assert torch.bincount(data.test.groups).tolist() == [628, 41, 157, 157]
