import numpy as np
import pytest
import torch
from tests.datasets.miniature import WORKER_WARNINGS

from rightreasons.datasets import Card
from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.datasets.images.reader import ImageReader, decode_into_memory
from rightreasons.datasets.images.stream import ImageStream
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

pytestmark = WORKER_WARNINGS


@pytest.fixture
def stream_of(pets):
    reader = ImageReader(root=pets, size=(8, 10), channels=3, mask_polarity="relevant")
    card = Card(classes=("cat", "dog"), groups=("indoors", "outdoors"), shape=(3, 8, 10))

    def make(*, workers=0, card=card):
        return ImageStream(read_manifest(pets)[0].entries, reader, card, workers=workers)

    return make


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_memory(stream_of, workers):
    stream = stream_of(workers=workers)
    batch, _ = decode_into_memory(stream.entries, stream.reader, has_groups=True, workers=0)
    rows = [torch.tensor([11, 0, 5]), torch.tensor([1, 1])]
    for taken, indices in zip(stream.batches(rows), rows, strict=True):
        for part in ("x", "y", "mask", "annotated", "group"):
            assert torch.equal(getattr(taken, part), getattr(batch, part)[indices]), part
        assert torch.equal(taken.index, indices)


def test_labels_and_groups_need_no_files(stream_of, pets):
    stream = stream_of()
    for path in (pets / "images").iterdir():
        path.unlink()
    assert len(stream) == 12
    assert stream.labels.tolist() == [0, 1] * 6
    assert stream.groups.tolist() == [0] * 6 + [1] * 6
    assert stream.has_masks


def test_without_groups(stream_of):
    stream = stream_of(card=Card(classes=("cat", "dog")))
    assert stream.groups is None
    assert stream.take(torch.tensor([0])).group is None


@pytest.mark.parametrize("name", ["images/7.png", "masks/7.png"])
def test_the_digest_changes_with_a_file(stream_of, pets, save_image, name):
    stream = stream_of()
    before = stream.digest()
    save_image(pets / name, np.full((8, 10), 255))
    assert stream.digest() == before  # remembered
    assert stream_of().digest() != before


def test_the_digest_changes_with_a_label(stream_of, pets):
    before = stream_of().digest()
    table = (pets / "data.csv").read_text()
    (pets / "data.csv").write_text(table.replace("7.png,dog", "7.png,cat", 1))
    assert stream_of().digest() != before


@pytest.mark.parametrize("workers", [0, 2])
def test_files_that_vanish(stream_of, pets, workers):
    (pets / "images/7.png").unlink()
    stream = stream_of(workers=workers)
    with pytest.raises(DatasetCorruptError, match="row 9, images/7.png: no such file"):
        list(stream.batches([torch.tensor([7])]))
    with pytest.raises(DatasetNotFoundError, match="which was there when the data were loaded"):
        stream.digest()
