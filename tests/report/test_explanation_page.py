import io

import numpy as np
import pytest
from PIL import Image

from rightreasons.datasets import Card
from rightreasons.report.explanation import (
    explained_samples,
    explanation_page,
    explanation_sheet,
)

CARD = Card(classes=("cat & dog", "ship"))


def columns_of(size=3, *, channels=3, maps=3, mask=True):
    draw = np.random.default_rng(0)
    columns = {
        "x": draw.random((size, channels, 8, 10)),
        "y": np.arange(size) % 2,
        "index": 10 + np.arange(size),
        "prediction": np.zeros(size, int),
        "probability": np.full(size, 0.75),
        "attribution": draw.standard_normal((size, maps, 8, 10)),
    }
    if mask:
        columns["mask"] = np.zeros((size, channels, 8, 10))
        columns["mask"][:, :, :4] = 1
    return columns


def test_samples_are_named_and_drawn():
    first, second, _ = explained_samples(columns_of(), CARD)
    assert (first.index, first.label, first.prediction) == (10, "cat & dog", "cat & dog")
    assert first.is_right and not second.is_right
    assert first.probability.startswith("75.0")
    assert first.in_mask.endswith("%")
    assert first.picture.startswith("data:image/png;base64,")
    assert first.attribution != first.picture


@pytest.mark.parametrize("maps", [1, 3])
def test_a_map_of_all_channels_is_drawn_too(maps):
    sample = explained_samples(columns_of(maps=maps), CARD)[0]
    assert 30 < float(sample.in_mask[:-2]) < 70


def test_without_masks_nothing_is_said_of_them():
    samples = explained_samples(columns_of(mask=False), CARD)
    assert not samples[0].in_mask
    page = explanation_page(samples, title="lrp of run", explained="the label")
    assert "in mask" not in page and "outlined" not in page


def test_the_page_stands_alone_and_escapes_names():
    samples = explained_samples(columns_of(), CARD)
    page = explanation_page(samples, title="lrp of <run>", explained="the predicted class")
    assert "<h1>lrp of &lt;run&gt;</h1>" in page
    assert "cat &amp; dog" in page
    assert "attribution of the predicted class" in page
    assert page.count('<img src="data:image/png') == 6
    assert "http://" not in page and "https://" not in page
    assert "in mask" in page


@pytest.mark.parametrize(("size", "num_rows", "num_columns"), [(1, 1, 1), (3, 1, 3), (6, 2, 4)])
def test_the_sheet_has_all_pairs(size, num_rows, num_columns):
    samples = explained_samples(columns_of(size), CARD)
    sheet = Image.open(io.BytesIO(explanation_sheet(samples)))
    width, height = 14 * 10, 14 * 8  # enlarged by a whole number
    assert sheet.size == (num_columns * (2 * width + 8), num_rows * (height + 8))
    assert np.asarray(sheet.convert("RGB")).std() > 10
