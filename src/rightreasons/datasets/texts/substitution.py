"""Texts whose masked tokens are others: those of another text, of a word list, or a mask token."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.datasets.dataset import TextCard
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["draw_from", "exchange_tokens", "ordinary_tokens", "paste_token", "replace_tokens"]

TOKEN_SOURCES = ("samples", "pasted", "words", "mask", "noise", "mix")
MIXED = ("samples", "words", "mask")


def exchange_tokens(x: Tensor, mask: Tensor, donor_x: Tensor, donor_mask: Tensor) -> Tensor:
    """Put the donors' masked tokens where the samples' masks are, in reading order.

    If their numbers differ, a token takes that of the same relative position. A text whose donor
    has no mask stays as it is.

    Args:
        x: Token ids ``(N, T)``.
        mask: Their masks ``(N, T)``; a token moves where it is not 0.
        donor_x: Token ids of the donors ``(N, S)``.
        donor_mask: Their masks ``(N, S)``.

    Example:
        >>> x, mask = torch.tensor([[1, 2, 3]]), torch.tensor([[0, 1, 1]])
        >>> exchange_tokens(x, mask, torch.tensor([[7, 8]]), torch.tensor([[1, 1]]))
        tensor([[1, 7, 8]])
    """
    masked, donor_masked = mask != 0, donor_mask != 0
    count, donor_count = (one.sum(dim=1, keepdim=True) for one in (masked, donor_masked))
    rank = (masked.cumsum(dim=1) - 1).clamp(min=0)
    donor_rank = torch.div(rank * donor_count, count.clamp(min=1), rounding_mode="floor")
    # A stable sort puts the donor's masked places first, in reading order: rank -> place.
    order = donor_masked.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    place = order.gather(1, donor_rank.clamp(max=order.shape[1] - 1))
    return torch.where(masked & (donor_count > 0), donor_x.gather(1, place), x)


def paste_token(
    x: Tensor, ordinary: Tensor, donor_x: Tensor, donor_mask: Tensor, draws: Tensor
) -> Tensor:
    """Put the first masked token of each donor at a random place of a text.

    Args:
        x: Token ids ``(N, T)``.
        ordinary: Whether a token may be replaced ``(N, T)``: no padding, no special token.
        donor_x: Token ids of the donors ``(N, S)``.
        donor_mask: Their masks ``(N, S)``.
        draws: A number in [0, 1) for each text, which chooses the place.

    Example:
        >>> x, ordinary = torch.tensor([[9, 1, 2, 0]]), torch.tensor([[False, True, True, False]])
        >>> donor = torch.tensor([[5, 6]]), torch.tensor([[0, 1]])
        >>> paste_token(x, ordinary, *donor, torch.tensor([0.7]))
        tensor([[9, 1, 6, 0]])
    """
    count = ordinary.sum(dim=1)
    wanted = (draws.to(x.device) * count).long()
    is_place = ordinary & ((ordinary.cumsum(dim=1) - 1) == wanted[:, None])
    has_donor = (donor_mask != 0).any(dim=1, keepdim=True)
    token = donor_x.gather(1, (donor_mask != 0).long().argmax(dim=1, keepdim=True))
    return torch.where(is_place & has_donor, token, x)


def draw_from(tokens: tuple[int, ...] | Tensor, draws: Tensor) -> Tensor:
    """A token for each number in [0, 1), all alike probable.

    Example:
        >>> draw_from((7, 9), torch.tensor([0.2, 0.8]))
        tensor([7, 9])
    """
    known = torch.as_tensor(tokens, device=draws.device)
    return known[(draws * len(known)).long().clamp(max=len(known) - 1)]


def replace_tokens(
    batch: Batch,
    source: object,
    donors: Batch,
    draws: Tensor,
    noise: Tensor,
    text: TextCard | None,
) -> Tensor:
    """The token ids of a batch with others in the place of the masked ones, ``(N, T)``.

    Args:
        batch: Texts with masks.
        source: What the masked tokens become, see `Replacement`.
        donors: Another text for each.
        draws: Three numbers in [0, 1) for each text, ``(N, 3)``.
        noise: A number in [0, 1) for each token, ``(N, T)``.
        text: The tokens of the data; needed for a word list, a mask token and noise.
    """
    x, mask = batch.x, batch.mask
    donor_x, donor_mask = donors.x.to(x.device), donors.mask
    if mask is None or donor_mask is None or source not in TOKEN_SOURCES:
        raise InvalidSettingError(
            f"Expected a `source` for tokens, one of {', '.join(TOKEN_SOURCES)}, but got "
            f"{source!r}. Texts have no pixels to blur or to average."
        )
    donor_mask, masked = donor_mask.to(x.device), mask != 0
    if source == "mix":
        kinds = [one for one in MIXED if _is_possible(one, text)]
        kind = (draws[:, 2:] * len(kinds)).long()
        for number, one in enumerate(kinds):
            other = replace_tokens(batch, one, donors, draws, noise, text)
            x = torch.where(kind == number, other, x)
        return x
    if source == "samples":
        return exchange_tokens(x, mask, donor_x, donor_mask)
    if source == "pasted":
        moved = exchange_tokens(x, mask, donor_x, donor_mask)
        ordinary = ordinary_tokens(batch, text)
        pasted = paste_token(x, ordinary, donor_x, donor_mask, draws[:, 2])
        keeps = draws[:, 1:2] < 0.5
        has_mask = masked.any(dim=1, keepdim=True)
        gone = torch.where(masked, _mask_token(text, donor_x), x)
        return torch.where(has_mask, torch.where(keeps, moved, gone), torch.where(keeps, pasted, x))
    if source == "mask":
        return torch.where(masked, _mask_token(text), x)
    return torch.where(masked, draw_from(_candidates(source, text), noise), x)


def _is_possible(source: str, text: TextCard | None) -> bool:
    if source == "words":
        return text is not None and bool(text.substitutes)
    return source == "samples" or (text is not None and text.mask_token is not None)


def _candidates(source: object, text: TextCard | None) -> tuple[int, ...]:
    if source == "words":
        if text is None or not text.substitutes:
            raise InvalidSettingError(
                'Expected data with a word list for the source "words", but got none. Give '
                '`words` to rr.text.dataset, or use source="samples".'
            )
        return text.substitutes
    if text is None:
        raise InvalidSettingError(
            'Expected to know the tokens of the data for the source "noise", but nobody said. '
            "Call objective.prepare(data, num_passes=...) before the first step; fit() does."
        )
    special = set(text.special)
    return tuple(token for token in range(text.vocabulary) if token not in special)


def _mask_token(text: TextCard | None, donor_x: Tensor | None = None) -> Tensor:
    """The token of a hidden word; without one, where that is allowed, the donors' first token."""
    if text is not None and text.mask_token is not None:
        return torch.tensor(text.mask_token)
    if donor_x is not None:
        return donor_x[:, :1]
    raise InvalidSettingError(
        'Expected data with a mask token for the source "mask", but got none. Use a tokenizer that '
        'has one, or source="samples".'
    )


def ordinary_tokens(batch: Batch, text: TextCard | None) -> Tensor:
    """Which tokens are words of a text: no padding, no special tokens."""
    ordinary = torch.ones_like(batch.x, dtype=torch.bool)
    if batch.inputs is not None and "attention_mask" in batch.inputs:
        ordinary = batch.inputs["attention_mask"].bool()
    if text is not None and text.special:
        special = torch.tensor(text.special, device=batch.x.device)
        ordinary = ordinary & ~torch.isin(batch.x, special)
    return ordinary
