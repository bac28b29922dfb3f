import os
from pathlib import Path

import pytest
import torch
from tests.datasets.focus_miniature import artefact_zip, decoy_ham_files, lesion_archive

from rightreasons.datasets import decoy_ham
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

SHARED = Path(__file__).parents[3] / "shared" / "data"
REAL = Path(os.environ.get("RIGHTREASONS_DATA", SHARED))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ham")
    decoy_ham_files(folder)
    return folder


@pytest.fixture(scope="module")
def data(root):
    return decoy_ham(root, size=32)


def has_mask(part):
    return part.mask.flatten(1).any(dim=1)


def test_artefacts_lie_on_benign_training_images_alone(data):
    assert (len(data.train), len(data.val), len(data.test)) == (60, 30, 30)
    assert data.train.labels[:7].tolist() == [1, 1, 0, 0, 1, 0, 0]
    for part in (data.train, data.val):
        marked = has_mask(part)
        assert not marked[part.labels == 1].any()
        assert 0.2 < marked[part.labels == 0].float().mean() < 0.8
    for label in (0, 1):
        assert 0.1 < has_mask(data.test)[data.test.labels == label].float().mean() < 0.9


def test_groups_are_class_and_artefact(data):
    for part in (data.train, data.test):
        assert torch.equal(part.groups, 2 * part.labels + has_mask(part).long())
    assert data.card.train_group_counts[3] == 0
    assert sum(data.card.train_group_counts) == 60


def test_nothing_changes_outside_the_mask(root, data):
    clean = decoy_ham(root, size=32, share=0.0).train
    assert not has_mask(clean).any()
    outside = ~data.train.mask.expand_as(data.train.pixels)
    assert torch.equal(data.train.pixels[outside], clean.pixels[outside])
    changed = (data.train.pixels != clean.pixels).any(dim=1, keepdim=True)
    assert changed[data.train.mask].float().mean() > 0.95


def test_masks_outside_the_lesion(root, data):
    outside = decoy_ham(root, size=32, mask="outside_lesion")
    assert outside.train.mask[..., 16:].all()
    own = data.train.mask[..., :16]
    assert torch.equal(outside.train.mask[..., :16], own)
    assert torch.equal(outside.train.pixels, data.train.pixels)


def test_the_oracle_has_artefacts_in_both_classes(root, data):
    oracle = decoy_ham(root, size=32, oracle=True, share=1.0)
    assert has_mask(oracle.train).all()
    assert oracle.test.digest() == data.test.digest()
    both = has_mask(data.train)  # who has an artefact has the same one
    assert torch.equal(oracle.train.pixels[both], data.train.pixels[both])


def test_kinds_can_be_chosen(root):
    rulers = decoy_ham(root, size=32, kinds=["ruler"]).train
    assert rulers.mask[has_mask(rulers)].sum() > 0
    assert has_mask(rulers).sum() == has_mask(decoy_ham(root, size=32).train).sum()


def test_files_that_are_missing_or_damaged(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"photographs of HAM10000 in .*128.npz"):
        decoy_ham(tmp_path)
    lesion_archive(tmp_path, counts=(2, 2, 2))
    with pytest.raises(DatasetNotFoundError, match=r"artefacts in .*skin_artefacts.zip"):
        decoy_ham(tmp_path)
    artefact_zip(tmp_path)
    with pytest.raises(DatasetCorruptError, match="of the kinds ruler in .* found no ruler"):
        decoy_ham(tmp_path, size=8, zoom=0.001, kinds=["ruler"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": 200}, "`size` to be a whole number from 8 to 128"),
        ({"mask": "lesion"}, "`mask` to be 'artefact' or 'outside_lesion'"),
        ({"share": 2}, "`share` to be a number from 0 to 1"),
        ({"kinds": ["hair"]}, "`kinds` to be some of .*'bubble'.* but got .'hair'."),
        ({"kinds": "ruler"}, "`kinds` to be some of"),
        ({"kinds": []}, "`kinds` to be some of"),
        ({"zoom": 0}, "`zoom` to be a finite number above 0"),
        ({"oracle": 1}, "`oracle` to be True or False"),
        ({"seed": -1}, "`seed` to be a whole number from 0"),
    ],
)
def test_bad_settings(root, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        decoy_ham(root, **settings)


@pytest.mark.skipif(
    not ((REAL / "ham10000_128.npz").exists() and (REAL / "skin_artefacts.zip").exists()),
    reason=f"no ham10000_128.npz and skin_artefacts.zip in {REAL}",
)
def test_the_real_thing():
    data = decoy_ham(REAL, size=16)
    assert (len(data.train), len(data.val), len(data.test)) == (7007, 1003, 2005)
    assert 0.15 < data.train.labels.float().mean() < 0.25
    shares = data.test.mask[has_mask(data.test)].float().mean(dim=(1, 2, 3))
    assert (shares >= 0.004).all()
