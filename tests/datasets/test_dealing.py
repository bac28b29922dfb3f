import numpy as np
import pytest
import torch

from rightreasons.datasets.splitting import assign_splits
from rightreasons.errors import InvalidSettingError

STRATA = torch.tensor([0] * 60 + [1] * 40)


def dealt(**shares):
    return assign_splits(STRATA, stream=np.random.default_rng(0), **shares)


def test_every_split_gets_its_share_of_each_stratum():
    names = dealt(test_share=0.2, validation_share=0.1)
    assert [names.count(name) for name in ("train", "val", "test")] == [70, 10, 20]
    assert [names[:60].count(name) for name in ("train", "val", "test")] == [42, 6, 12]


@pytest.mark.parametrize(
    ("test_share", "validation_share"), [(0.0, 0.1), (0.001, 0.0), (0.6, 0.4), (0.9, 0.2)]
)
def test_training_and_test_need_samples(test_share, validation_share):
    with pytest.raises(InvalidSettingError, match="to leave samples to train and to test on, but"):
        dealt(test_share=test_share, validation_share=validation_share)


@pytest.mark.parametrize("name", ["test_share", "validation_share"])
def test_shares_are_numbers(name):
    with pytest.raises(
        InvalidSettingError, match=f"Expected `{name}` to be a number from 0 to bel"
    ):
        dealt(**{"test_share": 0.1, "validation_share": 0.1, name: "half"})
