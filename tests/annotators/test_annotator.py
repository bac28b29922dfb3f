import json

import pytest
import torch

from rightreasons.annotators import PseudoAnnotator, mask_quality
from rightreasons.annotators.annotator import RotatingSubset, resize_epoch
from rightreasons.datasets import Augmented, InMemory, Selected
from rightreasons.errors import (
    CheckpointMismatchError,
    InvalidBatchError,
    InvalidSettingError,
    RunNotFoundError,
)


def seen(data, like):
    """Which of the samples ``like`` those of ``data`` are."""
    x = data.take(torch.arange(len(data))).x
    return [int((like == one).flatten(1).all(dim=1).nonzero()) for one in x]


def test_what_fits_into_an_epoch_is_repeated_in_its_order(make_squares):
    data = make_squares(24)
    for num in (24, 30):
        whole = resize_epoch(data, num=num, seed=3)
        expected = Selected(data, torch.arange(num) % 24)
        assert whole.digest() == expected.digest()
        for epoch in (0, 1):
            assert seen(whole.at_epoch(epoch), data.batch.x) == [n % 24 for n in range(num)]


def test_more_than_an_epoch_has_place_for_all_have_their_turn(make_squares):
    data = make_squares(24)
    some = resize_epoch(data, num=10, seed=3)
    assert isinstance(some, RotatingSubset) and len(some) == 10
    epochs = [seen(some.at_epoch(epoch), data.batch.x) for epoch in range(12)]
    assert all(len(set(epoch)) == 10 for epoch in epochs)
    assert len(set(epochs[0] + epochs[1])) == 20
    assert set(epochs[0] + epochs[1] + epochs[2]) == set(range(24))
    counts = torch.bincount(torch.tensor(epochs).flatten())
    assert counts.tolist() == [5] * 24
    assert seen(some, data.batch.x) == epochs[0] != sorted(epochs[0])


def test_the_seed_decides_the_order_and_the_digest(make_squares):
    data = make_squares(24)
    first, again, other = (resize_epoch(data, num=10, seed=seed) for seed in (1, 1, 2))
    assert seen(first, data.batch.x) == seen(again, data.batch.x) != seen(other, data.batch.x)
    assert first.digest() == again.digest() != other.digest()


def test_what_is_below_is_at_the_same_epoch(make_squares):
    data = Augmented(make_squares(24), crop=2, seed=0)
    epoch = resize_epoch(data, num=10).at_epoch(5)
    places = epoch.places
    assert torch.equal(epoch.take(torch.arange(10)).x, data.at_epoch(5).take(places).x)


FIT = {"progress": False, "accelerator": "cpu"}
TINY = {"width": 2, "depth": 1, "num_updates": 3}


def test_it_learns_squares_from_ten(fitted, make_squares):
    annotator, data = fitted
    fresh = make_squares(40, seed=1)
    quality = mask_quality(fresh, lambda batch: annotator.masks(batch.x))
    assert quality["iou"] > 0.6
    assert quality["num_masks"] == 40
    masks = annotator.masks(data.batch.x)
    assert masks.shape == data.batch.mask.shape
    assert masks.min() >= 0 and masks.max() <= 1
    assert annotator.uncertainty(data.batch.x).shape == (24,)
    assert annotator.features(data.batch.x).shape == (24, 8)


def test_it_reads_the_annotated_alone_and_the_seed_decides(make_squares):
    data = make_squares(num_annotated=6)
    other = data.batch.x.clone()
    other[6:] = 0
    first, again, moved = (PseudoAnnotator(**TINY, seed=seed) for seed in (1, 1, 2))
    first.fit(data, **FIT)
    again.fit(InMemory(data.batch.replace(x=other)), **FIT)
    moved.fit(data, **FIT)
    assert first.digest() == again.digest() != moved.digest()


def test_what_is_pasted_is_learned_from(make_squares):
    data = make_squares(num_annotated=6)
    plain, pasted = (PseudoAnnotator(**TINY, paste=share).fit(data, **FIT) for share in (0.0, 0.9))
    x = data.batch.x
    assert not torch.equal(plain.masks(x), pasted.masks(x))
    with pytest.raises(InvalidSettingError, match="Expected `paste` to be a number from 0 to"):
        PseudoAnnotator(paste=1.0)


def test_updates_are_as_many_as_asked_for(make_squares):
    seen = []

    def spy(net, term, data, **settings):
        seen.append((len(data), settings["epochs"], settings["batch_size"]))

    for num_updates in (3, 250):
        PseudoAnnotator(width=2, num_updates=num_updates, batch_size=4).fit(
            make_squares(num_annotated=3), train=spy
        )
    assert [size // batch * epochs for size, epochs, batch in seen] == [3, 252]


def test_every_annotation_is_learned_from(make_squares):
    data, seen = make_squares(24), set()

    def spy(net, term, given, **settings):
        for epoch in range(settings["epochs"]):
            x = given.at_epoch(epoch).take(torch.arange(len(given))).x
            seen.update(int((data.batch.x == one).flatten(1).all(1).nonzero()) for one in x)

    settings = {"width": 2, "shift": 0, "degrees": 0, "batch_size": 1}
    PseudoAnnotator(num_updates=120, **settings).fit(data, train=spy)
    assert seen == set(range(24))
    seen.clear()
    data = make_squares(150)  # 60 updates of one sample in each of two epochs
    PseudoAnnotator(num_updates=120, **settings).fit(data, train=spy)
    assert len(seen) == 120
    seen.clear()
    PseudoAnnotator(num_updates=240, **settings).fit(data, train=spy)
    assert seen == set(range(150))


def test_pix2pix_trains_generator_and_discriminator_as_table_4b_says(make_squares):
    data = make_squares(num_annotated=6, side=24)
    annotator, seen = PseudoAnnotator(objective="pix2pix", **TINY), []
    untrained = annotator._build_net(1).state_dict()

    def spy(net, term, data, **settings):
        seen.append(settings)
        from rightreasons.training.fit import fit

        return fit(net, term, data, **settings)

    annotator.fit(data, train=spy, **FIT)
    optimizer = seen[0]["optimizer"]([torch.zeros(1, requires_grad=True)])
    assert optimizer.defaults["betas"] == (0.5, 0.999)
    assert (optimizer.defaults["lr"], seen[0]["batch_size"]) == (2e-4, 4)
    state = annotator._fitted_net().state_dict()
    same = {name for name, value in state.items() if torch.equal(value, untrained[name])}
    assert not {name for name in same if name.endswith("weight")}
    assert annotator.masks(data.batch.x).shape == data.batch.mask.shape
    with pytest.raises(InvalidSettingError, match='at least 24 x 24 pixels.*"segmentation"'):
        annotator.fit(make_squares(num_annotated=6))


def test_flips_average_an_image_and_its_mirror_image(make_squares):
    data = make_squares(num_annotated=6)
    annotator = PseudoAnnotator(**TINY, flip=True).fit(data, **FIT)
    masks = annotator.masks(data.batch.x)
    torch.testing.assert_close(masks.flip(3), annotator.masks(data.batch.x.flip(3)))


def test_saved_and_loaded_it_is_the_same(fitted, tmp_path):
    annotator, data = fitted
    annotator.save(tmp_path / "kept")
    loaded = PseudoAnnotator.load(tmp_path / "kept")
    assert loaded.digest() == annotator.digest()
    assert torch.equal(loaded.masks(data.batch.x), annotator.masks(data.batch.x))
    told = json.loads((tmp_path / "kept" / "annotator.json").read_text())
    assert told["sha256"] == annotator.digest()
    older = {**told, "format": 1}
    (tmp_path / "kept" / "annotator.json").write_text(json.dumps(older))
    with pytest.raises(CheckpointMismatchError, match="its format is 1, not 2; fit it anew"):
        PseudoAnnotator.load(tmp_path / "kept")
    (tmp_path / "kept" / "annotator.json").write_text("{}")
    with pytest.raises(CheckpointMismatchError, match="as rightreasons wrote it, but cannot read"):
        PseudoAnnotator.load(tmp_path / "kept")
    with pytest.raises(RunNotFoundError, match="Expected a pseudo-annotator in .*nowhere"):
        PseudoAnnotator.load(tmp_path / "nowhere")


def test_an_annotator_that_was_not_fitted_and_other_images(fitted):
    with pytest.raises(InvalidSettingError, match=r"not\. Call `annotator.fit\(data\)` first"):
        PseudoAnnotator().masks(torch.rand(1, 1, 8, 8))
    with pytest.raises(InvalidBatchError, match=r"Expected images \(N, 1, H, W\)"):
        fitted[0].masks(torch.rand(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"objective": "gan"}, "Expected `objective` to be 'segmentation' or 'pix2pix'"),
        ({"width": 1}, "Expected `width` to be a whole number from 2"),
        ({"depth": 9}, "Expected `depth` to be a whole number from 1 to 8"),
        ({"num_updates": 0}, "Expected `num_updates` to be a whole number from 1"),
        ({"batch_size": 0}, "Expected `batch_size` to be a whole number from 1"),
        ({"lr": 0.0}, "Expected `lr` to be a finite number above 0"),
        ({"l1_weight": 0}, "Expected `l1_weight` to be a finite number above 0"),
        ({"flip": 1}, "Expected `flip` to be True or False"),
        ({"shift": -1}, "Expected `shift` to be a whole number from 0"),
        ({"degrees": 200}, "Expected `degrees` to be a number from 0 to 180"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        PseudoAnnotator(**settings)
