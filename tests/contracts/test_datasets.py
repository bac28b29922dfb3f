"""The contract of all data sets: one table, the same checks for every row."""

import csv
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import pytest
import torch
from PIL import Image
from tests.datasets.miniature import (
    WORKER_WARNINGS,
    celeba_archive,
    celeba_files,
    challenge_files,
    cifar100_bytes,
    cifar_jpegs,
    class_folders,
    decoy_ham_files,
    derma_files,
    isic2017_archive,
    isic2017_files,
    isic_files,
    pet_archive,
    pet_files,
    plant_files,
    salient_files,
    svhn_archive,
    svhn_files,
    waterbird_archive,
    waterbird_files,
)

from rightreasons.datasets import Splits, load, names
from rightreasons.datasets.registry import DATASETS
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

pytestmark = WORKER_WARNINGS


@dataclass(frozen=True)
class Case:
    """A row of the table.

    Args:
        name: Name in the registry.
        settings: Settings for loading.
        files: Function that writes the small files to read.
        patch: Side of the square planted in a corner; 0 if there is none.
        planted: Whether one colour is planted under the mask and tells the label.
        drawn: Whether the seed changes the samples (else only their augmentation).
        plain: Whether there are neither masks nor groups.
        maskless: Whether there are groups and no masks.
    """

    name: str
    settings: dict
    files: Callable | None = None
    patch: int = 0
    planted: bool = True
    drawn: bool = True
    plain: bool = False
    maskless: bool = False


def mnist_files(root):
    rng = np.random.default_rng(0)
    np.savez(
        root / "mnist.npz",
        x_train=rng.integers(0, 256, size=(1500, 28, 28), dtype=np.uint8),
        y_train=rng.integers(0, 10, size=1500, dtype=np.uint8),
        x_test=rng.integers(0, 256, size=(1000, 28, 28), dtype=np.uint8),
        y_test=rng.integers(0, 10, size=1000, dtype=np.uint8),
    )


def image_files(root):
    rng = np.random.default_rng(0)
    rows = [["file", "label", "split", "group", "mask"]]
    for number in range(16):
        Image.fromarray(rng.integers(0, 256, size=(9, 7, 3), dtype=np.uint8)).save(
            root / f"{number}.png"
        )
        mask = f"mask {number}.png" if number % 4 else ""
        if mask:
            Image.fromarray(rng.integers(0, 2, size=(9, 7), dtype=np.uint8)).save(root / mask)
        split = ("train", "train", "val", "test")[number // 4]
        rows.append([f"{number}.png", ["no", "yes"][number % 2], split, number % 3, mask])
    with (root / "data.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows(rows)


FOLDER = {"mask_polarity": "irrelevant", "flip": True, "crop": 2}
ON_DISK = {**FOLDER, "in_memory": False, "workers": 1}
PLAIN = {"planted": False, "plain": True}
GROUPED = {"planted": False, "drawn": False, "maskless": True}
TEXTS = {"decoy_imdb", "decoy_sst", "eraser_movies", "hatexplain", "imdb", "text"}
TABLES = {"adult", "compas", "german_credit", "table"}
NOT_IMAGES = TEXTS | TABLES  # see test_text_datasets.py and test_tables.py
CASES = {
    "background_challenge": Case(
        "background_challenge", {"size": 8, "validation_share": 0.25}, challenge_files, **PLAIN
    ),
    "biased_mnist": Case("biased_mnist", {"validation": 500}, mnist_files, planted=False),
    "biased_mnist, two": Case(
        "biased_mnist", {"validation": 500, "squares": 2}, mnist_files, planted=False
    ),
    "cats_vs_dogs": Case("cats_vs_dogs", {"size": 8, "validation_share": 0.2}, pet_files, **PLAIN),
    "cifar10": Case("cifar10", {"validation": 50, "subset": 100}, cifar_jpegs, **PLAIN),
    "block_mnist": Case("block_mnist", {"validation": 500}, mnist_files, planted=False),
    "celeba_hair": Case("celeba_hair", {"size": 8, "flip": True}, celeba_files, **GROUPED),
    "waterbirds": Case("waterbirds", {"size": 8, "crop": 1}, waterbird_files, **GROUPED),
    "celeba_hair, archive": Case(
        "celeba_hair", {"size": 8, "flip": True}, celeba_archive, **GROUPED
    ),
    "celeba_hair, faces": Case(
        "celeba_hair",
        {"size": 8, "flip": True, "mask": "face"},
        celeba_files,
        planted=False,
        drawn=False,
    ),
    "waterbirds, archive": Case(
        "waterbirds", {"size": 8, "crop": 1}, waterbird_archive, planted=False, drawn=False
    ),
    "cifar100": Case("cifar100", {"validation": 100}, cifar100_bytes, **PLAIN),
    "svhn": Case("svhn", {"validation": 50}, svhn_files, **PLAIN),
    "svhn, archive": Case("svhn", {"validation": 50}, svhn_archive, **PLAIN),
    "cifar10 augmented": Case("cifar10", {"validation": 50, "flip": True}, cifar_jpegs, **PLAIN),
    "image_folder": Case(
        "image_folder", {"size": 8, "validation_share": 0.25}, class_folders, **PLAIN
    ),
    "image_folder on disk": Case(
        "image_folder",
        {"size": 8, "validation_share": 0.5, "crop": 1, "in_memory": False, "workers": 2},
        class_folders,
        **PLAIN,
    ),
    "decoy_digits": Case("decoy_digits", {}, patch=3),
    "decoy_digits, wrong": Case("decoy_digits", {"test_colours": "wrong"}, patch=3),
    "decoy_mnist, ross": Case("decoy_mnist", {"validation": 500}, mnist_files, patch=4),
    "decoy_mnist, faint": Case(
        "decoy_mnist", {"validation": 500, "colours": "faint"}, mnist_files, patch=4
    ),
    "folder in memory": Case("folder", FOLDER, image_files, planted=False, drawn=False),
    "folder on disk": Case("folder", ON_DISK, image_files, planted=False, drawn=False),
    "decoy_derm": Case("decoy_derm", {}, derma_files, patch=7),
    "half_decoy_mnist": Case("half_decoy_mnist", {"validation": 500}, mnist_files),
    "isic": Case("isic", {"size": 12}, isic_files, planted=False),
    "isic on disk": Case(
        "isic", {"size": 12, "in_memory": False, "workers": 1}, isic_files, planted=False
    ),
    "plant": Case("plant", {"size": 10, "validation_share": 0.2}, plant_files, planted=False),
    "salient_imagenet": Case(
        "salient_imagenet",
        {"size": 14, "classes": (306, 142, 270)},
        salient_files,
        planted=False,
    ),
    "decoy_ham": Case("decoy_ham", {"size": 32}, decoy_ham_files, planted=False),
    "isic2017": Case(
        "isic2017", {"size": 12, "flip": True}, isic2017_files, planted=False, drawn=False
    ),
    "isic2017, archive": Case(
        "isic2017", {"size": 12, "flip": True}, isic2017_archive, planted=False, drawn=False
    ),
    "isic_patches": Case(
        "isic_patches", {"size": 16, "oracle": True}, isic2017_archive, planted=False
    ),
    "oxford_pets": Case(
        "oxford_pets", {"size": 8, "validation_share": 0.25}, pet_archive, planted=False
    ),
    "pets_tag": Case(
        "pets_tag",
        {"size": 16, "num_train": 8, "num_validation": 4, "num_test": 4},
        pet_archive,
        planted=False,
    ),
    "textured_mnist": Case(
        "textured_mnist",
        {
            "size": 16,
            "num_train": 150,
            "num_validation": 60,
            "num_test": 60,
            "textures_per_class": 2,
        },
        mnist_files,
        planted=False,
    ),
    "few masks": Case("decoy_digits", {"mask_fraction": 0.3}, planted=False),
    "few masks on disk": Case(
        "folder", {**ON_DISK, "mask_fraction": 0.5}, image_files, planted=False
    ),
    "few samples on disk": Case(
        "folder",
        {**ON_DISK, "mask_fraction": 0.6, "mask_fraction_keep": "data"},
        image_files,
        planted=False,
    ),
    "shifted masks": Case("decoy_digits", {"mask_corruption": "shift"}, planted=False),
    "dilated masks on disk": Case(
        "folder", {**ON_DISK, "mask_corruption": "dilation"}, image_files, planted=False
    ),
}
PLANTED = {name: case for name, case in CASES.items() if case.planted}
IN_CORNERS = {name: case for name, case in CASES.items() if case.patch}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Load a case; equal calls return the same object."""
    folders, cache = {}, {}

    def get(case: Case, *, seed: int = 0, fresh: bool = False, **settings) -> Splits:
        if case.files not in folders:
            folders[case.files] = tmp_path_factory.mktemp("data")
            if case.files is not None:
                case.files(folders[case.files])
        key = (case.name, case.files, str(case.settings), seed, str(settings))
        if fresh or key not in cache:
            cache[key] = load(
                case.name,
                data_dir=folders[case.files],
                seed=seed,
                **{**case.settings, **settings},
            )
        return cache[key]

    return get


def parts_of(splits):
    return [part for part in (splits.train, splits.val, splits.test) if part is not None]


def whole(part):
    return part.take(torch.arange(len(part)))


def colours(batch):
    """The colour under each sample's mask, which must be one."""
    num_samples, num_channels = batch.x.shape[:2]
    inside = batch.mask.bool().expand_as(batch.x)
    values = batch.x[inside].reshape(num_samples, num_channels, -1)
    assert torch.equal(values, values[:, :, :1].expand_as(values))
    return [tuple(colour) for colour in values[:, :, 0].tolist()]


def predicted_labels(train, batch):
    """The label of each colour, by the rule of the training data."""
    rule = dict(zip(colours(train), train.y.tolist(), strict=True))
    return torch.tensor([rule[colour] for colour in colours(batch)])


def test_the_table_is_complete():
    assert {case.name for case in CASES.values()} == set(names()) - NOT_IMAGES


COMMON = {  # a value that every data set with the setting refuses, and the words of the error
    "seed": (-1, "Expected `seed` to be a whole number from 0, but got -1"),
    "size": (0, "Expected `size` to be .*, but got 0"),
    "validation": (-1, "Expected `validation` to be a whole number from 0"),
    "subset": (0, "Expected `subset` to be a whole number from 1"),
    "validation_share": (1.0, "Expected `validation_share` to be a number from 0 to below 1"),
    "test_share": (0.0, "`test_share` and `validation_share` to leave samples to train and to te"),
    "flip": (1, "Expected `flip` to be True or False, but got 1"),
    "crop": (-1, "Expected `crop` to be a whole number from 0"),
    "in_memory": ("no", "Expected `in_memory` to be 'auto', True or False, but got 'no'"),
    "workers": (-1, "Expected `workers` to be a whole number from 0"),
    "verify": (1, "Expected `verify` to be True or False"),
    "oracle": (1, "Expected `oracle` to be True or False"),
    "download": ("no", "Expected `download` to be True or False"),
    "colours": ("blue", "Expected `colours` to be 'ross' or 'faint', but got 'blue'"),
    "test_masks": ("all", "Expected `test_masks` to be 'patch' or 'corners'"),
}
MNIST = [({"validation": 1500}, "Expected `validation` to be a whole number from 0 to 1499")]
CUT = ({"validation": 500, "subset": 1001}, "Expected `subset` to be a whole number from 1 to 1000")
SPECIAL = {
    "background_challenge": [
        ({"test": "mixed_next"}, "Expected `test` to be 'original' or 'mixed_same'")
    ],
    "biased_mnist": [
        *MNIST,
        CUT,
        ({"squares": 3}, "Expected `squares` to be 1 or 2, but got 3"),
        ({"test": "both"}, "Expected `test` to be 'original' or 'biased'"),
        ({"share": 0.3}, "Expected `share` to be a number from 0.5 to 1, but got 0.3"),
    ],
    "block_mnist": [*MNIST, CUT],
    "decoy_derm": [
        ({"size": 32}, "Expected `size` to be 28 or 64, but got 32"),
        ({"merge_validation": "no"}, "Expected `merge_validation` to be True or False"),
    ],
    "decoy_digits": [
        ({"size": 13}, "Expected `size` to be a whole number from 14, but got 13"),
        ({"patch": 0}, "Expected `patch` to be a whole number from 1, but got 0"),
        ({"validation": 1290}, "Expected `validation` to be a whole number from 0 to 1287"),
        ({"test_colours": "label"}, "Expected `test_colours` to be 'any' or 'wrong'"),
    ],
    "decoy_ham": [
        ({"size": 200}, "`size` to be a whole number from 8 to 128"),
        ({"mask": "lesion"}, "`mask` to be 'artefact' or 'outside_lesion'"),
        ({"share": 2}, "`share` to be a number from 0 to 1"),
        ({"kinds": ["hair"]}, "`kinds` to be some of .*'bubble'.* but got .'hair'."),
        ({"kinds": "ruler"}, "`kinds` to be some of"),
        ({"kinds": []}, "`kinds` to be some of"),
        ({"zoom": 0}, "`zoom` to be a finite number above 0"),
    ],
    "celeba_hair": [({"mask": "hair"}, "`mask` to be 'none' or 'face'")],
    "decoy_mnist": [*MNIST, ({"seed": 0.5}, "Expected `seed` to be a whole number from 0")],
    "half_decoy_mnist": MNIST,
    "folder": [
        ({"mask_polarity": "white"}, "Expected `mask_polarity` to be 'irrelevant' or 'relevant'"),
        ({"size": (3, 4, 5)}, "Expected `size` to be a number of pixels or height and width"),
        ({"size": "large"}, "Expected `size` to be a number of pixels or height and width"),
        ({"channels": 2}, "Expected `channels` to be 1 or 3, but got 2"),
        ({"memory_limit": -1}, "Expected `memory_limit` to be a whole number from 0"),
    ],
    "isic_patches": [
        ({"size": 200}, "`size` to be a whole number from 8 to 128"),
        ({"mask": "lesion"}, "`mask` to be 'patch' or 'outside_lesion'"),
        ({"share": 2}, "`share` to be a number from 0 to 1"),
    ],
    "oxford_pets": [
        ({"task": "sex"}, "`task` to be 'breed' or 'species'"),
        ({"border": "soft"}, "`border` to be 'masked' or 'free'"),
    ],
    "pets_tag": [
        ({"shortcut": "ribbon"}, "`shortcut` to be 'tag' or 'band'"),
        ({"carriers": "cats"}, "`carriers` to be 'both' or 'dogs'"),
        ({"num_train": 9}, "`num_train` to be a whole number from 2 to 8"),
        ({"num_validation": 11}, "`num_validation` to be a whole number from 0 to 10"),
        ({"num_test": 5}, "`num_test` to be a whole number from 2 to 4"),
    ],
    "plant": [
        ({"fold": 5}, "Expected `fold` to be a whole number from 0 to 4, but got 5"),
        ({"test_background": "none"}, "Expected `test_background` to be 'mean' or 'own'"),
        ({"workers": 1.5}, "Expected `workers` to be a whole number from 0"),
    ],
    "salient_imagenet": [
        ({"classes": (306,)}, r"to be two or more different ImageNet numbers, but got \[306\]"),
        ({"classes": (306, 306)}, "two or more different ImageNet numbers"),
        ({"classes": (306, 1000)}, "Expected `classes` to be a whole number from 0 to 999"),
        ({"test_part": "all"}, "Expected `test_part` to be 'both' or 'spurious' or 'core'"),
    ],
    "textured_mnist": [
        ({"size": 7}, "`size` to be a whole number from 8"),
        ({"digit_size": 17}, "`digit_size` to be a whole number from 1 to 16"),
        ({"background_randomness": 1.5}, "`background_randomness` to be a number from 0 to 1"),
        ({"digit_randomness": -1}, "`digit_randomness` to be a number from 0 to 1"),
        ({"textures_per_class": 0}, "`textures_per_class` to be a whole number from 1"),
        ({"num_train": 1441}, "`num_train` to be a whole number from 1 to 1440"),
        ({"num_validation": 1500}, "`num_validation` to be a whole number from 0 to 1499"),
        ({"num_test": 0}, "`num_test` to be a whole number from 1 to 1000"),
    ],
}
FIRST = {case.name: case for case in reversed(CASES.values())}
REFUSED = [
    pytest.param(FIRST[name], settings, words, id=f"{name} {settings}")
    for name in sorted(FIRST)
    for settings, words in [
        *(
            ({key: value}, words)
            for key, (value, words) in COMMON.items()
            if key in DATASETS.settings(name)
        ),
        *SPECIAL.get(name, []),
    ]
]


@pytest.mark.parametrize(("case", "settings", "words"), REFUSED)
def test_bad_settings(case, settings, words, loaded):
    with pytest.raises(InvalidSettingError, match=words):
        loaded(case, **settings)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_batches_are_valid(case, loaded):
    for part in parts_of(loaded(case)):
        batch = whole(part)
        checked = Batch(**{field.name: getattr(batch, field.name) for field in fields(Batch)})
        assert checked.x.dtype == torch.float32
        low, high = part.card.valid_range
        assert low <= batch.x.min() <= batch.x.max() <= high
        assert tuple(batch.x.shape[1:]) == part.card.shape
        masked = not (case.plain or case.maskless)
        assert part.has_masks == (batch.mask is not None) == masked
        if not masked:
            continue
        assert batch.mask.shape == (len(part), 1, *part.card.shape[1:])
        assert not batch.mask[~batch.annotated].any()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_labels_and_groups_are_named(case, loaded):
    splits = loaded(case)
    for part in parts_of(splits):
        batch = whole(part)
        assert part.card == splits.card
        assert torch.equal(part.labels, batch.y)
        assert int(batch.y.max()) < len(part.card.classes) == len(set(part.card.classes))
        if case.plain:
            assert part.groups is None and batch.group is None and not part.card.groups
            continue
        assert torch.equal(part.groups, batch.group)
        assert int(batch.group.max()) < len(part.card.groups) == len(set(part.card.groups))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_card_is_filled(case, loaded):
    splits = loaded(case)
    of_texts_and_tables = ("text", "columns")
    for field in fields(splits.card):
        if field.name in of_texts_and_tables:
            continue
        if not case.plain or "group" not in field.name:
            assert getattr(splits.card, field.name), field.name
    assert splits.card.name == case.name
    if case.plain:
        return
    counts = torch.bincount(splits.train.groups, minlength=len(splits.card.groups))
    assert splits.card.train_group_counts == tuple(counts.tolist())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rows_may_be_taken_in_any_order(case, loaded):
    for part in parts_of(loaded(case)):
        rows = [torch.tensor([2, 0]), torch.tensor([1])]
        everything = whole(part)
        for batch, indices in zip(part.batches(rows), rows, strict=True):
            assert torch.equal(batch.index, indices)
            assert torch.equal(batch.x, everything.x[indices])
            unmasked = case.plain or case.maskless
            assert unmasked or torch.equal(batch.mask, everything.mask[indices])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_same_seed_same_bytes_other_seed_others(case, loaded):
    first, again, other = loaded(case), loaded(case, fresh=True), loaded(case, seed=1)
    assert first.digest() == again.digest()
    assert (first.digest() != other.digest()) == case.drawn
    seen, seen_again, seen_other = (
        whole(splits.train.at_epoch(1)).x for splits in (first, again, other)
    )
    assert torch.equal(seen, seen_again)
    assert not torch.equal(seen, seen_other)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_global_random_state_is_left_alone(case, loaded):
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    splits = loaded(case, fresh=True)
    list(splits.train.at_epoch(0).batches([torch.tensor([0])]))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_sample_is_in_one_split_only(case, loaded):
    margin = case.patch
    contents = []
    for part in parts_of(loaded(case)):
        x = whole(part).x
        inner = x[:, :, margin : x.shape[2] - margin, margin : x.shape[3] - margin]
        contents.append({row.numpy().tobytes() for row in inner})
        assert len(contents[-1]) == len(part)
    assert len(set.union(*contents)) == sum(len(content) for content in contents)


@pytest.mark.parametrize("case", IN_CORNERS.values(), ids=IN_CORNERS)
def test_the_mask_is_one_square_in_a_corner(case, loaded):
    for part in parts_of(loaded(case)):
        mask = whole(part).mask
        assert set(mask.unique().tolist()) == {0.0, 1.0}
        assert mask.sum(dim=(1, 2, 3)).unique().tolist() == [case.patch**2]
        side = case.patch
        corners = (
            mask[:, 0, rows, columns].sum(dim=(1, 2)) == side**2
            for rows in (slice(side), slice(-side, None))
            for columns in (slice(side), slice(-side, None))
        )
        shares = torch.stack(list(corners)).double().mean(dim=1)
        assert shares.sum() == 1
        assert (shares - 0.25).abs().max() < 0.1


@pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED)
def test_the_colour_tells_the_label_in_training_and_validation(case, loaded):
    splits = loaded(case)
    train = whole(splits.train)
    assert len(set(colours(train))) == len(splits.card.classes)
    for part in (splits.train, splits.val):
        assert torch.equal(predicted_labels(train, whole(part)), part.labels)


@pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED)
def test_the_colour_does_not_tell_the_label_at_test(case, loaded):
    splits = loaded(case)
    right = predicted_labels(whole(splits.train), whole(splits.test)) == splits.test.labels
    assert right.float().mean() < 1 / len(splits.card.classes) + 0.05


@pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED)
def test_the_colour_tells_an_oracle_nothing(case, loaded):
    splits, oracle = loaded(case), loaded(case, oracle=True)
    assert oracle.test.digest() == splits.test.digest()
    planted = whole(splits.train)
    num_classes = len(splits.card.classes)
    for part in (oracle.train, oracle.val):
        batch = whole(part)
        table = torch.zeros(num_classes, num_classes).index_put_(
            (batch.y, predicted_labels(planted, batch)), torch.ones(len(batch)), accumulate=True
        )
        expected = table.sum(dim=1, keepdim=True) / num_classes  # uniform whatever the label
        chi_square = float(((table - expected) ** 2 / expected).sum())
        freedom = num_classes * (num_classes - 1)
        # Wilson and Hilferty's approximation: one in 100,000 is larger
        limit = freedom * (1 - 2 / (9 * freedom) + 4.26 * (2 / (9 * freedom)) ** 0.5) ** 3
        assert chi_square < limit
