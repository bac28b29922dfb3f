"""Dealing samples out to training, validation and test, by shares."""

import numpy as np
from torch import Tensor

from rightreasons.datasets.splitting import stratified
from rightreasons.errors import InvalidSettingError
from rightreasons.setting import checked_share

__all__ = ["dealt_out"]


def dealt_out(
    strata: Tensor, *, test_share: float, validation_share: float, stream: np.random.Generator
) -> list[str]:
    """Name the split of each sample: one permutation, so no sample is in two.

    Args:
        strata: ``(N,)`` integers; every split gets the same share of each.
        test_share: Of the samples, above 0.
        validation_share: Of the samples, from 0.
        stream: Where the random order comes from.

    Returns:
        ``"train"``, ``"val"`` or ``"test"`` for each sample.

    Example:
        >>> import torch
        >>> strata, stream = torch.tensor([0] * 5 + [1] * 5), np.random.default_rng(0)
        >>> names = dealt_out(strata, test_share=0.2, validation_share=0.0, stream=stream)
        >>> sorted(names)[:4], names[:5].count("test")
        (['test', 'test', 'train', 'train'], 1)
    """
    checked_share("test_share", test_share)
    checked_share("validation_share", validation_share)
    sizes = [round(test_share * len(strata)), round(validation_share * len(strata))]
    if not 0 < sizes[0] <= sum(sizes) < len(strata):
        raise InvalidSettingError(
            f"Expected `test_share` and `validation_share` to leave samples to train and to test "
            f"on, but got {test_share:g} and {validation_share:g} of {len(strata)} samples."
        )
    names = ["train"] * len(strata)
    test, val, _ = stratified(strata, sizes=sizes, stream=stream)
    for split, places in (("test", test), ("val", val)):
        for place in places.tolist():
            names[place] = split
    return names
