import pytest
import torch

from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.datasets.images.reader import (
    ImageReader,
    decode_into_memory,
    find_decoding_problems,
)


@pytest.fixture
def reader(pets):
    return ImageReader(root=pets, size=(8, 10), channels=3, mask_polarity="irrelevant")


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
