import numpy as np
import pytest
from tests.datasets.focus_miniature import texture_archive, texture_folders

from rightreasons.core.rng import random_stream
from rightreasons.datasets.sets.textured_mnist import DIGIT_CLASSES, read_textures
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

CLASSES = (*DIGIT_CLASSES, *(f"background {letter}" for letter in "abcdefghijk"))


def read(root, *, source="auto", per_class=2, seed=0, size=20):
    stream = random_stream(seed, "test")
    return read_textures(root, size=size, per_class=per_class, source=source, stream=stream)


def greys(images):
    return [int(round(float(one.mean()))) for one in images]


def test_formulas_where_there_are_no_photographs(tmp_path):
    drawn = read(tmp_path)
    assert drawn.source == "textures drawn by formula"
    assert len(drawn.background) == len(drawn.digit) == 10
    assert drawn.background[3].shape == (2, 128, 128, 3)
    again, other = read(tmp_path), read(tmp_path, seed=1)
    assert np.array_equal(drawn.digit[9], again.digit[9])
    assert not np.array_equal(drawn.digit[9], other.digit[9])
    assert read(tmp_path, size=150).digit[0].shape[1] == 150


def test_directions_differ_between_drawn_classes(tmp_path):
    """Class 0 waves along columns, class 5 along rows."""
    drawn = read(tmp_path, per_class=3)
    for number, axis in ((0, 1), (5, 0)):
        for image in drawn.background[number].mean(axis=3):
            along, across = (np.abs(np.diff(image, axis=one)).mean() for one in (axis, 1 - axis))
            assert along > across


def test_an_archive_of_ten_classes_serves_both_without_an_image_in_common(tmp_path):
    texture_archive(tmp_path)
    found = read(tmp_path, per_class=3)
    assert "dtd10_128.npz" in found.source
    for number in range(10):
        assert all(abs(g - 20 * number - 6) <= 3 for g in greys(found.background[number]))
        both = np.concatenate([found.background[number], found.digit[number]])
        assert len({one.tobytes() for one in both}) == 6


def test_folders_of_dtd_come_first(tmp_path):
    texture_archive(tmp_path)
    texture_folders(tmp_path, CLASSES)
    found = read(tmp_path)
    assert found.source == "DTD, M. Cimpoi et al. 2014"
    assert len(found.background) == 11
    for number in range(10):
        assert all(abs(grey - 5 * number) <= 2 for grey in greys(found.digit[number]))
        assert all(abs(grey - 5 * (10 + number)) <= 2 for grey in greys(found.background[number]))
    assert read(tmp_path, source="procedural").source == "textures drawn by formula"
    assert "npz" in read(tmp_path, source="dtd10").source


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(InvalidSettingError, match="`textures` to be 'auto' or 'dtd'"):
        read(tmp_path, source="paper")
    with pytest.raises(DatasetNotFoundError, match=r"no folder `banded`. Unpack dtd-r1.0.1"):
        read(tmp_path, source="dtd")
    with pytest.raises(DatasetNotFoundError, match=r"dtd10_128.npz, but there is none"):
        read(tmp_path, source="dtd10")
    texture_archive(tmp_path)
    with pytest.raises(DatasetNotFoundError, match="Expected 8 textures of class 0.*found 6"):
        read(tmp_path, per_class=4)
    texture_folders(tmp_path, CLASSES[:12])
    with pytest.raises(DatasetNotFoundError, match="the 47 classes of DTD, but it has 2 of those"):
        read(tmp_path)


def test_a_damaged_photograph_is_named(tmp_path):
    texture_folders(tmp_path, CLASSES)
    (tmp_path / "dtd" / "images" / "grid" / "grid_0001.jpg").write_bytes(b"nothing")
    with pytest.raises(DatasetCorruptError, match="images of DTD in .*grid, but one of them"):
        read(tmp_path)
