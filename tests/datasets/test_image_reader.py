from dataclasses import replace

import numpy as np
import pytest
import torch

from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.datasets.images.reader import (
    ImageReader,
    collect_problems,
    decode_into_memory,
    find_decoding_problems,
    survey,
)
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


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_holds_what_the_reader_reads(pets, reader, workers):
    entries = read_manifest(pets)[0].part("train")
    batch, problems = decode_into_memory(entries, reader, has_groups=True, workers=workers)
    assert problems == find_decoding_problems(entries, reader, workers=workers) == []
    assert torch.equal(batch.x, torch.stack([reader.image(entry) for entry in entries]))
    assert torch.equal(batch.mask, torch.stack([reader.mask(entry) for entry in entries]))
    assert batch.annotated.tolist() == [False, True, True, False, True, True]
    assert batch.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert batch.group.tolist() == [0] * 6


def test_rows_without_masks_or_groups_have_none(pets, reader):
    entries = [entry for entry in read_manifest(pets)[0].entries if not entry.mask]
    batch, _ = decode_into_memory(entries, reader, has_groups=False, workers=0)
    assert batch.mask is batch.annotated is batch.group is None


def test_every_damaged_file_is_reported(pets, reader):
    entries = read_manifest(pets)[0].entries
    for name in ("images/3.png", "masks/4.png", "images/5.png", "masks/5.png"):
        content = (pets / name).read_bytes()
        (pets / name).write_bytes(content[: len(content) * 2 // 3])
    _, problems = decode_into_memory(entries, reader, has_groups=True, workers=2)
    assert problems == find_decoding_problems(entries, reader, workers=2)
    starts = [problem.split(": ")[0] for problem in problems]
    assert starts == [
        "row 5, images/3.png",
        "row 6, mask masks/4.png",
        "row 7, images/5.png",
        "row 7, mask masks/5.png",
    ]


def test_images_of_one_size(pets):
    manifest, _ = read_manifest(pets)
    sound, size, problems = survey(manifest, None, workers=2)
    assert (sound, size, problems) == (list(manifest.entries), (8, 10), [])
    assert survey(manifest, (4, 4), workers=0) == (list(manifest.entries), (4, 4), [])


def test_every_problem_at_once(pets, save_image):
    (pets / "images/0.png").unlink()
    (pets / "masks/1.png").write_text("not an image")
    save_image(pets / "masks/2.png", np.zeros((8, 8)))
    (pets / "images/4.png").unlink()
    (pets / "masks/4.png").unlink()
    save_image(pets / "images/3.png", np.zeros((9, 10, 3)))
    manifest, _ = read_manifest(pets)
    sound, size, problems = survey(manifest, None, workers=2)
    assert size == (8, 10)
    assert problems == [
        "row 2, images/0.png: no such file",
        "row 3, mask masks/1.png: is not an image Pillow can read",
        "row 4, mask masks/2.png: has 8x8 pixels, but its image images/2.png has 8x10",
        "row 6, images/4.png: no such file",
        "row 6, mask masks/4.png: no such file",
        "the images have 2 different sizes (8x10 in row 3, 9x10 in row 5): pass `size`, a number "
        "of pixels or height and width, to resize them",
    ]
    assert [entry.row for entry in sound] == [5, 7, 8, 9, 10, 11, 12, 13]
