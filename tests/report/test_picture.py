import base64
import io

import numpy as np
import pytest
from PIL import Image

from rightreasons.report.picture import SIDE, draw_overlay, draw_sample, png_address, share_in_mask

OUTLINE = (0, 199, 255)


def pixels(address):
    kind, _, data = address.partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


def corner_mask(shape, side):
    mask = np.zeros((1, *shape[1:]), dtype=np.float32)
    mask[:, :side, :side] = 1
    return mask


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 14, 14), (140, 140)),
        ((3, 28, 28), (140, 140)),
        ((3, 280, 140), (140, 70)),
        ((1, 1, 1), (140, 140)),
    ],
)
def test_small_pictures_are_enlarged_and_large_ones_made_smaller(shape, size):
    x = np.zeros(shape, dtype=np.float32)
    assert pixels(draw_sample(x, None, (0.0, 1.0))).shape == (*size, 3)
    assert pixels(draw_overlay(x, x, None, (0.0, 1.0))).shape == (*size, 3)


def test_grey_colours_and_ranges():
    grey = np.array([[[0.0, 1.0]]])
    assert pixels(draw_sample(grey, None, (-1.0, 1.0)))[0, [0, -1]].tolist() == [
        [128] * 3,
        [255] * 3,
    ]
    red = np.zeros((3, 2, 2))
    red[0] = 255
    assert pixels(draw_sample(red, None, (0.0, 255.0)))[0, 0].tolist() == [255, 0, 0]
    four = np.stack([np.full((2, 2), value) for value in (0.0, 0.0, 1.0, 1.0)])
    assert pixels(draw_sample(four, None, (0.0, 1.0)))[0, 0].tolist() == [128] * 3


@pytest.mark.parametrize("valid_range", [(-np.inf, np.inf), (0.0, 0.0), (np.nan, 1.0)])
def test_a_range_that_says_nothing_is_taken_from_the_sample(valid_range):
    x = np.array([[[5.0, 9.0]]])
    assert pixels(draw_sample(x, None, valid_range))[0, [0, -1], 0].tolist() == [0, 255]
    assert pixels(draw_sample(np.full((1, 2, 2), 5.0), None, valid_range)).max() == 0


def test_the_mask_is_outlined_at_its_rim_only():
    x = np.full((1, 14, 14), 0.5)
    found = pixels(draw_sample(x, corner_mask(x.shape, 3), (0.0, 1.0)))
    is_line = (found == OUTLINE).all(axis=2)
    assert is_line[0, :30].all() and is_line[:30, 0].all() and is_line[29, :30].all()
    assert not is_line[5:25, 5:25].any()
    assert not is_line[30:].any() and not is_line[:, 30:].any()
    assert (found[60:, 60:] == 128).all()


@pytest.mark.parametrize("mask", [None, np.zeros((1, 14, 14), dtype=np.float32)])
def test_without_a_mask_nothing_is_outlined(mask):
    assert (pixels(draw_sample(np.full((1, 14, 14), 0.5), mask, (0.0, 1.0))) == 128).all()


def test_masks_of_one_channel_and_soft_masks_are_outlined_too():
    x = np.full((3, 14, 14), 0.5)
    mask = np.zeros_like(x)
    mask[2, :3, :3], mask[2, 3:, 3:] = 0.4, 0.1
    found = (pixels(draw_sample(x, mask, (0.0, 1.0))) == OUTLINE).all(axis=2)
    assert found[0, 0] and not found[40:, 40:].any()


def test_the_attribution_is_bright_where_it_is_strong():
    x, attribution = np.zeros((3, 14, 14)), np.zeros((3, 14, 14))
    attribution[0, 7, 7] = -2.0
    attribution[:, 2, 2] = np.nan
    found = pixels(draw_overlay(x, attribution, None, (0.0, 1.0))).astype(int).sum(axis=2)
    assert found[70:80, 70:80].min() > 2 * np.delete(found, range(70, 80), axis=0).max()


def test_no_attribution_is_no_heat():
    found = pixels(draw_overlay(np.zeros((1, 14, 14)), np.zeros((1, 14, 14)), None, (0.0, 1.0)))
    assert (found == found[0, 0]).all()


def test_attributions_of_large_pictures_keep_their_strongest_place():
    attribution = np.zeros((1, 4 * SIDE, 4 * SIDE))
    attribution[0, :40, :40] = 1.0
    found = pixels(draw_overlay(np.zeros_like(attribution), attribution, None, (0.0, 1.0)))
    assert found[:10, :10].astype(int).sum(axis=2).min() > 500
    assert found[20:, 20:].max() < 40


def test_share_in_mask():
    attribution = np.array([[[3.0, -1.0]]])
    assert share_in_mask(attribution, np.array([[[1.0, 0.0]]])) == 0.75
    assert share_in_mask(attribution, np.array([[[0.5, 0.0]]])) == 0.375
    assert share_in_mask(attribution, np.zeros((1, 1, 2))) is None
    assert share_in_mask(np.zeros((1, 1, 2)), np.ones((1, 1, 2))) is None
    assert share_in_mask(attribution, None) is None


def test_values_beyond_the_range_are_cut():
    assert pixels(png_address(np.full((2, 2, 3), 7.0))).min() == 255
