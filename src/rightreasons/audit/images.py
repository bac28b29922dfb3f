"""The audit of images: properties, patches and where the model looks, each planted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.audit.findings import Finding, Thresholds
from rightreasons.audit.patches import PatchSearch, grid_search, patch_side, sliding_search
from rightreasons.audit.patterns import Pattern, find_patterns, match_patterns
from rightreasons.audit.planting import Planting
from rightreasons.audit.properties import (
    TRANSPLANTS,
    image_properties,
    predict_by_column,
    standardise,
)
from rightreasons.audit.regions import Region, shrink_images
from rightreasons.audit.samples import Samples
from rightreasons.audit.statistics import compare_with_permutations, label_strength
from rightreasons.core.rng import random_stream
from rightreasons.explainers import InputGradient
from rightreasons.metrics.exchange import remove_masked

__all__ = ["ImageSearch"]

CHUNK = 100
MOST_ROUNDS, MOST_EXPLAINED = 2, 400
SEARCH_SIDE = 48
COINCIDES = 0.5

Advance = Callable[[int], None]


class ImageSearch:
    """The search for shortcuts in images; each step gives findings without verdicts.

    Args:
        samples: The audited images.
        model: The model; None to look at the data alone.
        thresholds: Thresholds of the verdict.
        seed: Random seed.
        advance: Function that is told each finished step.
    """

    def __init__(
        self,
        samples: Samples,
        model: nn.Module | None,
        *,
        thresholds: Thresholds,
        seed: int,
        advance: Advance,
    ) -> None:
        self.samples, self.model = samples, model
        self.thresholds, self.seed, self.advance = thresholds, seed, advance
        self.card = samples.data.card
        self.planting = Planting(samples, model, seed=seed, advance=advance)
        self.y = samples.y[samples.search]

    def properties(self) -> list[Finding]:
        """Properties of whole images: what tells the label, and what a transplant changes."""
        samples = self.samples
        stream = random_stream(self.seed, "audit", "properties")
        names = list(samples.properties)
        predicted = [
            predict_by_column(
                samples.properties[name][samples.search].double().numpy(),
                self.y,
                stream=stream,
                seed=self.seed,
            )
            for name in names
        ]
        strengths, p_values = compare_with_permutations(
            np.column_stack(predicted), self.y.numpy(), seed=self.seed
        )
        found = []
        for kind, members in TRANSPLANTS.items():
            known = [names.index(name) for name in members if name in names]
            if not known:
                continue
            best = max(known, key=lambda number: strengths[number])
            effect, examples = self.planting.transplant(kind)
            found.append(
                Finding(
                    name=names[best],
                    kind=kind,
                    tells_label=float(strengths[best]),
                    p_value=float(p_values[best]),
                    effect=effect,
                    classes=self.card.classes,
                    region=Region("border") if kind == "border" else None,
                    details={names[one]: float(strengths[one]) for one in known},
                    examples=examples,
                    pictures=self._extremes(names[best]),
                )
            )
        return found

    def patches(self, tells_property: bool) -> list[Finding]:
        """Small patches that tell the label; what was found is covered before the next search.

        Args:
            tells_property: Whether the colours of whole images tell the label. Images are then
                given the same mean and contrast, so that patches alone can tell it.
        """
        found: list[Finding] = []
        small = self.samples.small
        for _ in range(MOST_ROUNDS):
            seen = shrink_images(small[self.samples.search], SEARCH_SIDE)
            scale = small.shape[2] / seen.shape[2]
            searches = [
                search(
                    standardise(seen) if tells_property else seen,
                    self.y,
                    len(self.card.classes),
                    seed=self.seed,
                )
                for search in (sliding_search, grid_search)
            ]
            best = max(searches, key=lambda one: one.strength)
            self.advance(1)
            p_value = min(self._chance(one) for one in searches)
            usable = torch.from_numpy((best.predicted == self.y.numpy()) & (best.confidence > 0.5))
            place = (torch.from_numpy(best.place) * scale).long()
            patterns = self._patterns(small, self.y, place, usable)
            finding = self.planting.describe(small, patterns, "patch")
            found.append(
                replace(
                    finding,
                    tells_label=best.strength,
                    p_value=p_value,
                    details={one.kind: one.strength for one in searches},
                )
            )
            strong = best.strength >= self.thresholds.strength
            if not patterns or not (strong or self._is_used(finding)):
                break
            match = match_patterns(patterns, small)
            small = _cover(small, match.mask)
        return found

    def without_patches(
        self, properties: list[Finding], patches: Iterable[Finding]
    ) -> list[Finding]:
        """Measure again what properties tell once patches are covered.

        A coloured square changes the mean colour of its image, and so tells the label twice. A
        property that tells nothing without the patches is a trace of them.
        """
        strong = [one for one in properties if one.tells_label >= self.thresholds.strength]
        regions = [one.region for one in patches if one.region is not None]
        if not strong or not regions:
            return properties
        samples, parts = self.samples, []
        for places in torch.split(samples.search, CHUNK):
            x = samples.take(places)
            for region in regions:
                x = remove_masked(x, region.locate(x))
            parts.append(image_properties(x))
        values = {name: torch.cat([one[name] for one in parts]) for name in parts[0]}
        measured = []
        for one in properties:
            if one in strong:
                stream = random_stream(self.seed, "audit", "covered")
                column = values[one.name].double().numpy()
                predicted = predict_by_column(column, self.y, stream=stream, seed=self.seed)
                left = label_strength(predicted, self.y.numpy())
                one = replace(
                    one,
                    tells_label=min(one.tells_label, left),
                    details={**one.details, "before patches were covered": one.tells_label},
                )
            measured.append(one)
        return measured

    def attended(self, known: Iterable[Finding]) -> list[Finding]:
        """Where the model looks: the window with most attribution of each image, clustered."""
        samples = self.samples
        if self.model is None or samples.answers is None:
            return []
        regions = [one.region for one in known if one.region and one.region.kind == "patterns"]
        predicted = samples.answers[samples.search].argmax(dim=1)
        place, usable = _find_attended(self.model, samples, predicted, regions)
        self.advance(1)
        patterns = self._patterns(samples.small, predicted, place, usable)
        known_patterns = [one for region in regions for one in region.patterns]
        if not patterns or self._coincide(patterns, known_patterns):
            return []
        return [self.planting.describe(samples.small, patterns, "attended patch")]

    def _coincide(self, patterns: list[Pattern], known: list[Pattern]) -> bool:
        """Whether patterns lie where known ones do, in most images that have both."""
        if not known:
            return False
        small = self.samples.small[self.samples.search]
        one, two = match_patterns(patterns, small), match_patterns(known, small)
        both = (one.pattern >= 0) & (two.pattern >= 0)
        if not bool(both.any()):
            return False
        overlap = torch.minimum(one.mask, two.mask)[both].flatten(1).sum(dim=1)
        sizes = [match.mask[both].flatten(1).sum(dim=1) for match in (one, two)]
        return float((overlap / torch.minimum(*sizes).clamp(min=1e-6)).mean()) >= COINCIDES

    def _patterns(self, small: Tensor, y: Tensor, place: Tensor, usable: Tensor) -> list[Pattern]:
        low, high = self.card.valid_range
        patterns = find_patterns(small[self.samples.search], y, place, usable, span=high - low)
        self.advance(1)
        return patterns

    def _chance(self, search: PatchSearch) -> float:
        """The p-value of the best member of a search."""
        labels = self.y.numpy()[search.held_out]
        return float(compare_with_permutations(search.members, labels, seed=self.seed)[1].min())

    def _is_used(self, finding: Finding) -> bool:
        return finding.effect is not None and finding.effect.low >= self.thresholds.effect

    def _extremes(self, name: str) -> list[Tensor]:
        """The image of each class that is most typical of its class in a property."""
        values = self.samples.properties[name]
        pictures = []
        for label in torch.unique(self.samples.y).tolist()[:6]:
            members = (self.samples.y == label).nonzero()[:, 0]
            middle = values[members].median()
            chosen = members[(values[members] - middle).abs().argmin()]
            pictures.append(self.samples.take(chosen[None])[0])
        return pictures


def _cover(x: Tensor, mask: Tensor) -> Tensor:
    """Remove what masks mark, a part at a time."""
    parts = zip(torch.split(x, CHUNK), torch.split(mask, CHUNK), strict=True)
    return torch.cat([remove_masked(*part) for part in parts])


def _find_attended(
    model: nn.Module, samples: Samples, predicted: Tensor, known: Sequence[Region]
) -> tuple[Tensor, Tensor]:
    """Find the window that matters most to each prediction, outside of known patterns.

    Args:
        model: The model.
        samples: The audited images, of which at most 400 searched ones are explained.
        predicted: Predicted classes of the searched images.
        known: Patterns that were found before.

    Returns:
        Row and column of the middle of each window, ``(N, 2)``, and whether it may be used.
    """
    num = len(samples.search)
    some = torch.linspace(0, num - 1, min(num, MOST_EXPLAINED)).long()
    place = torch.zeros(num, 2, dtype=torch.long)
    usable = torch.zeros(num, dtype=torch.bool)
    for part in torch.split(some, CHUNK):
        x = samples.take(samples.search[part])
        device = next(model.parameters(), x).device
        gradient = InputGradient()(model, x.to(device), predicted[part].to(device)).cpu()
        place[part] = _top_window(shrink_images(gradient.abs().mean(dim=1, keepdim=True)))
        usable[part] = True
        small = samples.small[samples.search[part]]
        side = patch_side(*small.shape[2:]) // 2 * 2 + 1
        for region in known:
            mask = match_patterns(list(region.patterns), small).mask
            near = functional.max_pool2d(mask, side, stride=1, padding=side // 2)
            inside = near[torch.arange(len(part)), 0, place[part][:, 0], place[part][:, 1]] > 0
            usable[part[inside]] = False
    return place, usable


def _top_window(heat: Tensor) -> Tensor:
    """Row and column of the window with the largest mean, ``(N, 1, h, w) -> (N, 2)``."""
    side = patch_side(*heat.shape[2:])
    sums = functional.avg_pool2d(heat, side, stride=1)
    top = sums.flatten(1).argmax(dim=1)
    return torch.stack([top // sums.shape[3], top % sums.shape[3]], dim=1) + side // 2
