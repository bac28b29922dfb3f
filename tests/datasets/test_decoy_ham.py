import zipfile

import numpy as np
import pytest
import torch
from tests.conftest import DATA_DIR
from tests.datasets.miniature import artefact_images, artefact_zip, decoy_ham_files, lesion_archive

from rightreasons.datasets import decoy_ham
from rightreasons.datasets.sets.decoy_ham import Template, artefact_filter, read_templates
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError


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
    artefacts = data.train.mask[..., :16]
    assert torch.equal(outside.train.mask[..., :16], artefacts)
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


@pytest.mark.slow
@pytest.mark.skipif(
    not ((DATA_DIR / "ham10000_128.npz").exists() and (DATA_DIR / "skin_artefacts.zip").exists()),
    reason=f"no ham10000_128.npz and skin_artefacts.zip in {DATA_DIR}",
)
def test_the_real_thing():
    data = decoy_ham(DATA_DIR, size=16, share=0.02)
    assert (len(data.train), len(data.val), len(data.test)) == (7007, 1003, 2005)
    assert 0.15 < data.train.labels.float().mean() < 0.25
    shares = data.test.mask[has_mask(data.test)].float().mean(dim=(1, 2, 3))
    assert (shares >= 0.004).all()


@pytest.fixture
def path(tmp_path):
    artefact_zip(tmp_path)
    return tmp_path / "skin_artefacts.zip"


def test_templates_are_what_is_left_of_the_light(path):
    templates = read_templates(path, size=600, zoom=1.0)
    by_place = {(one.kind, one.place): one.light for one in templates}
    assert len(templates) == 5
    spot = by_place["marking", "spot"]
    assert spot.shape == (80, 80, 3)
    assert spot[0, 0].tolist() == [1, 1, 1]
    np.testing.assert_allclose(spot[40, 40], (np.array([90, 30, 160]) + 8) / 263, rtol=1e-5)
    ruler = by_place["ruler", "horizontal"]
    np.testing.assert_allclose(ruler[20, 0], 28 / (np.array([200, 150, 140]) + 8), rtol=1e-5)
    assert ruler[20, 5].tolist() == [1, 1, 1]
    assert by_place["bubble", ""][20, 20].min() > 1.2


def test_templates_are_resized_and_lying_rulers_put_upright(path):
    templates = read_templates(path, size=60, zoom=2.0)
    shapes = {one.place: one.light.shape[:2] for one in templates}
    assert shapes["horizontal"] == (12, 80)
    assert shapes["vertical"] == (160, 12)


@pytest.mark.parametrize("kind", ["bubble", "marking", "ruler"])
def test_an_artefact_changes_some_pixels_and_no_others(path, kind):
    templates = [one for one in read_templates(path, size=64, zoom=2.0) if one.kind == kind]
    for seed in range(20):
        light = artefact_filter(templates, size=64, stream=np.random.default_rng(seed))
        changed = (light != 1).any(axis=2)
        assert light.shape == (64, 64, 3)
        assert 0.004 <= changed.mean() < 0.5
        assert (np.abs(light[changed] - 1).max(axis=1) > 0.06).all()


def test_places():
    dot = np.full((4, 4, 3), 0.5, dtype=np.float32)
    columns = set()
    for seed in range(30):
        stream = np.random.default_rng(seed)
        light = artefact_filter([Template("marking", "circle", dot)], size=32, stream=stream)
        assert (light[14:18, 14:18] == 0.5).all()
        light = artefact_filter([Template("ruler", "vertical", dot)], size=32, stream=stream)
        columns |= set(np.flatnonzero((light != 1).any(axis=(0, 2))))
    assert max(columns) > 24 and min(columns) < 8
    assert not columns & set(range(8, 24))


def test_artefacts_that_are_missing_or_damaged(path, tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected artefacts in .*other.zip"):
        read_templates(tmp_path / "other.zip", size=64, zoom=1.0)
    words = "to hold meta.json and images of artefacts"
    images = artefact_images()
    del images["B/B_without_1.png"]
    artefact_zip(tmp_path, images)
    with pytest.raises(DatasetCorruptError, match=f"{words}.*B_without_1.png"):
        read_templates(path, size=64, zoom=1.0)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "nothing")
    with pytest.raises(DatasetCorruptError, match=words):
        read_templates(path, size=64, zoom=1.0)
    path.write_bytes(b"no zip")
    with pytest.raises(DatasetCorruptError, match=words):
        read_templates(path, size=64, zoom=1.0)
