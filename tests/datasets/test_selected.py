import pytest
import torch

from rightreasons.datasets import Augmented, InMemory, folder
from rightreasons.datasets.wrappers import Selected, select

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
PLACES = torch.tensor([5, 0, 3])


@pytest.mark.parametrize("in_memory", [True, False])
def test_samples_are_numbered_anew(pets, in_memory):
    base = folder(pets, mask_polarity="irrelevant", in_memory=in_memory, workers=2).train
    data = select(base, PLACES)
    assert isinstance(data, InMemory if in_memory else Selected)
    assert len(data) == 3
    whole = base.take(PLACES)
    rows = [torch.tensor([2, 1]), torch.tensor([0])]
    for batch, some in zip(data.batches(rows), rows, strict=True):
        assert torch.equal(batch.index, some)
        assert torch.equal(batch.x, whole.x[some])
        assert torch.equal(batch.mask, whole.mask[some])
        assert torch.equal(batch.annotated, whole.annotated[some])
        assert torch.equal(batch.group, whole.group[some])
    assert torch.equal(data.take(torch.tensor([1])).x, whole.x[1:2])
    assert torch.equal(data.labels, base.labels[PLACES])
    assert torch.equal(data.groups, base.groups[PLACES])
    assert data.has_masks
    assert data.card.train_group_counts == tuple(torch.bincount(data.groups, minlength=2).tolist())
    assert data.digest() not in (base.digest(), select(base, PLACES[:2]).digest())


def test_augmented_data_are_drawn_anew(pets):
    base = Augmented(folder(pets, mask_polarity="irrelevant").train, flip=True, crop=2)
    data = Selected(base, PLACES)
    rows = torch.arange(3)
    assert torch.equal(data.at_epoch(1).take(rows).x, base.at_epoch(1).take(PLACES).x)
    assert not torch.equal(data.at_epoch(1).take(rows).x, data.take(rows).x)
