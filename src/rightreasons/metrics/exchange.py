"""Counterfactual inputs: masked features exchanged, moved to another sample, or removed."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.datasets.dataset import TextCard
from rightreasons.datasets.texts.substitution import replace_tokens
from rightreasons.types import Batch

__all__ = [
    "alter_tokens",
    "draw_donors",
    "draw_donors_across",
    "remove_masked",
    "transplant",
]


def transplant(x: Tensor, mask: Tensor, donor_x: Tensor, donor_mask: Tensor) -> Tensor:
    """Put the donors' masked values where the samples' masks are.

    The k-th masked position of a sample, in reading order, takes the value of the k-th masked
    position of its donor. If their numbers differ, it takes that of the same relative position.
    All channels move together if they share the mask. ``x`` is unchanged where a sample or its
    donor has no mask; a soft mask mixes old and new. Positions below half of a mask's largest value
    are left out: a faint seam must not shift the ranks of what it surrounds.

    Args:
        x: The samples, ``(N, *S)``.
        mask: Their masks, ``(N, *M)``, which broadcast to ``x``.
        donor_x: The donors, ``(N, *S)``.
        donor_mask: The donors' masks, ``(N, *M)``.

    Example:
        >>> x, mask = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.0, 1.0, 1.0]])
        >>> transplant(x, mask, torch.tensor([[7.0, 8.0, 9.0]]), torch.tensor([[1.0, 1.0, 0.0]]))
        tensor([[1., 7., 8.]])
    """
    shared = mask.ndim > 2 and mask.shape[1] == 1 and x.shape[1] != 1  # one mask, many channels
    flat = mask.expand_as(x[:, :1] if shared else x).flatten(1)  # (N, P)
    donor_flat = donor_mask.expand_as(donor_x[:, :1] if shared else donor_x).flatten(1)
    masked, donor_masked = _find_solid(flat), _find_solid(donor_flat)
    count, donor_count = (one.sum(dim=1, keepdim=True) for one in (masked, donor_masked))
    rank = masked.cumsum(dim=1) - 1  # (N, P)
    donor_rank = torch.div(rank * donor_count, count.clamp(min=1), rounding_mode="floor")
    # A stable sort puts the donor's masked positions first, in reading order: rank -> position.
    order = donor_masked.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    position = order.gather(1, donor_rank.clamp(min=0).clamp(max=order.shape[1] - 1))  # (N, P)
    values = donor_x.reshape(len(x), -1, flat.shape[1])  # (N, C, P), C = 1 if not shared
    moved = values.gather(2, position[:, None].expand_as(values)).reshape(x.shape)
    has_donor = (donor_count > 0).reshape(-1, *[1] * (x.ndim - 1))
    takes = masked.reshape(len(x), -1, *x.shape[2:])
    return torch.where(has_donor & takes, torch.lerp(x, moved, mask.expand_as(x).to(x)), x)


def _find_solid(flat: Tensor) -> Tensor:
    """Where masks ``(N, P)`` have at least half of their largest value."""
    return (flat > 0) & (flat >= flat.amax(dim=1, keepdim=True) / 2)


def alter_tokens(
    batch: Batch, donors: Batch, how: str, noise: Tensor, text: TextCard | None
) -> Tensor:
    """Token ids whose masked ones are exchanged, pasted, removed or drawn, ``(N, T)``.

    Args:
        batch: Texts with masks.
        donors: Another text for each.
        how: ``"pasted"``, ``"removed"``, ``"filled with noise"``; anything else exchanges.
        noise: A number in [0, 1) for each token and one more, ``(N, T + 1)``.
        text: The tokens of the data.
    """
    draws = noise[:, -1:].expand(-1, 3)
    if how == "filled with noise":
        source = "words" if text is not None and text.substitutes else "noise"
        return replace_tokens(batch, source, donors, draws, noise[:, :-1], text)
    moved = replace_tokens(batch, "samples", donors, draws, noise[:, :-1], text)
    if how not in ("pasted", "removed") or batch.mask is None:
        return moved
    # Draws of 0 let "pasted" put a donor's token into texts without a mask.
    keep = torch.stack([draws[:, 0], torch.zeros_like(draws[:, 0]), draws[:, 2]], dim=1)
    pasted = replace_tokens(batch, "pasted", donors, keep, noise[:, :-1], text)
    if how == "pasted":
        return pasted
    gone = replace_tokens(batch, "mask", donors, draws, noise[:, :-1], text)
    return torch.where((batch.mask != 0).any(dim=1, keepdim=True), gone, pasted)


def remove_masked(x: Tensor, mask: Tensor, usual: Tensor | None = None) -> Tensor:
    """Replace masked features by what would be there without them; a soft mask blends.

    A masked pixel takes the mean of the unmasked pixels in a square around it, half as wide as the
    image. If there are none, it takes the mean of all unmasked pixels of its image. A feature of
    other inputs takes its usual value.

    Args:
        x: The samples, ``(N, *S)``.
        mask: Their masks, which broadcast to ``x``.
        usual: Usual value of each feature, ``(*S)``; needed unless the samples are images.

    Example:
        >>> x, mask = torch.tensor([[[[9.0, 1.0, 3.0]]]]), torch.tensor([[[[1.0, 0.0, 0.0]]]])
        >>> remove_masked(x, mask)
        tensor([[[[2., 1., 3.]]]])
    """
    weight = mask.expand_as(x).to(x)
    if usual is not None:
        return torch.lerp(x, usual.to(x).expand_as(x), weight)
    kept = (weight < 0.5).to(x)
    everywhere = _mean_of_kept(x, kept, dim=(2, 3))
    num_kept, sums = _sum_around(kept[:, :1] if mask.shape[1] == 1 else kept), _sum_around(x * kept)
    near = torch.where(num_kept > 0, sums / num_kept.clamp(min=1), everywhere)
    return torch.where(weight > 0, torch.lerp(x, near, weight), x)


def draw_donors(
    candidates: Tensor, size: int, num_draws: int, generator: torch.Generator
) -> Tensor:
    """For each of ``size`` samples, candidates drawn uniformly, never itself: (draws, size)."""
    if len(candidates) == 1:
        return candidates.expand(num_draws, size)
    rank = torch.full((size,), -1)
    rank[candidates] = torch.arange(len(candidates))  # a sample's rank among the candidates
    num_others = len(candidates) - (rank >= 0).long()
    noise = torch.rand(num_draws, size, generator=generator, dtype=torch.float64)
    drawn = (noise * num_others).long()
    drawn += (rank >= 0) & (drawn >= rank)  # skip the sample itself
    return candidates[drawn]


def draw_donors_across(
    candidates: Tensor, labels: Tensor, num_draws: int, generator: torch.Generator
) -> Tensor:
    """For each sample, candidates of other classes, each class as often: (draws, size).

    A class without others that have candidates draws from its own.

    Args:
        candidates: Indices of the samples that can be donors, at least one.
        labels: Labels of all samples.
        num_draws: Donors of each sample.
        generator: Source of the draws.
    """
    uniform = draw_donors(candidates, len(labels), num_draws, generator)
    noise = torch.rand(2, num_draws, len(labels), generator=generator, dtype=torch.float64)
    by_class = {
        int(y): candidates[labels[candidates] == y] for y in torch.unique(labels[candidates])
    }
    donors = uniform.clone()
    for y in torch.unique(labels).tolist():
        others = [members for label, members in by_class.items() if label != y]
        if not others:
            continue
        rows = labels == y
        chosen = (noise[0][:, rows] * len(others)).long()
        sizes = torch.tensor([len(members) for members in others])
        rank = (noise[1][:, rows] * sizes[chosen]).long()
        first = sizes.cumsum(0) - sizes
        donors[:, rows] = torch.cat(others)[first[chosen] + rank]
    return donors


def _sum_around(x: Tensor) -> Tensor:
    """The sum in a square around each pixel, half as wide as the image, zeros outside.

    Differences of running sums take as long for a wide square as for a narrow one.
    """
    for dim in (2, 3):
        size = x.shape[dim]
        reach, places = max(size // 2, 1) // 2, torch.arange(size, device=x.device)
        running = functional.pad(x.cumsum(dim=dim), (0, 0, 1, 0) if dim == 2 else (1, 0))
        last = running.index_select(dim, (places + reach + 1).clamp(max=size))
        x = last - running.index_select(dim, (places - reach).clamp(min=0))
    return x


def _mean_of_kept(x: Tensor, kept: Tensor, dim: tuple[int, ...]) -> Tensor:
    """The mean of kept values; of all values where none is kept."""
    count = kept.sum(dim=dim, keepdim=True)
    mean = (x * kept).sum(dim=dim, keepdim=True) / count.clamp(min=1)
    return torch.where(count > 0, mean, x.mean(dim=dim, keepdim=True))
