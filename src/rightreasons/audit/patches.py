"""Small patches that tell the label: a sliding net, and a small tree for each cell of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.audit.statistics import label_strength
from rightreasons.core.rng import drawn_from, random_stream
from rightreasons.datasets.splitting import stratified_split
from rightreasons.errors import MissingExtraError

__all__ = [
    "SMALLEST_PATCH",
    "PatchSearch",
    "grid_search",
    "import_sklearn",
    "patch_side",
    "sliding_search",
]

SIDE_SHARE = 0.2  # a patch has 4 % of the pixels
SMALLEST_PATCH = 2
FITTED_SHARE = 0.7
CHANNELS = 32
EPOCHS, PATIENCE, BATCH = 25, 4, 50
LEAST_STEPS = 300  # few images get more epochs
SHARPNESS = 3.0  # how near the smooth maximum over places is to the maximum
FOLDS, DEPTH, CELL_PIXELS = 5, 6, 4

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class PatchSearch:
    """What a search for patches found.

    Args:
        kind: ``"sliding"`` or ``"grid"``.
        strength: How well one patch of an image tells its label, held out; 1 is always.
        predicted: Predicted class of each image, ``(N,)``.
        place: Row and column of the centre of each image's surest patch, ``(N, 2)``.
        confidence: Confidence of each prediction, ``(N,)``.
        held_out: Indices of the images whose predictions are held out.
        members: Held-out predictions of each member of the search, ``(len(held_out), M)``.
    """

    kind: str
    strength: float
    predicted: Numbers
    place: Numbers
    confidence: NDArray[np.float64]
    held_out: Numbers
    members: Numbers


def import_sklearn() -> Any:
    """Import scikit-learn, or raise an error that says how to install it."""
    try:
        import sklearn.cluster
        import sklearn.tree
    except ImportError:
        raise MissingExtraError("The audit", "data") from None
    return sklearn


def patch_side(height: int, width: int) -> int:
    """Side of a patch with at most 5 % of the pixels of an image.

    Example:
        >>> patch_side(64, 64), patch_side(8, 8)
        (13, 2)
    """
    return max(SMALLEST_PATCH, round(SIDE_SHARE * min(height, width)))


class _PatchNet(nn.Module):
    """Class scores of every patch of an image: one convolution, then two layers of 1 × 1."""

    def __init__(self, channels: int, classes: int, side: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, CHANNELS, side, stride=max(1, round(side / 4)))
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.last = nn.Conv2d(CHANNELS, classes, 1)

    @override
    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.second(functional.relu(self.first(x))))
        scores: Tensor = self.last(x)  # (N, K, h, w)
        return scores


def sliding_search(x: Tensor, y: Tensor, num_classes: int, *, seed: int) -> PatchSearch:
    """Fit a net that sees one patch at a time, wherever it lies.

    An image's score is a smooth maximum over its patches. The net is fitted on 70 % of the images
    and stops when the loss of the others rises.

    Args:
        x: Images ``(N, C, H, W)``.
        y: Labels ``(N,)``.
        num_classes: Number of classes.
        seed: Random seed for the split, the weights and the batches.
    """
    stream = random_stream(seed, "audit", "sliding")
    fitted, rest = stratified_split(y, sizes=[round(FITTED_SHARE * len(y))], stream=stream)
    side = patch_side(*x.shape[2:])
    mean, deviation = x.mean(dim=(0, 2, 3), keepdim=True), x.std(dim=(0, 2, 3), keepdim=True)
    scaled = (x - mean) / deviation.clamp(min=1e-6)
    counts = torch.bincount(y[fitted], minlength=num_classes).clamp(min=1)
    weights = len(fitted) / (num_classes * counts)
    with drawn_from(seed, 11):
        net = _PatchNet(x.shape[1], num_classes, side)
        _fit(net, scaled, y, fitted, rest, weights.float(), stream)
    predicted, place, confidence = _read(net, scaled, side)
    held_out = rest.numpy()
    return PatchSearch(
        kind="sliding",
        strength=label_strength(predicted[held_out], y.numpy()[held_out]),
        predicted=predicted,
        place=place,
        confidence=confidence,
        held_out=held_out,
        members=predicted[held_out][:, None],
    )


def _fit(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    fitted: Tensor,
    rest: Tensor,
    weights: Tensor,
    stream: np.random.Generator,
) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    best, waited, kept = float("inf"), 0, {}
    factor = max(1, round(LEAST_STEPS * BATCH / (EPOCHS * len(fitted))))
    for epoch in range(factor * EPOCHS):
        if epoch and waited > factor * PATIENCE:
            break
        order = fitted[torch.from_numpy(stream.permutation(len(fitted)))]
        for rows in torch.split(order, BATCH):
            loss = functional.cross_entropy(_over_places(net(x[rows])), y[rows], weights)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            parts = [_over_places(net(x[rows])) for rows in torch.split(rest, 4 * BATCH)]
            value = float(functional.cross_entropy(torch.cat(parts), y[rest], weights))
        waited = 0 if value < best else waited + 1
        if value < best:
            best, kept = value, {name: one.clone() for name, one in net.state_dict().items()}
    if kept:
        net.load_state_dict(kept)


def _over_places(scores: Tensor) -> Tensor:
    """The smooth maximum over places, ``(N, K, h, w) -> (N, K)``."""
    flat = SHARPNESS * scores.flatten(2)
    return (torch.logsumexp(flat, dim=2) - float(np.log(flat.shape[2]))) / SHARPNESS


@torch.no_grad()
def _read(net: _PatchNet, x: Tensor, side: int) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    predicted, places, confidences = [], [], []
    step = net.first.stride[0]
    for part in torch.split(x, 4 * BATCH):
        scores = net(part)
        probability, label = _over_places(scores).softmax(dim=1).max(dim=1)
        evidence = scores.log_softmax(dim=1).gather(
            1, label[:, None, None, None].expand(-1, 1, *scores.shape[2:])
        ) + scores.gather(1, label[:, None, None, None].expand(-1, 1, *scores.shape[2:]))
        top = evidence.flatten(1).argmax(dim=1)
        rows, columns = top // scores.shape[3], top % scores.shape[3]
        places.append(torch.stack([rows, columns], dim=1) * step + side // 2)
        predicted.append(label)
        confidences.append(probability.double())
    return torch.cat(predicted).numpy(), torch.cat(places).numpy(), torch.cat(confidences).numpy()


def grid_search(x: Tensor, y: Tensor, num_classes: int, *, seed: int) -> PatchSearch:
    """Fit a small tree to each cell of a grid, out of fold; the surest cell of an image counts.

    Args:
        x: Images ``(N, C, H, W)``.
        y: Labels ``(N,)``.
        num_classes: Number of classes.
        seed: Random seed for the folds.
    """
    stream = random_stream(seed, "audit", "grid")
    labels = y.numpy()
    fold = _folds(y, stream)
    side, (height, width) = patch_side(*x.shape[2:]), x.shape[2:]
    corners = [(top, left) for top in _starts(height, side) for left in _starts(width, side)]
    shares = np.zeros((len(corners), len(y), num_classes))
    for number, (top, left) in enumerate(corners):
        cell = x[:, :, top : top + side, left : left + side]
        small = functional.adaptive_avg_pool2d(cell, min(side, CELL_PIXELS)).flatten(1).numpy()
        for held in range(FOLDS):
            inside, outside = fold == held, fold != held
            shares[number, inside] = _leaf_shares(
                small[outside], labels[outside], small[inside], num_classes, seed
            )
    prior = np.bincount(labels, minlength=num_classes) / len(labels)
    gain = shares / np.maximum(prior, 1e-12) / num_classes  # as if classes were equally frequent
    gain /= gain.sum(axis=2, keepdims=True)
    by_cell = gain.argmax(axis=2)  # (cells, N)
    surest = gain.max(axis=2).argmax(axis=0)
    everyone = np.arange(len(labels))
    predicted = by_cell[surest, everyone]
    centres = np.array(corners) + side // 2
    alone = [label_strength(one, labels) for one in by_cell]
    best = int(np.argmax(alone))
    strength = label_strength(predicted, labels)
    if alone[best] > strength:  # one fixed place tells more than the surest of all
        surest, predicted, strength = np.full(len(labels), best), by_cell[best], alone[best]
    return PatchSearch(
        kind="grid",
        strength=strength,
        predicted=predicted,
        place=centres[surest],
        confidence=gain[surest, everyone].max(axis=1),
        held_out=everyone,
        members=np.column_stack([predicted, *by_cell]),
    )


def _folds(y: Tensor, stream: np.random.Generator) -> Numbers:
    sizes = [len(y) // FOLDS] * (FOLDS - 1)
    fold = np.empty(len(y), dtype=np.int64)
    for number, rows in enumerate(stratified_split(y, sizes=sizes, stream=stream)):
        fold[rows.numpy()] = number
    return fold


def _starts(length: int, side: int) -> list[int]:
    """Where cells begin along a side: they cover it, and the last one ends with it."""
    num = -(-length // side)
    return np.linspace(0, length - side, num).round().astype(int).tolist() if num > 1 else [0]


def _leaf_shares(
    x: NDArray[np.float32], y: Numbers, asked: NDArray[np.float32], num_classes: int, seed: int
) -> NDArray[np.float64]:
    """The share of each class in the leaf that a sample falls into; a usual sample counts too."""
    tree = import_sklearn().tree.DecisionTreeClassifier(
        max_depth=DEPTH,
        min_samples_leaf=max(3, len(x) // 200),
        class_weight="balanced",
        random_state=seed,
    )
    tree.fit(x, y)
    usual = np.bincount(y, minlength=num_classes) / len(y)
    counts = np.tile(usual, (tree.tree_.node_count, 1))
    np.add.at(counts, (tree.apply(x), y), 1.0)
    leaf = counts[tree.apply(asked)]
    return np.asarray(leaf / leaf.sum(axis=1, keepdims=True))
