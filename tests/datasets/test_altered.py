import torch

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.datasets.dataset import TransformedDataset


class Numbered(TransformedDataset):
    """Puts each sample's place into its features."""

    def transform(self, batch, indices):
        return batch.replace(x=indices[:, None].float().expand_as(batch.x))

    def digest(self):
        return self.base.digest()


def test_samples_change_and_all_else_stays():
    base = InMemory(
        rr.Batch(
            x=torch.zeros(5, 2),
            y=torch.tensor([0, 1, 0, 1, 0]),
            mask=torch.ones(5, 2),
            group=torch.tensor([0, 0, 1, 1, 1]),
        )
    )
    data = Numbered(base)
    assert data.take(torch.tensor([3, 1])).x.tolist() == [[3, 3], [1, 1]]
    batches = list(data.batches([torch.tensor([4]), torch.tensor([0, 2])]))
    assert [batch.x[:, 0].tolist() for batch in batches] == [[4], [0, 2]]
    assert len(data) == 5
    assert data.labels is base.labels
    assert data.groups is base.groups
    assert data.has_masks
    assert data.card == base.card
