"""Copies of samples whose masked features have other values: counterexamples to a shortcut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from rightreasons.core.checks import check_choice
from rightreasons.core.rng import random_stream, sample_noise
from rightreasons.datasets.dataset import Dataset, TextCard
from rightreasons.datasets.masks import (
    Extents,
    extent_of,
    extents_of,
    fill_in,
    stretch,
    windows_of,
)
from rightreasons.datasets.strata import Strata
from rightreasons.datasets.telling_masks import what_tells_class
from rightreasons.datasets.texts.substitution import replace_tokens
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.types import Batch

__all__ = ["Replacement", "Source", "move_content"]

FromSamples = Literal["auto", "samples", "pasted", "moved", "background"]
FromElsewhere = Literal["noise", "blur", "mean", "mix", "words", "mask"]
Kind = Literal[FromSamples, FromElsewhere]
Source = Kind | float
SOURCES: tuple[str, ...] = get_args(Kind)
MIXED: tuple[Source, ...] = ("samples", "noise", "blur", "mean")

NUM_SEEN = 2048
"""Most samples that are looked at to choose a source and to find donors."""
BANK_BYTES = 2**27
"""Most memory for donors."""
BACKGROUND_SHARE = 0.5
"""Masks that cover more of the sample than this are backgrounds."""
MIN_MASKED = 64
"""Where masks are rare, samples are read until so many have one."""


class Replacement:
    r"""Gives the masked features of samples other values.

    ================ =====================================================================
    ``"samples"``    another sample's masked content, at the sample's own place
    ``"pasted"``     as ``"samples"``, or removed (``"blur"``), with equal probability; a sample
                     without a mask is changed where the other sample has its mask
    ``"moved"``      removed at the sample's own place; with equal probability another sample's
                     masked content comes in at that sample's place
    ``"background"`` everything masked comes from another sample, whose unmasked part is filled in
    ``"noise"``      uniform in the valid range
    ``"blur"``       what surrounds the masked part, carried over it; for columns the mean
    ``"mean"``       the mean of the data, for each channel or column
    a number         that value
    ``"mix"``        one of samples, noise, blur and mean, drawn for each copy; for tokens one of
                     samples, words and mask
    ``"words"``      tokens: one of the data's word list
    ``"mask"``       tokens: the one that stands for a hidden word
    ``"auto"``       ``"moved"`` if the place of small masks tells the class; ``"pasted"`` if
                     classes differ by 10 points in how often they carry masks;
                     ``"background"`` if masks cover more than half of an image; else
                     ``"samples"``
    ================ =====================================================================

    ``"pasted"`` makes the *presence* of the masked content independent of the class too, and
    ``"moved"`` its place. Other samples' contents alone cannot: if only dogs have a tag, every
    copy of a dog has one.

    Soft masks blend. Samples without an annotation stay as they are. What is drawn depends on the
    seed, the sample's index and the epoch, never on the batch. Without `prepare`, other samples
    are those of the batch, and the draws come from torch's random state.

    Token ids take ``"samples"``, ``"pasted"``, ``"words"``, ``"mask"``, ``"noise"`` (any word) and
    ``"mix"``. What is pasted into a text without a mask replaces a random word of it; what is
    removed becomes the mask token.

    Args:
        source: One of these.
        seed: Random seed for the draws.
        strata: Columns of a table, not masked: the other sample has the same values in them, where
            there is one. So masked values stay those that occur with the rest of the row.

    Example:
        >>> batch = Batch(
        ...     x=torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        ...     y=torch.tensor([0, 1]),
        ...     mask=torch.tensor([[0.0, 1.0], [0.0, 1.0]]),
        ... )
        >>> Replacement("samples")(batch)
        tensor([[1., 4.],
                [3., 2.]])
    """

    def __init__(
        self, source: Source = "auto", *, seed: int = 0, strata: Sequence[str] = ()
    ) -> None:
        if isinstance(source, str):
            check_choice("source", source, SOURCES)
        self._strata = Strata(strata)
        self.source = source
        self.seed = seed
        self._chosen: Source | None = None
        self._donors: Batch | None = None
        self._extents: Extents | None = None
        self._range: tuple[float, float] | None = None
        self._text: TextCard | None = None

    def prepare(self, data: Dataset) -> None:
        """Choose the source for ``data``, and keep some of its samples as donors.

        Raises:
            InvalidBatchError: No sample has a mask.
        """
        if not data.has_masks:
            raise InvalidBatchError(
                "Expected data with masks (1 where the model must not look), but got none. "
                "Use data with masks, or a method without."
            )
        order = torch.from_numpy(random_stream(self.seed, "replacement").permutation(len(data)))
        seen = [data.take(rows) for rows in torch.split(order[:NUM_SEEN].sort().values, 256)]
        masked = [part[_has_mask(part)] for part in seen]
        for start in range(NUM_SEEN, len(order), 256):  # where masks are rare
            if sum(map(len, masked)) >= MIN_MASKED:
                break
            part = data.take(order[start : start + 256].sort().values)
            masked.append(part[_has_mask(part)])
        if not any(map(len, masked)):
            raise InvalidBatchError(
                f"Expected masked features in at least one of {len(order)} samples, but all masks "
                "are empty. Check the masks."
            )
        seen += masked if not any(bool(_has_mask(part).any()) for part in seen) else []
        self._chosen = self._choose(seen)
        self._range, self._text = data.card.valid_range, data.card.text
        sample = next(part for part in masked if len(part))
        most = max(2, BANK_BYTES // (sample.x[0].nbytes + 1))
        self._donors = Batch.collate([part for part in masked if len(part)])[:most]
        self._strata.prepare(data.card, self._donors.x)
        known: Tensor = self._donors.mask  # type: ignore[assignment]
        self._extents = extents_of(self._donors.x, known) if sample.x.ndim == 4 else None

    @property
    def chosen(self) -> Source:
        """The source in use: what ``"auto"`` stands for, once there are data."""
        return self.source if self._chosen is None else self._chosen

    def __call__(self, batch: Batch, *, epoch: int = 0) -> Tensor:
        """The inputs of ``batch`` with other masked features, shaped as ``batch.x``."""
        if batch.mask is None:
            raise InvalidBatchError(
                "Expected a batch with a `mask` (1 where the model must not look), but got none. "
                "Use data with masks, or a method without."
            )
        index, seed = batch.index, self.seed * 1_000_003 + epoch
        if self._donors is None or index is None:
            index = torch.arange(len(batch), device=batch.x.device)
            seed = int(torch.randint(2**31, ()))
        source = self._choose([batch]) if self._chosen is None else self._chosen
        draws = sample_noise(index, (3,), num_draws=1, seed=seed)[0].to(batch.x.device)
        if not batch.x.is_floating_point():
            noise = sample_noise(index, batch.x.shape[1:], num_draws=1, seed=seed + 1)[0]
            donors = self._donors_for(batch, draws[:, 0])
            noise = noise.to(batch.x.device)
            altered = replace_tokens(batch, source, donors, draws, noise, self._text)
        elif source != "mix":
            altered = self._replace(batch, source, draws, index, seed)
        else:
            kind = (draws[:, 2] * len(MIXED)).long()
            altered = batch.x
            for number, one in enumerate(MIXED):
                chosen = (kind == number).reshape(-1, *[1] * (batch.x.ndim - 1))
                altered = torch.where(
                    chosen, self._replace(batch, one, draws, index, seed), altered
                )
        if batch.annotated is None or bool(batch.annotated.all()):
            return altered
        guided: Tensor = batch.guided  # type: ignore[assignment]
        return torch.where(guided.reshape(-1, *[1] * (batch.x.ndim - 1)), altered, batch.x)

    def _replace(
        self, batch: Batch, source: Source, draws: Tensor, index: Tensor, seed: int
    ) -> Tensor:
        x = batch.x
        mask = batch.mask.to(x)  # type: ignore[union-attr]
        if source == "noise":
            low, high = self._valid_range()
            noise = sample_noise(index, x.shape[1:], num_draws=1, seed=seed + 1)[0].to(x)
            return torch.lerp(x, low + (high - low) * noise, mask.expand_as(x))
        if source == "blur":
            return self._remove(x, mask)
        if source == "mean":
            return torch.lerp(x, self._mean(x).expand_as(x), mask.expand_as(x))
        if not isinstance(source, str):
            return torch.lerp(x, torch.full_like(x, source), mask.expand_as(x))
        if source in ("words", "mask"):
            raise InvalidSettingError(
                f"Expected token ids for the source {source!r}, but got {x.dtype} features. Use "
                'source="samples".'
            )
        if source == "samples" and x.ndim == 4:
            bank, drawn, extents = self._draw(batch, draws[:, 0])
            bank_mask: Tensor = bank.mask  # type: ignore[assignment]
            extents = extents_of(bank.x, bank_mask) if extents is None else extents
            return _move_window(x, mask, bank.x, bank_mask, extents, drawn)
        donors = self._donors_for(batch, draws[:, 0])
        donor_mask = donors.mask.to(x)  # type: ignore[union-attr]
        donor_x = donors.x.to(x)
        if source == "background":
            core = (1 - donor_mask).expand_as(x)
            return torch.lerp(x, fill_in(donor_x, core), mask.expand_as(x))
        if source == "samples":
            return move_content(x, mask, donor_x, donor_mask)
        if source == "moved":
            removed = self._remove(x, mask)
            keeps = (draws[:, 1] < 0.5).reshape(-1, *[1] * (x.ndim - 1))
            pasted = torch.lerp(removed, donor_x, donor_mask.expand_as(x))
            return torch.where(keeps, pasted, removed)
        has_mask = (mask != 0).flatten(1).any(dim=1).reshape(-1, *[1] * (x.ndim - 1))
        place = torch.where(has_mask, mask, donor_mask)
        moved = move_content(x, place, donor_x, donor_mask)
        keeps = (draws[:, 1] < 0.5).reshape(-1, *[1] * (x.ndim - 1))
        return torch.where(keeps, moved, self._remove(x, place))

    def _remove(self, x: Tensor, mask: Tensor) -> Tensor:
        if x.ndim == 4:
            return fill_in(x, mask)
        return torch.lerp(x, self._mean(x).expand_as(x), mask.expand_as(x))

    def _mean(self, x: Tensor) -> Tensor:
        """The mean of each channel of an image, or of each other feature."""
        values = x if self._donors is None else self._donors.x.to(x)
        return values.mean(dim=(0, 2, 3) if x.ndim == 4 else 0, keepdim=True)

    def _valid_range(self) -> tuple[float, float]:
        if self._range is None:
            raise InvalidSettingError(
                "Expected to know the valid range of the features before noise is drawn, but "
                "nobody said. Call objective.prepare(data, num_passes=...) before the first step; "
                "fit() does."
            )
        return self._range

    def _donors_for(self, batch: Batch, draws: Tensor) -> Batch:
        """A donor for each sample, never itself where there is another."""
        bank, drawn, _ = self._draw(batch, draws)
        return bank[drawn].to(batch.x.device)

    def _draw(self, batch: Batch, draws: Tensor) -> tuple[Batch, Tensor, Extents | None]:
        """All donors, the row of each sample's own, and where their masks lie if that is known."""
        if self._donors is None or batch.index is None:
            donors = batch[_has_mask(batch)]
            own = torch.arange(len(batch), device=draws.device)[_has_mask(batch)]
            index = torch.arange(len(batch), device=draws.device)
            donors = donors if len(donors) else batch
            own = own if len(own) else index
        else:
            donors = self._donors
            own, index = donors.index.to(draws.device), batch.index  # type: ignore[union-attr]
        # A sample that is among the donors skips itself: the numbers behind it move up by one.
        sorted_own, order = own.sort(stable=True)
        place = torch.searchsorted(sorted_own, index.to(own)).clamp(max=len(own) - 1)
        is_donor = (sorted_own[place] == index.to(own)) & (len(own) > 1)
        drawn = (draws * (len(own) - is_donor.long())).long()
        drawn += (is_donor & (drawn >= order[place])).long()
        if self._strata.names:
            is_itself = index.to(own)[:, None] == own[None]
            there = self._strata.choose(batch.x, donors.x.to(batch.x), is_itself, draws)
            drawn = torch.where(there < 0, drawn, there)
        drawn = drawn.clamp(max=len(own) - 1).to(donors.x.device)
        return donors, drawn, None if donors is not self._donors else self._extents

    def _choose(self, seen: list[Batch]) -> Source:
        if self.source != "auto":
            return self.source
        telling = what_tells_class(seen)
        if telling:
            return "moved" if telling == "place" else "pasted"
        covered = [part.mask[_has_mask(part)].double() for part in seen if part.mask is not None]
        area = torch.cat([one.flatten(1).mean(dim=1) for one in covered])
        is_image = seen[0].x.ndim == 4
        return "background" if is_image and float(area.mean()) > BACKGROUND_SHARE else "samples"


def move_content(x: Tensor, mask: Tensor, donor_x: Tensor, donor_mask: Tensor) -> Tensor:
    """Put the donors' masked content where the samples' masks are.

    In images the box around a donor's mask is stretched to the box around the sample's mask. A box
    holds what has at least half of the mask's largest value, hence no faint seam. Where
    the donor has no mask in it, the sample's surroundings are carried over. Other features, such
    as columns, take the donor's value of the same feature. A sample or donor without a mask leaves
    ``x`` as it is.

    Args:
        x: The samples, ``(N, *S)``.
        mask: Their masks, ``(N, *M)``, which broadcast to ``x``.
        donor_x: The donors, ``(N, *S)``.
        donor_mask: The donors' masks, ``(N, *M)``.

    Example:
        >>> x, mask = torch.zeros(1, 1, 1, 4), torch.tensor([[[[0.0, 0.0, 1.0, 1.0]]]])
        >>> donor_x, donor_mask = torch.tensor([[[[5.0, 6.0, 7.0, 8.0]]]]), mask.flip(3)
        >>> move_content(x, mask, donor_x, donor_mask)
        tensor([[[[0., 0., 5., 6.]]]])
    """
    if x.ndim != 4:
        return torch.lerp(x, donor_x, mask.expand_as(x))
    every = torch.arange(len(x), device=donor_x.device)
    return _move_window(x, mask, donor_x, donor_mask, extents_of(donor_x, donor_mask), every)


def _move_window(
    x: Tensor,
    mask: Tensor,
    donor_x: Tensor,
    donor_mask: Tensor,
    extents: Extents,
    donor: Tensor,
) -> Tensor:
    """`move_content` for images, where ``donor`` is the row of each sample's donor among all.

    Masks are often small: only a window that holds each is read and written.
    """
    mask = mask.expand(-1, -1, *x.shape[2:])
    donor_mask = donor_mask.expand(-1, -1, *x.shape[2:])
    rows, columns = windows_of(mask)  # (N, h), (N, w)
    sample = torch.arange(len(x), device=x.device)[:, None, None]
    here = (sample, slice(None), rows[:, :, None], columns[:, None, :])
    old, share = x[here], mask[here]  # (N, h, w, C): axes of indices come first
    stretched = []
    for places, across, donor_ends in zip((rows, columns), (2, 1), extents.ends, strict=True):
        own = [places[:, 0] + end for end in extent_of(share.amax(dim=(across, 3)))]
        other = [end[donor].to(x.device) for end in donor_ends]
        length = x.shape[4 - across]
        stretched.append(stretch(places, own, other).clamp(0, length - 1).to(donor_x.device))
    rows, columns = stretched
    there = (donor[:, None, None], slice(None), rows[:, :, None], columns[:, None, :])
    content, known = donor_x[there].to(x), donor_mask[there].to(x)
    if not bool((known[(share > 0).expand_as(known)] == 1).all()):
        content = torch.lerp(fill_in(x, mask)[here], content, known.expand_as(content))
    has_donor = extents.has_mask[donor].to(x.device).reshape(-1, 1, 1, 1)
    moved = x.clone()
    new = torch.lerp(old, content, share.expand_as(old))
    moved[here] = torch.where(has_donor & (share > 0), new, old)
    return moved


def _has_mask(batch: Batch) -> Tensor:
    if batch.mask is None:
        return torch.zeros(len(batch), dtype=torch.bool, device=batch.x.device)
    return (batch.mask != 0).flatten(1).any(dim=1)
