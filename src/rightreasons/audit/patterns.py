"""Patterns: what the surest patches of a class have in common, and where else it occurs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.audit.patches import import_sklearn, patch_side

__all__ = ["Match", "Pattern", "find_patterns", "match_patterns"]

MOST_PATTERNS = 2  # of a class
LEAST_MEMBERS = 5
LEAST_SHARE = 0.05
MOST_CROPS = 400
MOST_CLUSTERS = 3
MOST_IMAGES = 150
THUMBNAIL = 5
PLACE_WEIGHT = 0.5
FLOOR = 0.03  # of the range: smaller differences between pixels are noise
INFORMATIVE, MOST_INFORMATION = 0.7, 8.0  # nats that a pixel tells, at least and at most
PEAK_SHARE = 0.25
MOST_AREA = 0.05
ROUNDS = 3
INSIDE = 0.95
CHUNK = 100


@dataclass(frozen=True)
class Pattern:
    """A small picture that tells a class.

    Args:
        label: The class.
        mean: The picture, ``(C, h, w)``.
        mask: How much each pixel belongs to it, ``(h, w)`` from 0 to 1.
        threshold: The largest mean squared distance at which it is present.
        rate: How much more often it is present in images of its class than in others.
        medoid: Index of the image that shows it best.
    """

    label: int
    mean: Tensor
    mask: Tensor
    threshold: float
    rate: float
    medoid: int

    def area(self, x: Tensor) -> float:
        """The share of the pixels of images ``(N, C, H, W)`` that it covers."""
        return float(self.mask.sum()) / (x.shape[2] * x.shape[3])


@dataclass(frozen=True)
class Match:
    """Where patterns are in images.

    Args:
        pattern: Number of the pattern in each image, ``(N,)``; -1 if none is present.
        distance: Distance to the nearest pattern over its threshold, ``(N,)``.
        mask: Soft masks of the patterns, ``(N, 1, H, W)``.
    """

    pattern: Tensor
    distance: Tensor
    mask: Tensor


def find_patterns(
    x: Tensor, y: Tensor, place: Tensor, usable: Tensor, *, span: float
) -> list[Pattern]:
    """Find what the patches of each class have in common.

    Patches are clustered by content and place (HDBSCAN). The patch in the middle of the largest
    cluster is searched for in all images of the class, and the copies are laid over each other. A
    pixel belongs to the pattern if its values there differ from those of other classes at the same
    places, by the Kullback-Leibler divergence of two normal distributions. Images in which the
    pattern is present are set aside, and the search goes on with the rest.

    Args:
        x: Images ``(N, C, H, W)``.
        y: Labels ``(N,)``.
        place: Row and column of the middle of each image's patch, ``(N, 2)``.
        usable: Whether the patch of an image may be used, ``(N,)``.
        span: Difference of the largest and the smallest value of a pixel.
    """
    if len(torch.unique(y)) < 2:  # such as answers that are all the same: nothing to compare
        return []
    side = patch_side(*x.shape[2:])
    patterns: list[Pattern] = []
    labels = torch.unique(y).tolist()
    for label in labels if len(labels) > 1 else []:  # a single class has nothing to differ from
        left = usable & (y == label)
        least = max(LEAST_MEMBERS, LEAST_SHARE * int((y == label).sum()))
        copies = [_Copies(x, _some(rows)) for rows in _own_and_others(y, label)]
        for _ in range(MOST_PATTERNS):
            rows = left.nonzero()[:, 0]
            if len(rows) < least:
                break
            some = rows[:MOST_CROPS]
            built = [
                _build(x, y, place, some[members], label, copies, side, span)
                for members in _clusters(x, place, some, side)
            ]
            best = max(built, key=lambda one: one.rate)
            left[rows[match_patterns([best], x[rows]).pattern >= 0]] = False
            if best.rate < LEAST_SHARE or int(left.sum()) == len(rows):
                break
            patterns.append(best)
    top = max((one.rate for one in patterns), default=0.0)
    return [one for one in patterns if one.rate >= top / 2]


def match_patterns(patterns: list[Pattern], x: Tensor) -> Match:
    """Search for patterns at all places of images ``(N, C, H, W)``."""
    parts = [_match(patterns, part) for part in torch.split(x, CHUNK)]
    return Match(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def _match(patterns: list[Pattern], x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    spectrum = _Spectrum(x)
    nearest = torch.full((len(x),), torch.inf)
    chosen = torch.zeros(len(x), dtype=torch.long)
    corner = torch.zeros(len(x), 2, dtype=torch.long)
    for number, pattern in enumerate(patterns):
        where, distance = spectrum.best_corners(pattern.mean, pattern.mask)
        value = distance / max(pattern.threshold, 1e-12)
        closer = value < nearest
        nearest = torch.where(closer, value, nearest)
        chosen = torch.where(closer, number, chosen)
        corner = torch.where(closer[:, None], where, corner)
    present = nearest <= 1
    mask = torch.zeros(len(x), 1, *x.shape[2:])
    for row in present.nonzero()[:, 0].tolist():
        _lay(mask[row, 0], patterns[int(chosen[row])].mask, *corner[row].tolist())
    return torch.where(present, chosen, -1), nearest, mask


class _Spectrum:
    """Fourier transforms of images, with which a pattern is compared to every place at once.

    Args:
        x: Images ``(N, C, H, W)``.
    """

    def __init__(self, x: Tensor) -> None:
        self.shape = x.shape
        reach = 2 * patch_side(*x.shape[2:]) + 1
        self.size = [_fast_length(side + reach) for side in x.shape[2:]]
        planes = torch.cat([x, x.square().sum(dim=1, keepdim=True)], dim=1)
        self.planes = torch.fft.rfft2(planes, s=self.size)

    def best_corners(self, mean: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Where the upper left corner of a pattern lies best, ``(N, 2)``, and its distance.

        The distance is the mean squared difference, weighted by the mask. A place may reach over
        the edge by a twentieth of the pattern.
        """
        height, width = mask.shape
        num, channels, rows, columns = self.shape
        weight = mask / channels
        kernels = torch.cat([-2 * weight * mean, weight[None]])
        spectra = torch.fft.rfft2(kernels, s=self.size).conj()
        # Sum over channels before the way back: one inverse transform a pattern.
        moved = torch.fft.irfft2((self.planes * spectra).sum(dim=1), s=self.size)
        edges = torch.zeros(1, rows, columns) + 1
        inside = torch.fft.rfft2(edges, s=self.size)
        constant = torch.stack([(weight * mean.square()).sum(dim=0), mask])
        own, total = torch.fft.irfft2(
            inside * torch.fft.rfft2(constant, s=self.size).conj(), s=self.size
        )
        distance = (moved + own).clamp(min=0) / total.clamp(min=1e-6)
        whole = total >= INSIDE * mask.sum()
        value, place = torch.where(whole, distance, torch.inf).flatten(1).min(dim=1)
        top, left = place // self.size[1], place % self.size[1]
        # The transform is periodic: the last rows and columns are places before the first.
        top = torch.where(top >= rows, top - self.size[0], top)
        left = torch.where(left >= columns, left - self.size[1], left)
        return torch.stack([top, left], dim=1), value

    def best_middles(self, mean: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The middle of the best place of a pattern in each image, and its distance."""
        corner, distance = self.best_corners(mean, mask)
        return corner + torch.tensor([side // 2 for side in mask.shape]), distance


def _fast_length(length: int) -> int:
    """The next number with no prime factor above 5, of which transforms are fast."""
    while True:
        left = length
        for factor in (2, 3, 5):
            while left % factor == 0:
                left //= factor
        if left == 1:
            return length
        length += 1


def _lay(canvas: Tensor, mask: Tensor, top: int, left: int) -> None:
    """Write a mask into a picture at a place that may reach over its edges."""
    height, width = canvas.shape
    rows = slice(max(0, top), min(height, top + mask.shape[0]))
    columns = slice(max(0, left), min(width, left + mask.shape[1]))
    canvas[rows, columns] = mask[
        rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
    ]


def _clusters(x: Tensor, place: Tensor, rows: Tensor, side: int) -> list[NDArray[np.int64]]:
    """Members of the largest clusters of patches, the most central one of each first."""
    crops = _crops(x, rows, place[rows], side)[0]
    content = functional.adaptive_avg_pool2d(crops, THUMBNAIL).flatten(1)
    content = content / content.std().clamp(min=1e-6)
    where = PLACE_WEIGHT * place[rows] / torch.tensor(x.shape[2:])
    features = torch.cat([content, where * content.shape[1] ** 0.5], dim=1).numpy()
    cluster = import_sklearn().cluster.HDBSCAN(
        min_cluster_size=max(LEAST_MEMBERS, len(rows) // 10), copy=True
    )
    labels = cluster.fit_predict(features)
    numbers, counts = np.unique(labels[labels >= 0], return_counts=True)
    kept = numbers[np.argsort(-counts, kind="stable")][:MOST_CLUSTERS]
    groups = [np.flatnonzero(labels == number) for number in kept] or [np.arange(len(rows))]
    ordered = []
    for members in groups:
        inside = torch.from_numpy(features[members])
        far = torch.cdist(inside, inside, p=1).sum(dim=1).numpy()
        ordered.append(members[np.argsort(far, kind="stable")])
    return ordered


class _Copies:
    """Some images, with the transforms that all patterns of a class are compared to.

    Args:
        x: All images ``(N, C, H, W)``.
        rows: Rows of the images.
    """

    def __init__(self, x: Tensor, rows: Tensor) -> None:
        self.rows, self.spectrum = rows, _Spectrum(x[rows])


def _own_and_others(y: Tensor, label: int) -> tuple[Tensor, Tensor]:
    return (y == label).nonzero()[:, 0], (y != label).nonzero()[:, 0]


def _build(
    x: Tensor,
    y: Tensor,
    place: Tensor,
    members: Tensor,
    label: int,
    copies: list[_Copies],
    side: int,
    span: float,
) -> Pattern:
    """Lay copies of the most central patch over each other and keep what they share."""
    (own, others), spectra = (one.rows for one in copies), [one.spectrum for one in copies]
    medoid = int(members[0])
    window, valid = _crops(x, members[:1], place[members[:1]], side)
    mean, mask = window[0], valid[0]
    share = len(members) / max(1, int((y == label).sum()))
    num = min(len(own), max(LEAST_MEMBERS, round(share * len(own))))
    for _ in range(ROUNDS):
        where, distance = spectra[0].best_middles(mean, mask)
        best = distance.argsort()[:num]
        middle = float(distance[best[len(best) // 2]])
        best = best[distance[best] <= 4 * middle + (FLOOR * span) ** 2]
        crops, valid = _crops(x, own[best], where[best], 2 * side + 1)
        rows = others[torch.arange(len(best)) % len(others)]
        theirs, valid_theirs = _crops(x, rows, where[best], 2 * side + 1)
        made = _shared_part(
            crops,
            valid,
            theirs,
            valid_theirs,
            floor=FLOOR * span,
            most=max(1, MOST_AREA * x.shape[2] * x.shape[3]),
        )
        if made is None:
            break
        mean, mask = made
    near, far = (one.best_corners(mean, mask)[1].double() for one in spectra)
    threshold, rate = _best_threshold(near, far)
    return Pattern(label, mean, mask, threshold, rate, medoid)


def _some(rows: Tensor) -> Tensor:
    """At most so many rows, evenly spread."""
    return rows[torch.linspace(0, len(rows) - 1, min(len(rows), MOST_IMAGES)).long()]


def _crops(x: Tensor, rows: Tensor, centres: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Windows around places, ``(n, C, side, side)``, and which of their pixels are in the image."""
    half = side // 2
    height, width = x.shape[2:]
    steps = torch.arange(side) - half
    down, right = centres[:, :1] + steps, centres[:, 1:] + steps  # (n, side)
    valid = ((down >= 0) & (down < height))[:, :, None] & ((right >= 0) & (right < width))[:, None]
    down, right = down.clamp(0, height - 1), right.clamp(0, width - 1)
    crops = x[rows[:, None, None], :, down[:, :, None], right[:, None, :]].permute(0, 3, 1, 2)
    return crops, valid.to(x)


def _shared_part(
    crops: Tensor,
    valid: Tensor,
    others: Tensor,
    valid_others: Tensor,
    *,
    floor: float,
    most: float,
) -> tuple[Tensor, Tensor] | None:
    """The mean picture and the soft mask of what crops share and others do not have."""
    mean, deviation = _moments(crops, valid)
    their_mean, their_deviation = _moments(others, valid_others)
    deviation, their_deviation = deviation + floor, their_deviation + floor
    ratio = (deviation.square() + (mean - their_mean).square()) / (2 * their_deviation.square())
    divergence = ((their_deviation / deviation).log() + ratio - 0.5).mean(dim=0)
    enough = valid.mean(dim=0) >= 0.5
    divergence = torch.where(enough, divergence, 0.0)
    peak = float(divergence.flatten().sort().values[-max(1, divergence.numel() // 50)])
    least = max(INFORMATIVE, PEAK_SHARE * min(peak, MOST_INFORMATION))
    soft = (divergence / least - 0.5).clamp(0, 1)
    if float(soft.sum()) > most:  # a small patch: the pixels that tell most
        soft[divergence < divergence.flatten().sort(descending=True).values[int(most) - 1]] = 0
    if not bool((soft > 0.5).any()):
        return None
    rows, columns = ((soft > 0.25).any(dim=axis).nonzero()[:, 0] for axis in (1, 0))
    box = (slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1))
    return mean[:, *box], soft[box]


def _moments(crops: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    weight = valid[:, None]
    count = weight.sum(dim=0).clamp(min=1)
    mean = (crops * weight).sum(dim=0) / count
    return mean, (((crops - mean).square() * weight).sum(dim=0) / count).sqrt()


def _best_threshold(near: Tensor, far: Tensor) -> tuple[float, float]:
    """The distance that best tells images of the class from others, and how well it does."""
    values = torch.cat([near, far]).sort().values
    middles = (values[1:] + values[:-1]) / 2
    rates = torch.searchsorted(near.sort().values, middles, right=True) / len(near)
    rates = rates - torch.searchsorted(far.sort().values, middles, right=True) / len(far)
    best = int(rates.argmax())
    return float(middles[best]), float(rates[best])
