import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rightreasons.errors import InvalidBatchError, UnknownNameError
from rightreasons.types import Batch, Interval, Target
from tests.reference.metrics import probabilities

NAMES = [target.value for target in Target]
PARTS = [field.name for field in dataclasses.fields(Batch) if field.name != "inputs"]
X, Y = torch.arange(72.0).reshape(4, 2, 3, 3) / 64, torch.tensor([0, 1, 0, 2])
MASK = torch.arange(36.0).reshape(4, 1, 3, 3) % 2
FULL = Batch(
    x=X,
    y=Y,
    mask=MASK,
    annotated=torch.tensor([True, False, True, True]),
    group=torch.tensor([0, -1, 3, 1]),
    index=torch.tensor([7, 5, 3, 1]),
)


def same(one, other):
    pairs = [(getattr(one, name), getattr(other, name)) for name in PARTS]
    return all(a is b is None or (a.dtype == b.dtype and torch.equal(a, b)) for a, b in pairs)


def test_optional_parts_are_none():
    batch = Batch(x=X, y=Y)
    assert len(batch) == 4
    assert batch.mask is batch.annotated is batch.group is batch.index is None


def test_integers_and_booleans_are_brought_to_one_type():
    batch = Batch(
        x=X, y=Y.to(torch.uint8), annotated=Y, group=Y.to(torch.int16), index=Y.to(torch.int32)
    )
    assert batch.y.dtype == batch.group.dtype == batch.index.dtype == torch.long
    assert batch.annotated.tolist() == [False, True, False, True]


@pytest.mark.parametrize("shape", [(2, 3, 3), (1, 3, 3), (2, 1, 1), (1, 1, 1), (1, 1, 3)])
def test_masks_broadcast_to_the_features(shape):
    batch = Batch(x=X, y=Y, mask=torch.ones(4, *shape))
    assert batch.mask.shape == (4, *shape)
    assert batch.annotated.tolist() == [True] * 4


def test_a_mask_of_zeros_is_a_mask():
    batch = Batch(x=X, y=Y, mask=torch.zeros_like(MASK), annotated=torch.tensor([False] * 4))
    assert batch.mask.sum() == 0
    assert not batch.annotated.any()


def test_masks_by_hand_and_predicted_ones_count():
    mask = torch.zeros_like(MASK)
    mask[2] = 1
    annotated = torch.tensor([True, False, False, False])
    batch = Batch(x=X, y=Y, mask=mask, annotated=annotated)
    assert batch.guided.tolist() == [True, False, True, False]
    assert Batch(x=X, y=Y).guided is None


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.long, torch.float16])
def test_masks_take_the_type_of_the_features(kind):
    batch = Batch(x=X.double(), y=Y, mask=MASK.to(kind))
    assert batch.mask.dtype == torch.float64
    assert torch.equal(batch.mask, MASK.double())


def test_tokens_keep_their_type_and_have_masks():
    tokens = torch.tensor([[5, 6, 7], [8, 9, 0]])
    batch = Batch(x=tokens, y=Y[:2], mask=torch.tensor([[1, 0, 0], [0, 1, 1]]))
    assert batch.x.dtype == torch.long
    assert batch.mask.dtype == torch.float32
    moved = batch.to(torch.float64)
    assert moved.x.dtype == torch.long
    assert moved.mask.dtype == torch.float64


def test_no_samples_are_a_batch():
    batch = Batch(x=X[:0], y=Y[:0], mask=MASK[:0])
    assert len(batch) == 0
    assert len(batch.annotated) == 0


def test_a_type_changes_features_and_masks_only():
    moved = FULL.to(torch.float64)
    assert moved.x.dtype == moved.mask.dtype == torch.float64
    for name in ("y", "annotated", "group", "index"):
        assert torch.equal(getattr(moved, name), getattr(FULL, name))
        assert getattr(moved, name).dtype == getattr(FULL, name).dtype


def test_everything_moves_to_a_device():
    moved = FULL.to("meta")
    assert {getattr(moved, name).device.type for name in PARTS} == {"meta"}
    both = FULL.to("meta", torch.float64, non_blocking=True)
    assert {getattr(both, name).device.type for name in PARTS} == {"meta"}
    assert both.x.dtype == torch.float64
    assert Batch(x=X, y=Y).to("meta").mask is None


def test_staying_costs_nothing():
    assert FULL.to("cpu").x is FULL.x


def test_rows_are_taken_from_every_part():
    rows = torch.tensor([2, 0])
    taken = FULL[rows]
    for name in PARTS:
        assert torch.equal(getattr(taken, name), getattr(FULL, name)[rows])
    assert same(FULL[Y == 0], FULL[torch.tensor([0, 2])])
    assert same(FULL[:], FULL)
    assert Batch(x=X, y=Y)[1:].mask is None


@given(st.lists(st.integers(0, 4), max_size=4))
def test_slices_put_together_are_the_batch(cuts):
    edges = [0, *sorted(cuts), 4]
    pieces = [FULL[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
    assert same(Batch.collate(pieces), FULL)
    assert sum(len(piece) for piece in pieces) == 4


@given(st.permutations(range(4)))
def test_a_permutation_can_be_undone(order):
    rows = torch.tensor(order)
    assert same(FULL[rows][rows.argsort()], FULL)


def test_copies_follow_each_other():
    twice = FULL.repeat(2)
    assert len(twice) == 8
    assert same(twice[:4], FULL)
    assert same(twice[4:], FULL)


def test_parts_are_exchanged_and_checked():
    assert torch.equal(FULL.replace(x=2 * X).x, 2 * X)
    assert FULL.replace(mask=None).mask is None
    assert torch.equal(FULL.replace(y=Y + 1).mask, MASK)
    with pytest.raises(InvalidBatchError, match="Expected `mask` in"):
        FULL.replace(mask=2 + MASK)
    with pytest.raises(InvalidBatchError, match=r"Expected `y` of shape \(3,\)"):
        FULL.replace(x=X[:3])


def test_fields_are_exchanged_without_a_check():
    assert same(FULL.with_(), FULL)
    changed = FULL.with_(x=2 * X, mask=2 + MASK)
    assert torch.equal(changed.x, 2 * X)
    assert float(changed.mask.max()) == 3
    assert same(changed.with_(x=X, mask=MASK), FULL)


def test_slices_are_not_checked_again():
    assert torch.isnan(Batch.trusted(x=torch.full((1, 1), torch.nan), y=Y[:1]).x).all()


def test_a_batch_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.x = X


def test_an_interval_has_two_ends():
    lower, upper = Interval(lower=X, upper=X + 1)
    assert torch.equal(upper - lower, torch.ones_like(X))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"x": X.tolist()}, r"Expected `x` to be a tensor, but got list. Use torch.as_tensor\(x\)"),
        ({"x": Y}, r"Expected `x` of shape \(N, \*S\) .* but got \(4,\). Use x.unsqueeze\(0\)"),
        ({"x": torch.tensor(1.0)}, r"at least one feature axis, but got \(\)"),
        ({"x": X.to(torch.uint8)}, r"but got 8-bit pixels. Use x.float\(\) / 255"),
        ({"y": [0, 1, 0, 1]}, r"Expected `y` to be a tensor, but got list. Use torch.as_tensor\(y"),
        ({"y": None}, "Expected `y` to be a tensor, but got NoneType"),
        ({"y": Y[:3]}, r"Expected `y` of shape \(4,\), one for each sample of `x`, but got \(3,\)"),
        ({"y": Y[:, None]}, r"Expected `y` of shape \(4,\), .* but got \(4, 1\)"),
        ({"y": Y.float()}, r"Expected `y` to hold integers, but got torch.float32"),
        ({"y": Y - 1}, "Expected `y` to hold classes from 0, but got -1"),
        ({"annotated": MASK}, r"Expected `annotated` of shape \(4,\)"),
        ({"annotated": Y.float()}, "Expected `annotated` to hold booleans, but got torch.float32"),
        ({"annotated": [True] * 4}, "Expected `annotated` to be a tensor, but got list"),
        ({"group": Y[:1]}, r"Expected `group` of shape \(4,\), .* but got \(1,\)"),
        ({"group": Y.double()}, "Expected `group` to hold integers, but got torch.float64"),
        ({"index": torch.tensor(3)}, r"Expected `index` of shape \(4,\), .* but got \(\)"),
        ({"index": Y.to(torch.complex64)}, "Expected `index` to hold integers, but got torch.comp"),
        ({"mask": MASK.tolist()}, r"Expected `mask` to be a tensor, but got list. Use torch.as_te"),
        ({"mask": MASK[:3]}, r"Expected `mask` to have one entry a sample .* got shape \(3, 1, 3,"),
        ({"mask": MASK[:1]}, r"broadcast to `x`, \(4, 2, 3, 3\), but got shape \(1, 1, 3, 3\)"),
        ({"mask": MASK[..., :2]}, r"but got shape \(4, 1, 3, 2\)\.$"),
        ({"mask": MASK[:, 0]}, r"got shape \(4, 3, 3\). Use mask.unsqueeze\(1\) for one mask over"),
        (
            {"mask": MASK * 255},
            r"Expected `mask` in \[0, 1\], .* values from 0 to 255. .* mask / 2",
        ),
        ({"mask": MASK - 0.5}, "but got values from -0.5 to 0.5"),
        ({"mask": MASK * torch.nan}, "but got values from nan to nan"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, message):
    with pytest.raises(InvalidBatchError, match=message):
        Batch(**{"x": X, "y": Y, **parts})


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_features_must_be_finite(value):
    x = X.clone()
    x[1, 0, 0, 0] = x[3, 1, 2, 2] = value
    message = r"NaN or infinity in 2 of 4 samples, first in sample 1. Remove them, or use torch.nan"
    with pytest.raises(InvalidBatchError, match=message):
        Batch(x=x, y=Y)


def test_nothing_to_collate():
    with pytest.raises(InvalidBatchError, match="Expected at least one batch to collate, but got"):
        Batch.collate([])


def test_batches_must_have_the_same_parts():
    message = "Expected all batches to have `mask` or none of them, but 2 of 3 have none"
    without = Batch(x=X, y=Y)
    with pytest.raises(InvalidBatchError, match=message):
        Batch.collate([without, Batch(x=X, y=Y, mask=MASK), without])


def looped(name, row, label):
    """The table of the docstring, one sample at a time."""
    others = [value for k, value in enumerate(row) if k != label]
    return {
        "loss": lambda: -math.log(probabilities(row)[label]),
        "logit": lambda: row[label],
        "log_probabilities": lambda: sum(math.log(p) for p in probabilities(row)),
        "logsumexp": lambda: math.log(sum(math.exp(value) for value in row)),
        "margin": lambda: row[label] - max(others),
    }[name]()


@pytest.fixture
def logits():
    return 3 * torch.randn(7, 4, dtype=torch.float64)


@pytest.fixture
def y():
    return torch.randint(4, (7,))


@pytest.mark.parametrize("name", NAMES)
def test_equals_a_loop(name, logits, y):
    pairs = zip(logits.tolist(), y.tolist(), strict=True)
    expected = torch.tensor([looped(name, row, label) for row, label in pairs]).double()
    values = Target(name)(logits, y)
    assert values.shape == (7,)
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_can_be_differentiated_twice(name, logits, y):
    logits.requires_grad_()
    target = Target(name)
    assert torch.autograd.gradcheck(lambda values: target(values, y), (logits,))
    assert torch.autograd.gradgradcheck(lambda values: target(values, y), (logits,))


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_not_see_the_others(name, logits, y):
    alone = torch.cat([Target(name)(logits[n : n + 1], y[n : n + 1]) for n in range(7)])
    torch.testing.assert_close(Target(name)(logits, y), alone)


def test_the_margin_is_positive_where_the_answer_is_right(logits, y):
    right = logits.argmax(dim=1) == y
    assert torch.equal(Target.MARGIN(logits, y) > 0, right)


def test_large_logits_overflow_nothing():
    logits = torch.tensor([[1e4, -1e4, 0.0]])
    for name in NAMES:
        assert torch.isfinite(Target(name)(logits, torch.tensor([1]))).all()


def test_a_name_is_as_good_as_the_target():
    assert Target("logit") is Target.LOGIT
    assert Target(Target.LOGIT) is Target.LOGIT
    assert Target.LOGIT == "logit"
    assert NAMES == ["loss", "logit", "log_probabilities", "logsumexp", "margin"]


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Expected a target, but got 'logits'. Did you mean"):
        Target("logits")
    with pytest.raises(UnknownNameError, match="got '3'. Known: log_probabilities, logit, logs"):
        Target(3)


def test_texts_are_padded_together_cut_and_moved_with_their_attention_mask():
    def text(*tokens):
        ones = torch.ones(1, len(tokens), dtype=torch.long)
        x, y = torch.tensor([tokens]), torch.tensor([0])
        return Batch(x=x, y=y, mask=torch.ones(1, len(tokens)), inputs={"attention_mask": ones})

    both = Batch.collate([text(5), text(6, 7, 8)], padding=9)
    assert both.x.tolist() == [[5, 9, 9], [6, 7, 8]]
    assert both.mask.tolist() == [[1, 0, 0], [1, 1, 1]]
    assert both.inputs["attention_mask"].tolist() == [[1, 0, 0], [1, 1, 1]]
    first = both[:1].trimmed()
    assert first.x.tolist() == [[5]] and first.inputs["attention_mask"].tolist() == [[1]]
    assert both.to("meta").inputs["attention_mask"].device.type == "meta"
    assert both.repeat(2).inputs["attention_mask"].shape == (4, 3)
    with pytest.raises(InvalidBatchError, match="all batches to have `attention_mask` or none"):
        Batch.collate(
            [text(5), Batch(x=torch.tensor([[5]]), y=torch.tensor([0]), mask=text(5).mask)]
        )


@pytest.mark.parametrize(
    ("inputs", "words"),
    [([1, 2], "tensors by name, but got list"), ({"a": torch.ones(3)}, "each of 4 samples, but")],
)
def test_other_inputs_are_refused(inputs, words):
    with pytest.raises(InvalidBatchError, match=words):
        Batch(x=X, y=Y, inputs=inputs)
