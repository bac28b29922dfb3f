import zipfile

import numpy as np
import pytest
from tests.datasets.focus_miniature import artefact_images, artefact_zip

from rightreasons.datasets.sets.decoy_ham import Template, artefact_filter, read_templates
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError


@pytest.fixture
def path(tmp_path):
    artefact_zip(tmp_path)
    return tmp_path / "skin_artefacts.zip"


def test_templates_are_what_is_left_of_the_light(path):
    found = read_templates(path, size=600, zoom=1.0)
    by_place = {(one.kind, one.place): one.light for one in found}
    assert len(found) == 5
    spot = by_place["marking", "spot"]
    assert spot.shape == (80, 80, 3)
    assert spot[0, 0].tolist() == [1, 1, 1]
    np.testing.assert_allclose(spot[40, 40], (np.array([90, 30, 160]) + 8) / 263, rtol=1e-5)
    ruler = by_place["ruler", "horizontal"]
    np.testing.assert_allclose(ruler[20, 0], 28 / (np.array([200, 150, 140]) + 8), rtol=1e-5)
    assert ruler[20, 5].tolist() == [1, 1, 1]
    assert by_place["bubble", ""][20, 20].min() > 1.2


def test_templates_are_resized_and_lying_rulers_put_upright(path):
    found = read_templates(path, size=60, zoom=2.0)
    shapes = {one.place: one.light.shape[:2] for one in found}
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


def test_files_that_are_missing_or_damaged(path, tmp_path):
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
