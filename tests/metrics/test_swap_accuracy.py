import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, Dataset, InMemory
from rightreasons.datasets.telling_masks import mask_tells_class
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import SwapAccuracy, transplant
from rightreasons.metrics.exchange import draw_donors_across
from rightreasons.metrics.swap_accuracy import WAYS


def measured(model, data, **options):
    values = rr.evaluate(model, data, [SwapAccuracy(**options)])
    return {name.removeprefix("swap_accuracy").removeprefix("/"): v for name, v in values.items()}


def reader(feature):
    """A model with the logits ``(2 - 2 feature, 2 feature)``."""
    model = nn.Linear(3, 2)
    model.weight.data.zero_()
    model.weight.data[:, feature] = torch.tensor([-2.0, 2.0])
    model.bias.data = torch.tensor([2.0, 0.0])
    return model


def shortcut_data(size=400):
    """Features 0 and 1 both equal the label; feature 0 is masked."""
    y = torch.arange(size) % 2
    x = torch.stack([y.float(), y.float(), torch.rand(size)], dim=1)
    return rr.Batch(x=x, y=y, mask=torch.tensor([[1.0, 0.0, 0.0]]).expand(size, 3))


SOURCES = ["samples", "uniform"]


def test_pasting_brings_a_shortcut_to_the_class_that_never_had_it():
    batch = shortcut_data()
    mask = (batch.y == 0)[:, None] * batch.mask  # nothing is masked in the other class
    one_sided = batch.replace(mask=mask)
    assert measured(reader(0), one_sided, source="samples")["class/1"] == 1
    pasted = measured(reader(0), one_sided, source="pasted")
    assert (pasted["class/0"], pasted["class/1"], pasted["worst"]) == (1, 0, 0)
    assert measured(reader(1), one_sided, source="pasted")[""] == 1


@pytest.mark.parametrize("source", SOURCES)
def test_a_model_that_reads_the_shortcut_falls_to_chance(source):
    batch = shortcut_data()
    assert rr.evaluate(reader(0), batch, ["accuracy"])["accuracy"] == 1
    values = measured(reader(0), batch, source=source)
    assert values[""] == pytest.approx(0.5, abs=0.05)
    assert values["average"] == pytest.approx(0.5, abs=0.05)
    assert values["worst"] == min(values["class/0"], values["class/1"])


@pytest.mark.parametrize("source", SOURCES)
def test_a_model_that_ignores_the_shortcut_is_unchanged(source):
    values = measured(reader(1), shortcut_data(), source=source)
    costs = {values.pop(name) for name in ("cost", "cost/low", "cost/high")}
    assert 0 < values.pop("changed") <= 1
    assert (set(values.values()), costs) == ({1.0}, {0.0})


@pytest.mark.parametrize("source", SOURCES)
def test_a_sample_without_a_mask_is_left_as_it_is(source):
    batch = shortcut_data()
    unmasked = batch.replace(mask=torch.zeros_like(batch.x))
    assert measured(reader(0), unmasked, source=source)[""] == 1


class Recorder(nn.Module):
    """Keeps its inputs; predicts class 1 where the first feature is above a half."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x.detach().clone())
        return 2 * torch.stack([1 - x[:, 0], x[:, 0]], dim=1)


def test_the_masked_values_are_those_of_other_samples():
    size = 6
    x = torch.arange(size * 3.0).reshape(size, 3) / 20
    batch = rr.Batch(x=x, y=torch.zeros(size).long(), mask=torch.tensor([[1.0, 0, 0]] * size))
    model = Recorder()
    measured(model, batch, num_draws=40)
    altered = torch.cat(model.seen[1:])
    altered = altered.reshape(40, size, 3)
    assert torch.equal(altered[..., 1:], x[:, 1:].expand(40, size, 2))
    for sample in range(size):
        found = set(altered[:, sample, 0].tolist())
        assert found == set(x[:, 0].tolist()) - {float(x[sample, 0])}


def test_a_single_sample_is_its_own_donor():
    batch = rr.Batch(x=torch.tensor([[1.0, 0.0]]), y=torch.tensor([1]), mask=torch.ones(1, 2))
    assert measured(Recorder(), batch)[""] == 1


def test_uniform_values_fill_the_valid_range_of_each_masked_feature():
    batch = rr.Batch(x=torch.zeros(300, 4), y=torch.zeros(300).long(), mask=torch.ones(300, 4))
    batch.mask[:, 2:] = 0
    model = Recorder()
    measured(model, InMemory(batch, Card(valid_range=(-1.0, 3.0))), source="uniform", num_draws=2)
    altered = torch.cat(model.seen[1:])
    assert (altered[:, 2:] == 0).all()
    for feature in (0, 1):
        drawn = altered[:, feature]
        assert -1 <= drawn.min() < -0.9
        assert 2.9 < drawn.max() <= 3
        assert drawn.mean() == pytest.approx(1, abs=0.15)
    assert len(altered[:, :2].unique()) > 1000


def test_a_soft_mask_mixes_old_and_new():
    batch = rr.Batch(x=torch.zeros(50, 2), y=torch.zeros(50).long(), mask=torch.ones(50, 2) / 4)
    model = Recorder()
    card = Card(valid_range=(1.0, 1.0))
    measured(model, InMemory(batch, card), source="uniform", num_draws=1)
    assert torch.equal(model.seen[1], torch.full((50, 2), 0.25))


@pytest.mark.parametrize("source", SOURCES)
def test_draws_depend_on_the_seed(source):
    batch = shortcut_data(40)

    def altered(seed):
        model = Recorder()
        measured(model, batch, source=source, seed=seed)
        return model.seen[1]

    assert torch.equal(altered(3), altered(3))
    assert not torch.equal(altered(3), altered(4))


@pytest.mark.parametrize("source", SOURCES)
def test_equals_its_slow_twin(source):
    """Right and wrong, sample by sample, from the inputs that the model got."""
    y = torch.tensor([0, 0, 1] * 10)
    batch = rr.Batch(x=0.8 * y[:, None].float().expand(30, 2), y=y, mask=torch.ones(30, 2))
    model = Recorder()
    values = measured(model, batch, source=source, num_draws=4)
    answers = torch.cat(model.seen[1:])[:, 0].reshape(4, 30) > 0.5
    correct = [
        [bool(answer) == bool(label) for answer in column]
        for column, label in zip(answers.T, y, strict=True)
    ]
    changed = (torch.cat(model.seen[1:]).reshape(4, 30, 2) != batch.x).any(dim=2).T.tolist()
    low, high = values.pop("low"), values.pop("high")
    assert low < values[""] < high
    assert values.pop("cost/low") < values["cost"] < values.pop("cost/high")
    assert values == pytest.approx(slow.swap_accuracy(correct, y, [True] * 30, changed))


def test_classes_are_called_by_the_names_of_the_card():
    batch = shortcut_data(20)
    values = measured(reader(1), InMemory(batch, Card(classes=("cat", "dog", "cow"))))
    assert {name for name in values if name.startswith("class/")} == {"class/cat", "class/dog"}


def tagged(size=120, *, tagged_classes=(1,), side=12, corner=lambda y: 0, strength=1.0, seed=0):
    """Images whose middle shows the class; samples of some classes have a bright tag, masked."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % 2
    x = 0.2 * torch.rand(size, 1, side, side, generator=generator)
    x[:, 0, 5:8, 5:8] += 0.4 * y[:, None, None]
    mask = torch.zeros(size, 1, side, side)
    for row, label in enumerate(y.tolist()):
        if label in tagged_classes:
            at = corner(label)
            patch = (row, 0, slice(at, at + 3), slice(at, at + 3))
            x[patch], mask[patch] = 0.8 + 0.2 * torch.rand(3, 3, generator=generator), strength
    return rr.Batch(x=x, y=y, mask=mask)


class Reads(nn.Module):
    """Says class 1 where a square is bright."""

    def __init__(self, at, threshold):
        super().__init__()
        self.at, self.threshold = at, threshold

    def forward(self, x):
        value = x[:, 0, self.at : self.at + 3, self.at : self.at + 3].mean(dim=(1, 2))
        return torch.stack([torch.zeros_like(value), value - self.threshold], dim=1)


CHEAT, HONEST = Reads(0, 0.5), Reads(5, 0.3)


@pytest.mark.parametrize("tags", ["one class", "by place", "soft", "faint masks elsewhere"])
def test_a_tag_whose_mask_tells_the_class_is_pasted_across_and_removed(tags):
    """An exchange among those that carry it says 1.000 for a model that reads nothing else."""
    options = {
        "one class": {},
        "by place": {"tagged_classes": (0, 1), "corner": lambda y: 0 if y else 9},
        "soft": {"strength": 0.4},
        "faint masks elsewhere": {},
    }[tags]
    batch = tagged(**options)
    if tags == "faint masks elsewhere":
        batch = batch.replace(mask=batch.mask.clamp(min=0.02))
    assert rr.evaluate(CHEAT, batch, ["accuracy"])["accuracy"] == 1
    if tags != "faint masks elsewhere":
        assert measured(CHEAT, batch, source="samples")[""] == 1
    found = measured(CHEAT, batch)
    least = {"by place": (0.4, 0.5, 0.0, 0.5)}.get(tags, (0.0, 0.6, 0.5, 0.0))
    assert (found["worst"], found["cost"], found["pasted"], found["removed"]) == pytest.approx(
        least
    )
    honest = measured(HONEST, batch)
    assert (honest[""], honest["cost"]) == (1, 0)
    assert set(WAYS) <= set(honest)


def test_auto_is_samples_where_every_class_carries_masks_equally_often():
    for batch in (shortcut_data(), tagged(tagged_classes=(0, 1)), tagged(tagged_classes=())):
        model = CHEAT if batch.x.ndim == 4 else reader(0)
        assert measured(model, batch) == measured(model, batch, source="samples")


def test_columns_that_one_class_has_masked_take_their_usual_value():
    batch = shortcut_data()
    one_sided = batch.replace(mask=(batch.y == 1)[:, None] * batch.mask)
    model = Recorder()
    values = measured(model, one_sided, num_draws=1)
    altered = torch.cat(model.seen[1:]).reshape(2, 400, 3)
    assert (altered[0, :, 0] == 1).all()  # the column of the other class's carriers
    assert (altered[1, batch.y == 1, 0] == 0).all()  # the mean of those without a mask on it
    assert (values["pasted"], values["removed"], values["class/0"]) == (0, 0, 0)


def test_pasting_across_equals_its_slow_twin():
    batch = tagged(40)
    seen = []

    class Watched(nn.Module):
        def forward(self, x):
            seen.append(x.detach().clone())
            return CHEAT(x)

    values = measured(Watched(), batch, num_draws=4)
    altered = torch.cat(seen[1:]).reshape(4, *batch.x.shape)
    correct = (CHEAT(torch.cat(seen[1:])).argmax(1).reshape(4, -1) == batch.y).T.tolist()
    changed = (altered != batch.x).flatten(2).any(dim=2).T.tolist()
    assert all(all(draws) for draws in changed)
    for name in ("low", "high", "cost/low", "cost/high"):
        values.pop(name)
    before = (CHEAT(batch.x).argmax(1) == batch.y).tolist()
    assert values == pytest.approx(slow.swap_accuracy(correct, batch.y, before, changed, WAYS))
    gone = altered[2, batch.y == 1]
    twins = [slow.removed(x, m) for x, m in zip(batch.x, batch.mask, strict=True)]
    torch.testing.assert_close(gone, torch.stack(twins)[batch.y == 1])
    inside = batch.mask[1].bool()
    pasted = altered[0, batch.y == 0]
    tags = [one[inside].tolist() for one in batch.x[batch.y == 1]]
    assert all(one[inside].tolist() in tags for one in pasted)
    assert all(
        torch.equal(a[~inside], b[~inside]) for a, b in zip(pasted, batch.x[::2], strict=True)
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4), st.floats(0.05, 1.0))
def test_donors_come_from_other_classes_and_the_gap_equals_its_slow_twin(seed, classes, share):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (30,), generator=generator)
    carries = torch.rand(30, generator=generator) < share
    carries[0] = True
    candidates = carries.nonzero().flatten()
    donors = draw_donors_across(candidates, labels, 4, generator)
    assert set(donors.flatten().tolist()) <= set(candidates.tolist())
    for row in range(30):
        if bool((labels[candidates] != labels[row]).any()):
            assert (labels[donors[:, row]] != labels[row]).all()
    gap = slow.presence_gap(labels.tolist(), carries.tolist())
    same_place = carries[:, None] * torch.ones(1, 4)
    assert mask_tells_class(labels, carries, same_place) == (gap >= 0.1)


def test_a_large_mask_is_exchanged_at_its_place_so_that_the_object_stays():
    batch = tagged(40, tagged_classes=(1,))
    background = torch.ones_like(batch.mask)
    background[:, :, 5:8, 5:8] = 0
    model = nn.Sequential(Spy := nn.Identity(), HONEST)
    kept = []
    Spy.register_forward_hook(lambda module, inputs, output: kept.append(output))
    values = measured(model, batch.replace(mask=background * batch.y[:, None, None, None]))
    altered = torch.cat(kept[1:]).reshape(5, *batch.x.shape)
    assert torch.equal(altered[0, batch.y == 1][..., 5:8, 5:8], batch.x[1::2, :, 5:8, 5:8])
    assert values["class/1"] == 1


@st.composite
def transplants(draw):
    """Samples and donors of many shapes, with hard, soft, shared and empty masks."""
    shape = draw(st.sampled_from([(4,), (1, 3), (3, 4), (1, 2, 3), (3, 2, 3), (2, 1, 4)]))
    size = draw(st.integers(1, 3))
    whole = draw(st.booleans())
    mask_shape = (1, *shape[1:]) if len(shape) > 1 and not whole else shape
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    density = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    soft = draw(st.booleans())

    def mask():
        chosen = torch.rand(size, *mask_shape, generator=generator) < density
        return chosen * (torch.rand(size, *mask_shape, generator=generator) if soft else 1.0)

    x, donor_x = (torch.randn(size, *shape, generator=generator) for _ in range(2))
    return x, mask(), donor_x, mask()


@settings(max_examples=150, deadline=None)
@given(transplants())
def test_transplants_equal_their_slow_twin(parts):
    torch.testing.assert_close(transplant(*parts), slow.transplanted(*parts))


def test_a_hard_mask_moves_values_exactly_and_touches_no_others():
    x, donor_x = torch.randn(8, 3, 5, 5), torch.randn(8, 3, 5, 5)
    mask = (torch.rand(8, 1, 5, 5) < 0.4).float()
    before = x.clone()
    result = transplant(x, mask, donor_x, mask)
    assert torch.equal(result, torch.where(mask > 0, donor_x, x))
    assert torch.equal(x, before)


def test_channels_move_together_under_a_shared_mask():
    pixels = torch.arange(4.0).reshape(1, 1, 2, 2)
    x, donor_x = torch.zeros(1, 3, 2, 2), torch.cat([pixels, pixels + 10, pixels + 20], dim=1)
    mask = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]])
    donor_mask = torch.tensor([[[[0.0, 0.0], [0.0, 1.0]]]])
    moved = transplant(x, mask, donor_x, donor_mask)
    assert moved[0, :, 0, 0].tolist() == [3, 13, 23]
    assert moved.flatten(2)[..., 1:].abs().sum() == 0


def test_different_numbers_of_positions_are_stretched():
    x, ones = torch.zeros(1, 6), torch.ones(1, 6)
    donor_x = torch.tensor([[7.0, 8.0, 9.0, 0.0, 0.0, 0.0]])
    donor_mask = torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
    assert transplant(x, ones, donor_x, donor_mask).tolist() == [[7, 7, 8, 8, 9, 9]]
    fewer = torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0, 1.0]])
    assert transplant(x, fewer, donor_x, donor_mask).tolist() == [[0, 7, 0, 0, 0, 8]]


def test_refuses_an_unknown_source():
    with pytest.raises(InvalidSettingError, match=r"Expected `source` to be one of \('auto', "):
        SwapAccuracy(source="noise")


def test_refuses_no_draws():
    with pytest.raises(InvalidSettingError, match="Expected `num_draws` of at least 1, but got 0"):
        SwapAccuracy(num_draws=0)


def test_refuses_batches_of_unknown_data():
    probe = rr.Probe(Recorder(), shortcut_data(4))
    metric = SwapAccuracy()
    metric.prepare(InMemory(shortcut_data(4)))
    with pytest.raises(InvalidBatchError, match="and batches with an `index`"):
        metric.update(probe)


class Forgetful(Dataset):
    """Claims to have masks, but only the first two batches have."""

    has_masks = True
    groups = None
    card = Card()
    labels = torch.zeros(4).long()

    def __init__(self):
        self.batch = InMemory(shortcut_data(4))
        self.taken = 0

    def __len__(self):
        return 4

    def take(self, rows):
        self.taken += 1
        batch = self.batch.take(rows)
        return batch if self.taken <= 3 else batch.replace(mask=None)

    def digest(self):
        return ""


def test_refuses_donors_without_masks():
    with pytest.raises(InvalidBatchError, match="Expected every batch to have masks, but got one"):
        measured(Recorder(), Forgetful())


def test_few_masks_still_show_a_shortcut():
    """One in ten is annotated; a pure shortcut model must be near chance."""
    y = torch.arange(400) % 2
    x = torch.stack([torch.rand(400), y.float(), torch.rand(400)], dim=1)
    mask = torch.zeros(400, 3)
    annotated = torch.arange(400) % 10 < 2
    mask[annotated, 1] = 1
    batch = rr.Batch(x=x, y=y, mask=mask, annotated=annotated)
    assert 0.3 < measured(reader(1), batch, num_draws=10)[""] < 0.7
