import random

import numpy as np
import pytest
import torch
from PIL import Image
from tests.datasets.miniature import WORKER_WARNINGS
from torch.utils import data as torch_data

from rightreasons.datasets import InMemory, Splits, as_dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.types import Batch

pytestmark = WORKER_WARNINGS
X, Y = torch.rand(5, 2, 3, 3), torch.tensor([0, 1, 2, 1, 0])
MASK, GROUP = X[:, :1].round(), torch.tensor([0, 1, 0, 3, -1])
ROWS = torch.tensor([4, 1, 1])


class Items(torch_data.Dataset):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, row):
        return self.items[row]


def tuples():
    return Items(*zip(X, Y.tolist(), MASK, GROUP.tolist(), strict=True))


def dicts():
    return Items(
        *(
            {"input": X[row].numpy(), "label": Y[row], "mask": MASK[row], "group": GROUP[row]}
            | {"name": "ignored"}
            for row in range(5)
        )
    )


def test_data_sets_pass_through():
    data = InMemory(Batch(x=X, y=Y))
    assert as_dataset(data) is data


@pytest.mark.parametrize(
    "data",
    [
        Batch(x=X, y=Y, mask=MASK, group=GROUP),
        torch_data.TensorDataset(X, Y, MASK, GROUP),
        torch_data.DataLoader(torch_data.TensorDataset(X, Y, MASK, GROUP), 2, shuffle=True),
        tuple(part.numpy() for part in (X, Y, MASK, GROUP)),
        [X, Y, MASK, GROUP],
    ],
)
def test_tensors_are_held_in_memory(data):
    adapted = as_dataset(data)
    assert isinstance(adapted, InMemory)
    assert torch.equal(adapted.take(ROWS).group, GROUP[ROWS])


@pytest.mark.parametrize("make", [tuples, dicts])
@pytest.mark.parametrize("workers", [0, 2])
def test_items_are_collated(make, workers):
    data = as_dataset(make(), workers=workers)
    (batch,) = data.batches([ROWS])
    for part, whole in (("x", X), ("y", Y), ("mask", MASK), ("group", GROUP)):
        assert torch.equal(getattr(batch, part), whole[ROWS]), part
    assert torch.equal(batch.index, ROWS)
    assert batch.annotated.all()
    assert torch.equal(data.labels, Y)
    assert torch.equal(data.groups, GROUP)
    assert data.has_masks
    assert data.card.classes == ("0", "1", "2")
    assert data.card.groups == ("0", "1", "2", "3")
    assert data.card.shape == (2, 3, 3)


def test_pairs_have_neither_masks_nor_groups():
    data = as_dataset(Items(*zip(X, Y, strict=True)))
    batch = data.take(ROWS)
    assert batch.mask is batch.group is batch.annotated is data.groups is None
    assert not data.has_masks
    assert data.card.groups == ()


def test_missing_masks_and_groups_are_unknown():
    data = as_dataset(Items((X[0], 0, MASK[0], 2), (X[1], 1, None, None)))
    batch = data.take(torch.tensor([0, 1]))
    assert batch.annotated.tolist() == [True, False]
    assert batch.mask[1].sum() == 0
    assert batch.group.tolist() == [2, -1]


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_pictures_of_eight_bits_are_scaled(mode):
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    picture = Image.fromarray(pixels if mode == "RGB" else pixels[..., 0])
    x = as_dataset(Items({"image": picture, "labels": 1})).take(torch.tensor([0])).x[0]
    expected = pixels.transpose(2, 0, 1) if mode == "RGB" else pixels[None, ..., 0]
    assert torch.equal(x, torch.from_numpy(expected.copy()) / 255)
    with pytest.raises(InvalidBatchError, match="mode RGB, or L for grey, but that of item 0 has"):
        as_dataset(Items({"image": picture.convert("RGBA"), "label": 1}))


def test_data_sets_of_hugging_face():
    datasets = pytest.importorskip("datasets")
    pictures = [Image.fromarray(np.full((4, 4, 3), 51 * n, dtype=np.uint8)) for n in range(3)]
    hub = datasets.Dataset.from_dict({"image": pictures, "label": [0, 2, 1], "site": list("abc")})
    data = as_dataset(hub)
    assert data.labels.tolist() == [0, 2, 1] and data.card.shape == (3, 4, 4)
    torch.testing.assert_close(data.take(torch.tensor([1])).x.mean(), torch.tensor(0.2))
    with pytest.raises(InvalidBatchError, match="a DatasetDict with train. Pass one part"):
        as_dataset(datasets.DatasetDict(train=hub))


def test_the_digest_follows_the_content():
    assert as_dataset(tuples()).digest() == as_dataset(dicts()).digest()
    other = tuples()
    other.items = other.items[:4] + ((X[4], 1, MASK[4], -1),)
    assert as_dataset(other).digest() != as_dataset(tuples()).digest()


class Stream(torch_data.IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (torch_data.DataLoader(tuples(), collate_fn=list), "collate_fn of its own.*loader.dataset"),
        (
            torch_data.DataLoader(tuples(), sampler=torch_data.SubsetRandomSampler([0])),
            "a sampler or a collate_fn of its own",
        ),
        (
            {"train": tuples()},
            r"got a dict with train. Pass one part of it, such as data\['train'\]",
        ),
        (Splits(InMemory(Batch(x=X, y=Y)), None, InMemory(Batch(x=X, y=Y))), "Pass one of its"),
        (Stream(), "map-style torch or Hugging Face data set of tuples .* but got Stream"),
        ((X.tolist(), Y), "arrays .x, y.* but got tuple"),
        (Items(), "length of at least 1, but got Items of length 0"),
        (torch_data.Dataset(), "length of at least 1, but got Dataset without one"),
        (Items(X[0]), "but item 0 is a Tensor"),
        (Items((X[0],)), "but item 0 is a tuple"),
        (Items("xy"), "but item 0 is a str"),
        (Items({"pixels": X[0], "y": 0}), "item 0 is a dict with the keys pixels, y"),
    ],
)
def test_anything_else_is_refused(data, words):
    with pytest.raises(InvalidBatchError, match=words):
        as_dataset(data)


def test_items_that_cannot_be_stacked():
    with pytest.raises(InvalidBatchError, match="`x` of every item to be a tensor .* got object"):
        as_dataset(Items((object(), 0))).take(torch.tensor([0]))
    pictures = Items((X[0], 0), (np.zeros((2, 4, 3)), 1))
    with pytest.raises(InvalidBatchError, match=r"`x` of one shape .* \(2, 3, 3\) and \(2, 4, 3\)"):
        as_dataset(pictures).take(torch.tensor([0, 1]))


def test_bad_workers():
    with pytest.raises(InvalidSettingError, match="Expected `workers` to be a whole number from 0"):
        as_dataset(tuples(), workers=-1)


class Drawing(torch.utils.data.Dataset):
    """Items that draw from everything there is to draw from."""

    def __len__(self):
        return 8

    def __getitem__(self, row):
        return torch.tensor([torch.rand(1).item(), np.random.rand(), random.random()]), 0


@pytest.mark.parametrize("workers", [0, 1])
def test_what_items_draw_depends_on_seed_epoch_and_sample_alone(workers):
    def first(seed, epoch, rows):
        data = as_dataset(Drawing(), workers=workers, seed=seed).at_epoch(epoch)
        return next(iter(data.batches([torch.tensor(rows)]))).x

    expected = as_dataset(Drawing(), seed=3).at_epoch(2).take(torch.tensor([4, 5])).x
    assert torch.equal(first(3, 2, [4, 5]), expected)
    assert torch.equal(first(3, 2, [5])[0], expected[1])
    assert not torch.isclose(first(3, 1, [4, 5]), expected).any()
    assert not torch.isclose(first(4, 2, [4, 5]), expected).any()
