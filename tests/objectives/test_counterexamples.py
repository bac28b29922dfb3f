"""Counterexamples: what the copies are, what they depend on, and what training on them does."""

import pytest
import torch
from tests.reference import terms
from torch import nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.core.rng import random_stream
from rightreasons.datasets.masks import fill_in
from rightreasons.datasets.replacement import Replacement, move_content
from rightreasons.objectives import CounterExamples


def boxes(generator, size=8):
    """A mask that is a box at a random place."""
    top, left, height, width = (
        int(v) for v in torch.randint(0, 4, (4,), generator=generator) + torch.tensor([0, 0, 1, 1])
    )
    mask = torch.zeros(1, size, size)
    mask[:, top : top + height, left : left + width] = 1
    return mask


def images(num_samples=20, seed=0, masked=None):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.stack([boxes(generator) for _ in range(num_samples)])
    if masked is not None:
        mask[~masked] = 0
    return rr.datasets.InMemory(
        rr.Batch(
            x=torch.rand(num_samples, 2, 8, 8, generator=generator),
            y=torch.arange(num_samples) % 2,
            mask=mask,
        )
    )


def prepared(source, data):
    replacement = Replacement(source)
    replacement.prepare(data)
    return replacement


def test_moved_content_equals_its_slow_twin():
    data = images().batch
    donors = data[torch.roll(torch.arange(len(data)), 3)]
    soft = torch.where(data.mask > 0, 0.7, 0.0)
    for mask in (data.mask, soft):
        moved = move_content(data.x, mask, donors.x, donors.mask)
        for n in range(len(data)):
            twin = terms.moved_content(data.x[n], mask[n], donors.x[n], donors.mask[n])
            torch.testing.assert_close(moved[n], twin)


def test_a_faint_seam_does_not_shift_the_content():
    x, donor_x = torch.zeros(1, 1, 6, 6), torch.rand(1, 1, 6, 6)
    mask, donor_mask = torch.zeros(1, 1, 6, 6), torch.zeros(1, 1, 6, 6)
    mask[..., 2:4, 2:4], donor_mask[..., :2, :2] = 1, 1
    mask[..., 4, 2:4], donor_mask[..., :3, 2] = 0.2, 0.3
    moved = move_content(x, mask, donor_x, donor_mask)
    assert torch.equal(moved[..., 2:4, 2:4], donor_x[..., :2, :2])
    assert not moved[..., :2, :].any() and not moved[..., 5, :].any()


@pytest.mark.parametrize(
    "source", ["samples", "pasted", "background", "noise", "blur", "mean", 0.5, "mix"]
)
def test_a_copy_differs_inside_the_mask_alone_and_depends_on_its_own_sample(source):
    data = images()
    replacement = prepared(source, data)
    batch = data.take(torch.arange(20))
    copies = replacement(batch)
    inside = (batch.mask > 0).expand_as(batch.x)
    assert torch.equal(copies[~inside], batch.x[~inside])
    assert bool((copies != batch.x)[inside].any())
    assert bool((copies >= 0).all() & (copies <= 1).all())
    for n in (3, 11):
        alone = replacement(data.take(torch.tensor([n])))
        torch.testing.assert_close(alone[0], copies[n], rtol=0, atol=1e-6)
    if source in ("samples", "noise", "mix"):
        assert not torch.equal(replacement(batch, epoch=1), copies)
    assert torch.equal(replacement(batch, epoch=0), copies)


def test_a_sample_never_gives_to_itself_and_all_others_do():
    x = torch.arange(5.0)[:, None].expand(5, 2).clone() / 10
    data = rr.datasets.InMemory(
        rr.Batch(x=x, y=torch.arange(5) % 2, mask=torch.tensor([[0.0, 1.0]]).expand(5, 2))
    )
    replacement = prepared("samples", data)
    batch = data.take(torch.arange(5))
    given = torch.stack([replacement(batch, epoch=epoch)[:, 1] for epoch in range(60)])
    for n in range(5):
        values = {round(10 * float(value)) for value in given[:, n]}
        assert values == {0, 1, 2, 3, 4} - {n}


def test_auto_chooses_by_where_the_masks_are():
    assert prepared("auto", images()).chosen == "samples"
    only_ones = torch.arange(20) % 2 == 1
    assert prepared("auto", images(masked=only_ones)).chosen == "pasted"
    data = images()
    inverted = rr.datasets.InMemory(data.batch.replace(mask=1 - data.batch.mask))
    assert prepared("auto", inverted).chosen == "background"


def test_pasting_makes_presence_independent_of_the_class():
    """Of copies with and without own masks, half have the content of another sample."""
    only_ones = torch.arange(200) % 2 == 1
    data = images(200, masked=only_ones)
    data.batch.x[:] = torch.where(data.batch.mask > 0, 1.0, 0.0)  # the content is white
    copies = prepared("auto", data)(data.take(torch.arange(200)))
    is_white = (copies == 1).flatten(1).any(dim=1)
    for label in (0, 1):
        assert 0.35 < float(is_white[data.labels == label].double().mean()) < 0.65


def test_moving_makes_the_place_independent_of_the_class():
    """A white patch of class 0 lies in one corner, that of class 1 in another."""
    data = images(200)
    mask = torch.zeros(200, 1, 8, 8)
    mask[0::2, :, :3, :3], mask[1::2, :, 5:, 5:] = 1, 1
    x = torch.where(mask > 0, 1.0, 0.5 * data.batch.x)
    data = rr.datasets.InMemory(data.batch.replace(x=x, mask=mask))
    replacement = prepared("auto", data)
    assert replacement.chosen == "moved"
    copies = replacement(data.take(torch.arange(200)))
    for corner in (copies[:, :, :3, :3], copies[:, :, 5:, 5:]):
        is_white = (corner == 1).flatten(1).all(dim=1)
        for label in (0, 1):
            assert 0.1 < float(is_white[data.labels == label].double().mean()) < 0.4
    batch = data.take(torch.arange(200))
    assert torch.equal(replacement(batch[3:4])[0], copies[3])


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_a_gap_that_the_swap_calls_telling_is_pasted_over(share):
    only_ones = (torch.arange(400) % 2 == 1) & (torch.arange(400) < 400 * share)
    data = images(400, masked=only_ones)
    assert prepared("auto", data).chosen == "pasted"


def test_rare_masks_are_found_beyond_the_first_samples():
    masked = torch.zeros(5000, dtype=torch.bool)
    rows = torch.from_numpy(random_stream(0, "replacement").permutation(5000))
    masked[rows[-20:]] = True  # the last that are looked at
    x = torch.rand(5000, 2)
    mask = masked[:, None].double() * torch.tensor([[0.0, 1.0]])
    data = rr.datasets.InMemory(rr.Batch(x=x, y=torch.arange(5000) % 2, mask=mask.float()))
    replacement = prepared("samples", data)
    changed = (replacement(data.take(torch.arange(5000))) != x).any(dim=1)
    assert torch.equal(changed, masked)
    assert prepared("auto", data).chosen == "samples"


def test_filling_carries_the_surroundings_over():
    x = torch.full((1, 1, 9, 9), 0.25)
    mask = torch.zeros(1, 1, 9, 9)
    mask[..., 2:8, 3:9] = 1
    x[mask > 0] = 1.0
    torch.testing.assert_close(fill_in(x, mask), torch.full((1, 1, 9, 9), 0.25))
    assert torch.equal(fill_in(x, torch.zeros_like(mask)), x)
    whole = fill_in(x, torch.ones_like(mask))
    torch.testing.assert_close(whole, x.mean().expand_as(x))


def test_samples_without_annotation_stay_as_they_are():
    data = images()
    annotated = torch.arange(20) < 10
    batch = data.batch.replace(
        mask=data.batch.mask * annotated[:, None, None, None], annotated=annotated
    )
    data = rr.datasets.InMemory(batch)
    copies = prepared("auto", data)(data.take(torch.arange(20)))
    assert torch.equal(copies[10:], batch.x[10:])
    assert not torch.equal(copies[:10], batch.x[:10])


def test_the_loss_is_cross_entropy_on_the_copies_and_on_the_originals_if_asked():
    data, model = images(), nn.Sequential(nn.Flatten(), nn.Linear(128, 2))
    batch = data.take(torch.arange(20))
    copies = prepared("samples", data)(batch)
    alone = rr.recipes.counterexamples(source="samples")
    alone.prepare(data, num_passes=1)
    on_copies = functional.cross_entropy(model(copies), batch.y)
    torch.testing.assert_close(alone(model, batch).total, on_copies)
    both = rr.recipes.counterexamples(source="samples", originals=True, consistency=2.0)
    both.prepare(data, num_passes=1)
    loss = both(model, batch)
    first, second = model(batch.x).softmax(dim=1), model(copies).softmax(dim=1)
    divergence = (first * (first / second).log()).sum(dim=1).mean()
    on_originals = functional.cross_entropy(model(batch.x), batch.y)
    torch.testing.assert_close(loss.total, (on_copies + on_originals) / 2 + 2 * divergence)
    torch.testing.assert_close(loss.logits, model(batch.x))


def test_share_replaces_some_of_the_samples():
    data = images(200)
    term = CounterExamples(share=0.3, source=0.5)
    term.prepare(data, num_passes=1)
    batch = data.take(torch.arange(200))
    changed = (term.alter(batch).x != batch.x).flatten(1).any(dim=1).double().mean()
    assert 0.2 < float(changed) < 0.4


def test_passes_needed_are_those_of_cross_entropy():
    data, passes = images(), []
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 2))

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model

        def forward(self, x):
            passes.append(len(x))
            return self.net(x)

    objective = rr.recipes.counterexamples()
    objective.prepare(data, num_passes=1)
    objective(Counting(), data.take(torch.arange(20)))
    assert passes == [20]


@pytest.mark.slow
def test_repairs_what_plain_training_does_not():
    splits = rr.datasets.decoy_digits(seed=0)
    swapped = {}
    for recipe in ("erm", "counterexamples"):
        torch.manual_seed(0)
        model = rr.models.mlp(inputs=14 * 14, classes=10)
        rr.fit(model, rr.recipes.RECIPES.create(recipe), splits.train, epochs=10, batch_size=64)
        swapped[recipe] = rr.evaluate(model, splits.test, ["accuracy"])["accuracy"]
    assert swapped["counterexamples"] > swapped["erm"] + 0.07


def test_bad_settings_and_data_are_refused():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `originals`"):
        CounterExamples(consistency=1.0)
    with pytest.raises(rr.errors.RightReasonsError, match="source"):
        CounterExamples(source="others")
    with pytest.raises(rr.errors.InvalidSettingError, match="`share` above 0"):
        CounterExamples(share=0.0)
    bare = rr.datasets.InMemory(rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    with pytest.raises(rr.errors.InvalidBatchError, match="Expected data with masks"):
        rr.recipes.counterexamples().prepare(bare, num_passes=1)
    empty = rr.datasets.InMemory(bare.batch.replace(mask=torch.zeros(4, 3)))
    with pytest.raises(rr.errors.InvalidBatchError, match="all masks are empty"):
        rr.recipes.counterexamples().prepare(empty, num_passes=1)
