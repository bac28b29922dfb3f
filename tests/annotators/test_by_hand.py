import pytest
import torch

import rightreasons as rr
from rightreasons.annotators.hand_masks import annotated_by_hand, annotated_samples, one_channel
from rightreasons.datasets import InMemory
from rightreasons.errors import InvalidSettingError


def test_annotated_samples_alone(make_squares):
    data = make_squares(300, num_annotated=5)
    assert annotated_by_hand(data).nonzero().flatten().tolist() == [0, 1, 2, 3, 4]
    samples = annotated_samples(data)
    assert torch.equal(samples.x, data.batch.x[:5])
    assert torch.equal(samples.mask, data.batch.mask[:5])
    assert samples.y.tolist() == [0] * 5


def test_masks_of_other_shapes_get_one_channel_and_full_size():
    x = torch.rand(2, 3, 4, 4)
    mask = torch.zeros(2, 3, 4, 1)
    mask[0, 2, 1] = 1
    full = one_channel(rr.Batch(x=x, y=torch.tensor([0, 1]), mask=mask))
    assert full.shape == (2, 1, 4, 4)
    assert full[0, 0, 1].tolist() == [1] * 4 and full.sum() == 4
    with pytest.raises(InvalidSettingError, match="Expected a batch with a `mask`"):
        one_channel(rr.Batch(x=x, y=torch.tensor([0, 1])))


@pytest.mark.parametrize("number", [0, 1])
def test_too_few(make_squares, number):
    with pytest.raises(
        InvalidSettingError, match=f"at least 2 annotated samples.*has {number} of 24. Annotate"
    ):
        annotated_samples(make_squares(num_annotated=number))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_nothing_to_learn(make_squares, value):
    data = make_squares()
    flat = InMemory(data.batch.replace(mask=torch.full_like(data.batch.mask, value)))
    with pytest.raises(InvalidSettingError, match=f"all 24 masks .* are {value:g} everywhere"):
        annotated_samples(flat)


def test_data_without_masks_or_images_are_refused(make_squares):
    batch = make_squares().batch
    with pytest.raises(InvalidSettingError, match="Expected data with masks of at least 2 samples"):
        annotated_by_hand(InMemory(batch.replace(mask=None, annotated=None)))
    table = InMemory(rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    with pytest.raises(InvalidSettingError, match=r"Expected images of shape \(C, H, W\)"):
        annotated_by_hand(table)
