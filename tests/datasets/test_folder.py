import multiprocessing

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from tests.datasets.miniature import WORKER_WARNINGS

from rightreasons.datasets import Augmented, Card, InMemory, folder
from rightreasons.datasets.images.stream import ImageStream
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

pytestmark = WORKER_WARNINGS


def halve(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


def test_images_masks_and_card(pets):
    data = folder(pets, mask_polarity="irrelevant")
    assert isinstance(data.train, InMemory)
    assert [len(part) for part in (data.train, data.val, data.test)] == [6, 3, 3]
    assert data.card.classes == ("cat", "dog")
    assert data.card.groups == ("indoors", "outdoors")
    assert data.card.train_group_counts == (6, 0)
    assert data.card.shape == (3, 8, 10)
    batch = data.train.batch
    assert batch.mask[1].sum() == batch.mask[1, 0, :4, :5].sum() == 20
    assert batch.annotated.tolist() == [False, True, True, False, True, True]
    assert batch.mask[0].sum() == 0


def test_relevant_masks_are_inverted_once(pets):
    irrelevant = folder(pets, mask_polarity="irrelevant").train.batch
    relevant = folder(pets, mask_polarity="relevant").train.batch
    annotated = irrelevant.annotated
    assert torch.equal(relevant.mask[annotated], 1 - irrelevant.mask[annotated])
    assert relevant.mask[~annotated].sum() == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_streaming_equals_memory(pets, workers):
    settings = {"mask_polarity": "relevant", "size": (6, 5), "flip": True, "crop": 1, "seed": 3}
    held = folder(pets, **settings)
    streamed = folder(pets, **settings, in_memory=False, workers=workers)
    assert isinstance(streamed.test, ImageStream)
    assert streamed.card == held.card
    rows = [torch.tensor([4, 0]), torch.tensor([2])]
    for epoch in (0, 1):
        pairs = zip(
            held.train.at_epoch(epoch).batches(rows),
            streamed.train.at_epoch(epoch).batches(rows),
            strict=True,
        )
        for first, second in pairs:
            for part in ("x", "y", "mask", "annotated", "group", "index"):
                assert torch.equal(getattr(first, part), getattr(second, part)), part


def test_workers_end_with_the_batches(pets):
    data = folder(pets, mask_polarity="relevant", in_memory=False, workers=2, flip=True)
    already = multiprocessing.active_children()
    batches = data.train.at_epoch(0).batches([torch.tensor([0])] * 50)
    next(batches)
    started = [child for child in multiprocessing.active_children() if child not in already]
    assert len(started) == 2
    batches.close()
    assert not any(child.is_alive() for child in started)


@pytest.mark.parametrize(("limit", "kind"), [(15360, InMemory), (15359, ImageStream)])
def test_the_memory_limit_decides(pets, limit, kind):
    data = folder(pets, mask_polarity="relevant", memory_limit=limit)
    assert 12 * (3 + 1) * 8 * 10 * 4 == 15360
    assert isinstance(data.train, kind)


def test_training_alone_is_augmented(pets):
    data = folder(pets, mask_polarity="relevant", crop=2)
    assert isinstance(data.train, Augmented)
    assert isinstance(data.test, InMemory)


def test_grey_images_of_a_stated_size(pets):
    data = folder(pets, mask_polarity="relevant", channels=1, size=5)
    assert data.card.shape == (1, 5, 5)
    assert data.train.batch.mask.shape == (6, 1, 5, 5)
    assert data.train.batch.mask.unique().tolist() == [0, 1]
    assert folder(pets, mask_polarity="relevant", size=[4, 6]).card.shape == (3, 4, 6)


def test_a_plain_table_has_neither_masks_nor_groups_nor_validation(pets, write_table):
    rows = [["images/0.png", 0, "train"], ["images/1.png", 1, "train"], ["images/2.png", 1, "test"]]
    data = folder(write_table(pets, ["file", "label", "split"], *rows))
    assert data.val is None
    assert not data.train.has_masks
    assert data.train.groups is None
    assert data.card.groups == data.card.train_group_counts == ()


def test_a_split_without_masks_has_none(pets, write_table):
    header = ["file", "label", "split", "mask"]
    rows = [["images/1.png", 0, "train", "masks/1.png"], ["images/2.png", 0, "test", ""]]
    for in_memory in (True, False):
        data = folder(
            write_table(pets, header, *rows), mask_polarity="relevant", in_memory=in_memory
        )
        assert data.train.has_masks
        assert not data.test.has_masks
        assert data.test.take(torch.tensor([0])).mask is None


def test_a_card_of_ones_own(pets):
    card = Card(name="pets", source="a friend", licence="CC0", shortcut="the sofa")
    data = folder(pets, mask_polarity="relevant", card=card)
    assert (data.card.name, data.card.shortcut, data.card.classes) == (
        "pets",
        "the sofa",
        ("cat", "dog"),
    )


@pytest.mark.parametrize("in_memory", [True, False])
def test_every_problem_at_once(pets, save_image, in_memory):
    table = (pets / "data.csv").read_text().replace("8.png,cat,val", "8.png,cat,dev", 1)
    (pets / "data.csv").write_text(table + "images/1.png,,train,indoors,\n")
    (pets / "images/0.png").unlink()
    save_image(pets / "masks/1.png", np.zeros((3, 3)))
    halve(pets / "images/5.png")
    with pytest.raises(DatasetCorruptError, match="but got 7 problems") as caught:
        folder(pets, in_memory=in_memory)
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    expected = [
        "row 10, images/8.png: has the split 'dev', expected train, val, test, 0, 1 or 2",
        "row 14, images/1.png: is a duplicate of row 3",
        "row 14, images/1.png: has no label",
        "`mask_polarity` is not stated, but there are masks: pass 'irrelevant' if white is what",
        "row 2, images/0.png: no such file",
        "row 3, mask masks/1.png: has 3x3 pixels, but its image images/1.png has 8x10",
        "row 7, images/5.png: cannot be read",
    ]
    assert len(lines) == len(expected)
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_damaged_file_alone(pets, in_memory):
    halve(pets / "masks/7.png")
    with pytest.raises(DatasetCorruptError, match="1 problem:\n  row 9, mask masks/7.png: cannot"):
        folder(pets, mask_polarity="relevant", in_memory=in_memory)


def test_unverified_streams_find_damage_later(pets):
    halve(pets / "images/7.png")
    data = folder(pets, mask_polarity="relevant", in_memory=False, verify=False, workers=0)
    with pytest.raises(DatasetCorruptError, match="row 9, images/7.png: cannot be read"):
        data.val.take(torch.tensor([1]))


def test_long_lists_are_cut(pets, monkeypatch, write_table):
    monkeypatch.setattr("rightreasons.datasets.images.splits.MAX_LINES", 2)
    rows = [[f"{number}.png", "cat", "train"] for number in range(5)]
    with pytest.raises(
        DatasetCorruptError, match="6 problems(.|\n)*… and 4 more; `rightreasons data check"
    ):
        folder(write_table(pets, ["file", "label", "split"], *rows))


def test_images_of_several_sizes_need_one(pets, save_image):
    save_image(pets / "images/3.png", np.zeros((9, 9, 3)))
    save_image(pets / "images/4.png", np.zeros((9, 9, 3)))
    save_image(pets / "masks/4.png", np.zeros((9, 9)))
    with pytest.raises(DatasetCorruptError, match="2 different sizes .8x10 in row 2, 9x9 in row 5"):
        folder(pets, mask_polarity="relevant")
    assert folder(pets, mask_polarity="relevant", size=8).card.shape == (3, 8, 8)


def test_no_table(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected a table at"):
        folder(tmp_path)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_masks_turn_with_their_images(tmp_path, write_table, orientation):
    """A mask lies on the upright image, or on the stored one if only that has its size."""
    stored = np.zeros((6, 10), dtype=np.uint8)
    stored[1:3, 2:7] = 255
    image = Image.fromarray(stored)
    tag = Image.Exif()
    tag[0x0112] = orientation
    image.save(tmp_path / "a.png", exif=tag)
    upright = ImageOps.exif_transpose(Image.open(tmp_path / "a.png"))
    Image.fromarray(np.asarray(upright)).save(tmp_path / "upright.png")
    Image.fromarray(stored).save(tmp_path / "stored.png")
    names = ["upright.png"] + ["stored.png"] * (orientation > 4 or orientation == 1)
    for name in names:
        rows = [["a.png", "x", split, name] for split in ("train",)]
        rows.append(["upright.png", "x", "test", ""])
        data = folder(
            write_table(tmp_path, ["file", "label", "split", "irrelevant_mask"], *rows),
            channels=1,
            size=upright.size[::-1],
        )
        assert torch.equal(data.train.batch.mask, data.train.batch.x), name


def test_deep_images_and_groups_of_a_table(tmp_path, write_table):
    rows = []
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.full((3, 3), 100.0 * number))
        split = ("train", "test")[number // 2]
        rows.append([f"{number}.npy", ("a", "b")[number % 2], split, f"s{number}"])
    write_table(tmp_path, ["file", "label", "split", "site"], *rows)
    settings = {"value_range": [0, 300], "groups": "label, site"}
    data = folder(tmp_path, **settings)
    assert data.test.batch.x[:, 0, 0, 0].tolist() == pytest.approx([2 / 3, 1])
    assert data.card.groups[:2] == ("label a, site s0", "label a, site s1")
    streamed = folder(tmp_path, **settings, in_memory=False)
    other = folder(tmp_path, value_range=[0, 400], in_memory=False)
    assert streamed.digest() != other.digest()
    with pytest.raises(InvalidSettingError, match="`value_range` to be two numbers, the lower"):
        folder(tmp_path, value_range=[3, 1])
    with pytest.raises(DatasetCorruptError, match="row 3, 1.npy: has float64 values from 100"):
        folder(tmp_path)
