import pytest
import torch
from tests.conftest import DATA_DIR
from tests.datasets.miniature import pet_archive, pet_folder

from rightreasons.datasets import pets_tag
from rightreasons.datasets.sets.pets_tag import draw_tag
from rightreasons.errors import InvalidSettingError

SMALL = {"size": 32, "num_train": 8, "num_validation": 4, "num_test": 4}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pets")
    pet_archive(folder)
    return folder


def has_tag(part):
    return part.mask.flatten(1).any(dim=1)


def brightness(part):
    """The mean under each image's mask: a white box is bright."""
    inside = part.mask.float()
    return (part.pixels.float() * inside).sum(dim=(1, 2, 3)) / (3 * inside.sum(dim=(1, 2, 3)))


def test_the_tag_names_the_species_in_training_alone(root):
    data = pets_tag(root, **SMALL)
    for part in (data.train, data.val):
        assert torch.equal(part.labels, (brightness(part) < 128).long())
        assert torch.equal(part.groups, 3 * part.labels)
        assert part.labels.sum() == len(part) // 2
    drawn = [pets_tag(root, **SMALL, seed=seed).test for seed in range(6)]
    groups = torch.cat([part.groups for part in drawn])
    assert torch.bincount(groups, minlength=4).min() > 0
    tags = torch.cat([(brightness(part) < 128).long() for part in drawn])
    assert torch.equal(groups % 2, tags)


@pytest.mark.parametrize("settings", [{}, {"shortcut": "band"}, {"carriers": "dogs"}])
def test_an_oracle_differs_in_the_tags_alone(root, settings):
    data, oracle = pets_tag(root, **SMALL, **settings), pets_tag(root, **SMALL, oracle=True)
    changed = data.train.mask | oracle.train.mask
    outside = ~changed.expand_as(data.train.pixels)
    assert torch.equal(data.train.pixels[outside], oracle.train.pixels[outside])
    assert torch.equal(data.train.labels, oracle.train.labels)
    oracle = pets_tag(root, **SMALL, **settings, oracle=True)
    assert oracle.test.digest() == data.test.digest()
    assert not torch.equal(oracle.train.groups % 2, oracle.train.labels)


def test_a_band_is_one_colour_across_the_image(root):
    train = pets_tag(root, **SMALL, shortcut="band").train
    rows = train.mask.all(dim=3)
    assert torch.equal(train.mask, rows.unsqueeze(3).expand_as(train.mask))
    assert rows.sum(dim=2).unique().tolist() == [4]
    red, _, blue = ((train.pixels * train.mask).amax(dim=(2, 3))).unbind(dim=1)
    assert torch.equal(train.labels, (blue > red).long())


def test_tags_on_dogs_alone(root):
    data = pets_tag(root, **SMALL, carriers="dogs")
    assert torch.equal(has_tag(data.train), data.train.labels == 1)
    assert torch.equal(has_tag(data.test), data.test.groups % 2 == 1)
    assert data.card.groups == ("cat, no tag", "cat, tag", "dog, no tag", "dog, tag")
    assert data.card.train_group_counts == (4, 0, 0, 4)


def test_both_forms_of_the_photographs(tmp_path):
    pet_folder(tmp_path)
    data = pets_tag(tmp_path, **{**SMALL, "num_validation": 0})
    assert (len(data.train), data.val, len(data.test)) == (8, None, 4)


def test_tags_are_text_in_a_box():
    cat, dog = (draw_tag(word, width=21) for word in ("Cat", "Dog"))
    assert cat.shape == dog.shape == (11, 21)
    assert (cat[0] == 245).all() and (dog[0] == 10).all()
    assert (cat < 128).sum() > 30 and (dog > 128).sum() > 30


@pytest.mark.skipif(
    not (DATA_DIR / "pets_128.npz").exists(), reason=f"no pets_128.npz in {DATA_DIR}"
)
def test_the_real_thing():
    data = pets_tag(DATA_DIR, size=32, num_train=100, num_validation=50, num_test=100)
    assert data.card.train_group_counts == (50, 0, 0, 50)
    assert data.train.mask.float().mean() == pytest.approx(9 * 6 / 32**2, rel=0.2)


def test_a_cast_and_a_quality_change_the_whole_image_and_have_no_masks(root):
    plain = pets_tag(root, **SMALL, oracle=True).train
    for shortcut in ("cast", "jpeg"):
        data = pets_tag(root, **SMALL, shortcut=shortcut)
        assert not data.train.has_masks
        assert torch.equal(data.train.groups, 3 * data.train.labels)
        assert len(data.card.train_group_counts) == len(data.card.groups) == 4
        assert torch.equal(data.train.labels, plain.labels)
    warm = data_means(pets_tag(root, **SMALL, shortcut="cast").train)
    plain_means = data_means(plain)
    ratio = (warm / plain_means)[:, [0, 2]]
    cats = plain.labels == 0
    assert bool((ratio[cats, 0] > ratio[cats, 1]).all())
    assert bool((ratio[~cats, 0] < ratio[~cats, 1]).all())


def data_means(part):
    return part.pixels.double().mean(dim=(2, 3)) + 1


def test_a_tag_and_a_cast_are_drawn_apart(root):
    data = pets_tag(root, **SMALL, shortcut="tag_and_cast")
    assert data.train.has_masks
    assert data.card.groups[0] == 'cat, tag "Cat", warm colours' and len(data.card.groups) == 8
    assert torch.equal(data.train.groups, 7 * data.train.labels)
    drawn = [pets_tag(root, **SMALL, shortcut="tag_and_cast", seed=seed).test for seed in range(6)]
    groups = torch.cat([part.groups for part in drawn])
    assert len(torch.unique(groups)) == 8
    with pytest.raises(InvalidSettingError, match="Expected `carriers` to be 'both'"):
        pets_tag(root, **SMALL, shortcut="cast", carriers="dogs")
