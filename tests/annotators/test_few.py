import pytest
import torch

from rightreasons.annotators import few_places, with_few
from rightreasons.datasets import Augmented
from rightreasons.errors import InvalidSettingError

LABELS = torch.tensor([0, 1, 2] * 10)
ANNOTATED = torch.arange(30) < 24


def test_so_many_of_each_class_and_fewer_among_more():
    few, more = (few_places(LABELS, ANNOTATED, number, seed=4) for number in (2, 5))
    assert torch.bincount(LABELS[few]).tolist() == [2, 2, 2]
    assert set(few.tolist()) < set(more.tolist())
    assert ANNOTATED[more].all()
    assert few.tolist() == sorted(few.tolist())
    assert not torch.equal(few, few_places(LABELS, ANNOTATED, 2, seed=5))
    assert len(few_places(LABELS, ANNOTATED, 100)) == 24


@pytest.mark.parametrize("augment", [False, True])
def test_other_masks_are_gone(make_squares, augment):
    data = make_squares()
    few = with_few(Augmented(data, flip=True) if augment else data, torch.tensor([3, 8]))
    batch = few.take(torch.arange(24))
    assert batch.annotated.nonzero().flatten().tolist() == [3, 8]
    assert batch.guided.nonzero().flatten().tolist() == [3, 8]
    assert torch.equal(batch.mask[3], data.batch.mask[3])
    assert isinstance(few, Augmented) == augment
    assert few.digest() != data.digest()


def test_none_is_refused():
    with pytest.raises(
        InvalidSettingError, match="Expected `num_annotations` to be a whole number"
    ):
        few_places(LABELS, ANNOTATED, 0)
