from dataclasses import replace

import pytest
import torch

from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.datasets.images.reader import ImageReader, collect_problems
from rightreasons.errors import DatasetCorruptError


@pytest.fixture
def entries(pets):
    return read_manifest(pets)[0].entries


@pytest.fixture
def reader(pets):
    return ImageReader(root=pets, size=(8, 10), channels=3, mask_polarity="irrelevant")


def test_relevant_masks_are_inverted_and_missing_ones_are_not(reader, entries):
    relevant = replace(reader, mask_polarity="relevant")
    assert reader.mask(entries[1]).sum() == 20
    assert torch.equal(relevant.mask(entries[1]), 1 - reader.mask(entries[1]))
    assert relevant.mask(entries[0]).sum() == reader.mask(entries[0]).sum() == 0


def test_problems_name_row_and_file(reader, entries):
    gone = replace(entries[1], file="gone.png", mask="gone too.png")
    with pytest.raises(DatasetCorruptError, match="row 3, gone.png: no such file"):
        reader.image(gone)
    with pytest.raises(DatasetCorruptError, match="row 3, mask gone too.png: no such file"):
        reader.mask(gone)


def test_collecting_goes_on_after_bad_files_only():
    problems = []
    with collect_problems(problems):
        raise DatasetCorruptError("first")
    with collect_problems(problems):
        pass
    with pytest.raises(KeyError), collect_problems(problems):
        raise KeyError
    assert problems == ["first"]
