"""Properties of whole images that may tell the label, and how to give one image another's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.audit.patches import import_sklearn
from rightreasons.audit.regions import border_ring
from rightreasons.datasets.splitting import stratified_split

__all__ = [
    "TRANSPLANTS",
    "image_properties",
    "predict_by_column",
    "standardise",
    "transplant_property",
]

BLOCK = 8
LEAST_SIDE = 16  # below, an image has too few blocks and no border to speak of
FOLDS, DEPTH, LEAF_SHARE = 5, 4, 100
MOST_VALUES = 64  # of a column that counts as one of categories

TRANSPLANTS: Mapping[str, tuple[str, ...]] = {
    "colour": ("brightness", "red against green", "blue against yellow", "saturation"),
    "contrast": ("contrast",),
    "detail": ("sharpness", "JPEG blocks"),
    "border": ("brightness of the border", "contrast of the border"),
}
"""What can be given to another image, and the properties that it changes."""

Numbers = NDArray[np.int64]


def image_properties(x: Tensor) -> dict[str, Tensor]:
    """Measure properties of whole images ``(N, C, H, W)``: ``(N,)`` each, by name.

    Example:
        >>> sorted(image_properties(torch.rand(2, 1, 8, 8)))
        ['brightness', 'contrast', 'sharpness']
    """
    grey = x.mean(dim=1)
    values = {"brightness": grey.mean(dim=(1, 2)), "contrast": grey.flatten(1).std(dim=1)}
    if x.shape[1] == 3:
        red, green, blue = x.mean(dim=(2, 3)).unbind(dim=1)
        values["red against green"] = red - green
        values["blue against yellow"] = blue - (red + green) / 2
        values["saturation"] = (x.amax(dim=1) - x.amin(dim=1)).mean(dim=(1, 2))
    down, right = grey.diff(dim=1).abs(), grey.diff(dim=2).abs()
    steps = (down.mean(dim=(1, 2)) + right.mean(dim=(1, 2))) / 2
    values["sharpness"] = (steps + 1e-4).log()
    if min(x.shape[2:]) >= LEAST_SIDE:
        at_edges = down[:, BLOCK - 1 :: BLOCK].mean(dim=(1, 2)) + right[
            :, :, BLOCK - 1 :: BLOCK
        ].mean(dim=(1, 2))
        values["JPEG blocks"] = ((at_edges / 2 + 1e-4) / (steps + 1e-4)).log()
        ring = border_ring(x)[0, 0].bool()
        values["brightness of the border"] = grey[:, ring].mean(dim=1)
        values["contrast of the border"] = grey[:, ring].std(dim=1)
    return values


def predict_by_column(
    column: NDArray[np.float64], labels: Tensor, *, stream: np.random.Generator, seed: int
) -> Numbers:
    """Predict the label from one number of each sample, by a small tree, out of fold.

    A tree of fixed depth cannot tell many values apart. Where a column has few values, the tree
    may have two leaves for each, so that each value can stand alone.

    Args:
        column: ``(N,)`` numbers; NaN is missing.
        labels: Labels ``(N,)``.
        stream: Random numbers for the folds.
        seed: Random seed of the trees.
    """
    y = labels.numpy()
    values = np.column_stack([np.nan_to_num(column), np.isnan(column)])
    num_values = len(np.unique(column[~np.isnan(column)]))
    by_value = 2**DEPTH // 2 < num_values <= MOST_VALUES
    predicted = np.zeros(len(y), dtype=np.int64)
    sizes = [len(y) // FOLDS] * (FOLDS - 1)
    for rows in stratified_split(labels, sizes=sizes, stream=stream):
        held = np.zeros(len(y), dtype=bool)
        held[rows.numpy()] = True
        tree = import_sklearn().tree.DecisionTreeClassifier(
            max_depth=None if by_value else DEPTH,
            max_leaf_nodes=2 * num_values if by_value else None,
            min_samples_leaf=max(2, len(y) // LEAF_SHARE),
            class_weight="balanced",
            random_state=seed,
        )
        predicted[held] = tree.fit(values[~held], y[~held]).predict(values[held])
    return predicted


def standardise(x: Tensor) -> Tensor:
    """Give all images the same mean and contrast in each channel, so that patches alone differ.

    Example:
        >>> standardise(torch.rand(2, 3, 8, 8)).mean().abs() < 1e-5
        tensor(True)
    """
    mean, deviation = x.mean(dim=(2, 3), keepdim=True), x.std(dim=(2, 3), keepdim=True)
    return (x - mean) / deviation.clamp(min=1e-3)


def transplant_property(
    kind: str, x: Tensor, donor: Tensor, valid_range: tuple[float, float]
) -> Tensor:
    """Give images a property of others.

    - ``colour``: the mean and the standard deviation of each channel.
    - ``contrast``: the standard deviation of the grey values.
    - ``detail``: the distribution of each coefficient of the cosine transform in blocks of 8 × 8,
      which JPEG stores. It changes sharpness, noise and the traces of compression.
    - ``border``: the pixels of the outer frame.

    Args:
        kind: One of `TRANSPLANTS`.
        x: Images ``(N, C, H, W)``.
        donor: Images to take the property from, ``(N, C, H, W)``.
        valid_range: Smallest and largest value of a pixel.
    """
    if kind == "colour":
        mean, deviation = donor.mean(dim=(2, 3), keepdim=True), donor.std(dim=(2, 3), keepdim=True)
        changed = standardise(x) * deviation + mean
    elif kind == "contrast":
        sizes = [one.mean(dim=1).flatten(1).std(dim=1) for one in (x, donor)]
        gain = (sizes[1] / sizes[0].clamp(min=1e-3))[:, None, None, None]
        mean = x.mean(dim=(2, 3), keepdim=True)
        changed = mean + (x - mean) * gain
    elif kind == "border":
        changed = torch.lerp(x, donor, border_ring(x).expand_as(x))
    else:
        changed = _match_blocks(x, donor)
    return changed.clamp(*valid_range)


def _match_blocks(x: Tensor, donor: Tensor) -> Tensor:
    height, width = x.shape[2:]
    padding = (0, -width % BLOCK, 0, -height % BLOCK)
    to_luma = _luma().to(x) if x.shape[1] == 3 else torch.eye(x.shape[1]).to(x)
    ours, theirs = (
        _cosine_transform(
            torch.einsum("kc,nchw->nkhw", to_luma, functional.pad(one, padding, mode="replicate"))
        )
        for one in (x, donor)
    )
    # By rank: the k-th smallest value of a coefficient becomes the donor's, zeros included.
    matched = torch.empty_like(ours).scatter_(
        2, ours.argsort(dim=2, stable=True), theirs.sort(2)[0]
    )
    matched[:, :, :, 0] = ours[:, :, :, 0]  # the mean of a block is not detail
    blocks = matched @ _cosines().to(x)
    folded = functional.fold(
        blocks.transpose(2, 3).flatten(1, 2),
        (height + padding[3], width + padding[1]),
        BLOCK,
        stride=BLOCK,
    )
    changed = torch.einsum("ck,nkhw->nchw", torch.linalg.inv(to_luma), folded)
    return changed[:, :, :height, :width]


def _luma() -> Tensor:
    """Red, green and blue to brightness and two colours, as JPEG has them: ``(3, 3)``."""
    return torch.tensor([[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]])


def _cosine_transform(x: Tensor) -> Tensor:
    """Coefficients of all blocks: ``(N, C, blocks, 64)``."""
    num, channels = x.shape[:2]
    blocks = functional.unfold(x, BLOCK, stride=BLOCK).reshape(num, channels, BLOCK**2, -1)
    return blocks.transpose(2, 3) @ _cosines().to(x).T


@cache
def _cosines() -> Tensor:
    """The orthonormal cosine transform of 8 × 8 pixels: ``(64, 64)``, one coefficient a row."""
    places = torch.arange(BLOCK, dtype=torch.float64)
    one = torch.cos(math.pi / BLOCK * (places[None] + 0.5) * places[:, None])
    one *= math.sqrt(2 / BLOCK)
    one[0] /= math.sqrt(2)
    return torch.kron(one, one).float()
