"""R3 and R4 for texts: the neighbours of a text have other tokens (R4, appendix C)."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import TypedDict, Unpack, override

from rightreasons.core.checks import check_choice, check_fraction, check_integer
from rightreasons.core.memory import budget_of, call_in_parts, pass_bytes, rows_within_cache
from rightreasons.core.norms import Norm, check_norm, sample_norm
from rightreasons.datasets.dataset import Dataset, TextCard
from rightreasons.datasets.texts.substitution import draw_from, ordinary_tokens
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.objectives.linear_record import LinearRecord
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.embeddings import find_embedding
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Target

__all__ = [
    "TokenAdvR4",
    "TokenR4",
    "TokenRandR4",
    "TokenSmoothR3",
    "choose_tokens",
    "token_adv_r4",
    "token_rand_r4",
    "token_smooth_r3",
]

NUM_SEEN = 2048
"""Most texts that are looked at for masked tokens, where the data have no word list."""


class TokenSettings(TypedDict, total=False):
    """Settings of `TokenR4` that its members pass on."""

    target: Target | str
    norm: Norm


class TokenR4(Term):
    r"""The gradient at the embeddings of masked places, for a text with other tokens.

    .. math:: \lVert m \odot g \rVert_2^2, \qquad g_i = \partial t(x') / \partial e_i

    with the mask :math:`m` of the text's own places. Members differ in the texts :math:`x'` and in
    how gradients of several texts become one. Texts are seen as at test time. Unit: (target per
    unit of an embedding) squared.

    Substitutes are the word list of the data, or else every token that a mask covers in training.

    Args:
        target: The output that is differentiated.
        norm: ``"squared_l2"`` as for `R3`.
    """

    def __init__(self, *, target: Target | str = Target.LOSS, norm: Norm = "squared_l2") -> None:
        super().__init__()
        self.target = Target(target)
        self.norm = check_norm(norm)
        self._text: TextCard | None = None
        self._substitutes: tuple[int, ...] = ()

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        del num_passes
        self._text = data.card.text
        listed = () if self._text is None else self._text.substitutes
        self._substitutes = listed or _masked_tokens(data)

    @abstractmethod
    def gradient(self, probe: Probe) -> Tensor:
        """The gradient that is made small, ``(N, T, E)``."""

    @override
    def forward(self, probe: Probe) -> Tensor:
        if probe.batch.x.is_floating_point():
            raise InvalidBatchError(
                f"Expected token ids for {type(self).__name__}, but got {probe.batch.x.dtype} "
                "features. Use the term of the same name without `token`."
            )
        masked: Tensor = probe.mask * self.gradient(probe)
        return sample_norm(masked.flatten(1), self.norm)

    def substitutes(self, batch: Batch) -> Tensor:
        """The tokens that masked ones are replaced by; those of the batch without `prepare`."""
        known = self._substitutes
        if not known and batch.mask is not None:
            covered: Tensor = torch.unique(batch.x[batch.mask != 0])
            return covered
        return torch.tensor(known, device=batch.x.device)

    def gradients_at(
        self,
        probe: Probe,
        tokens: Tensor,
        *,
        create_graph: bool,
        known: Tensor | None = None,
        record: LinearRecord | None = None,
    ) -> Tensor:
        """Gradients at the embeddings of other tokens; zeros for texts without a mask.

        Args:
            probe: The shared pass.
            tokens: The tokens of K copies, ``(K, N, T)``.
            create_graph: Whether gradients of the result must reach the weights.
            known: The result, if a search has found it. The passes are then made once, when the
                result is differentiated.
            record: What passes without a graph write down of one copy, and others read.

        Returns:
            ``(K, N, T, E)``.
        """
        if known is not None and not create_graph:
            return known
        num_copies, size = tokens.shape[:2]
        counted = _rows_with_a_mask(probe.mask)
        samples, stacked = counted.repeat(num_copies), tokens[:, counted].flatten(0, 1)
        # A graph that is built again must not hold the shared pass.
        model, batch, target = probe.model, probe.batch, self.target

        def measure(some: Tensor, rows: Tensor) -> Tensor:
            texts = batch[samples[rows]].with_(x=stacked[rows])
            settings = {"needs_gradient": True, "create_graph": create_graph}
            features = some if create_graph else None
            first, size = int(rows[0]), (len(rows), texts.x.shape[1])
            noted: AbstractContextManager[None] = nullcontext()
            if record is not None:
                noted = (record.read if create_graph else record.keep)(first, size)
            with noted:
                probe = Probe.at_test_time(model, texts, features=features, **settings)
                return probe.gradient(target)

        most = probe.rows_for("second_order" if create_graph else "gradients", len(stacked))
        if known is not None:
            known = known[:, counted].flatten(0, 1)
        if known is not None or not create_graph:  # parts cost no second call here
            most = rows_within_cache(model, batch.x, ceiling=most, inputs=batch.inputs)
        # One pass through the table for all parts: the gradient of a table is as large as itself.
        x = find_embedding(model, batch)(stacked) if create_graph else stacked
        values = call_in_parts(measure, model, x, most=most, create_graph=create_graph, known=known)
        values = values.reshape(num_copies, len(counted), *values.shape[1:])
        if len(counted) == size:
            return values
        everywhere = values.new_zeros(num_copies, size, *values.shape[2:])
        return everywhere.index_copy(1, counted, values)


class TokenSmoothR3(TokenR4):
    r"""`R3` with the mean gradient of texts in which some tokens are random.

    .. math:: \Big\lVert m \odot \frac1K \sum_k \nabla_e t(x_k) \Big\rVert_2^2

    In each :math:`x_k` a share of *all* words is replaced by words of the whole vocabulary.
    Unit: as `R3`, for embeddings.

    Args:
        share: Share of the words that are replaced, at least one.
        num_samples: K.
        **settings: ``target`` and ``norm`` of `TokenR4`.

    References:
        smilkov2017smoothgrad, ghitu2025model
    """

    def __init__(
        self, *, share: float = 0.15, num_samples: int = 3, **settings: Unpack[TokenSettings]
    ) -> None:
        super().__init__(**settings)
        self.share = _check_share(share)
        self.num_samples = check_integer("num_samples", num_samples)

    @override
    def gradient(self, probe: Probe) -> Tensor:
        batch = probe.batch
        chosen = choose_tokens(ordinary_tokens(batch, self._text), self.share, self.num_samples)
        drawn = draw_from(self._vocabulary(batch), torch.rand(chosen.shape, device=chosen.device))
        tokens = torch.where(chosen, drawn, batch.x)
        return self.gradients_at(probe, tokens, create_graph=probe.create_graph).mean(dim=0)

    def _vocabulary(self, batch: Batch) -> Tensor:
        if self._text is None:
            present: Tensor = torch.unique(batch.x)
            return present
        words = torch.arange(self._text.vocabulary, device=batch.x.device)
        special = torch.tensor(self._text.special, device=words.device)
        ordinary: Tensor = words[~torch.isin(words, special)]
        return ordinary


class TokenRandR4(TokenR4):
    r"""The largest gradient among texts whose masked tokens are random substitutes.

    ``form="worst"`` takes the text with the largest norm, as `RandR4` does:

    .. math:: \max_{k \le K} \lVert m \odot \nabla_e t(x_k) \rVert_2^2

    It is chosen without a graph and differentiated once. ``form="elementwise"`` is the formula of
    the paper's appendix, :math:`\lVert m \odot \max_k |\nabla_e t(x_k)| \rVert_2^2`, whose graph
    has all K texts. Unit: as `R3`, for embeddings.

    Differs from the paper: its public code may draw no token at all and adds signed numbers. Here
    at least one token of a text changes.

    Args:
        share: Share of the masked tokens that are replaced, at least one.
        num_samples: K.
        form: ``"worst"`` or ``"elementwise"``.
        **settings: ``target`` and ``norm`` of `TokenR4`.

    References:
        ghitu2025model
    """

    def __init__(
        self,
        *,
        share: float = 0.25,
        num_samples: int = 3,
        form: Literal["worst", "elementwise"] = "worst",
        **settings: Unpack[TokenSettings],
    ) -> None:
        super().__init__(**settings)
        self.share = _check_share(share)
        self.num_samples = check_integer("num_samples", num_samples)
        self.form = check_choice("form", form, ("worst", "elementwise"))

    @override
    def gradient(self, probe: Probe) -> Tensor:
        batch, mask = probe.batch, probe.mask
        chosen = choose_tokens(mask[..., 0] != 0, self.share, self.num_samples)
        drawn = draw_from(self.substitutes(batch), torch.rand(chosen.shape, device=chosen.device))
        tokens = torch.where(chosen, drawn, batch.x)
        if self.form == "elementwise":
            gradients = self.gradients_at(probe, tokens, create_graph=probe.create_graph)
            return gradients.abs().amax(dim=0)
        if self.num_samples == 1:
            return self.gradients_at(probe, tokens, create_graph=probe.create_graph)[0]
        worst, known, record = self._worst_of(probe, tokens)
        return self.gradients_at(
            probe, worst, create_graph=probe.create_graph, known=known, record=record
        )[0]

    def _worst_of(self, probe: Probe, tokens: Tensor) -> tuple[Tensor, Tensor, LinearRecord | None]:
        """The worst of K draws for each text, its gradient, and the products on the way to it."""
        counted, mask = _rows_with_a_mask(probe.mask), probe.mask
        has_room = _has_room_for_records(probe)
        record, other = (LinearRecord() if has_room else None for _ in range(2))
        worst = tokens[:1]
        known = self.gradients_at(probe, worst, create_graph=False, record=record)
        largest = sample_norm((mask * known[0]).flatten(1), self.norm)
        for drawn in tokens[1:, None]:
            found = self.gradients_at(probe, drawn, create_graph=False, record=other)
            size = sample_norm((mask * found[0]).flatten(1), self.norm)
            better = size > largest
            worst, largest = (
                torch.where(better[:, None], drawn, worst),
                torch.maximum(size, largest),
            )
            known = torch.where(better[:, None, None], found, known)
            if record is not None and other is not None:
                record.take(other, better[counted])
        return worst, known, record


class TokenAdvR4(TokenR4):
    r"""The gradient of a text whose masked tokens an attack has replaced, one after the other.

    .. math:: w_i = \arg\max_{w \in S} \lVert \nabla_{e_i} t(x_{i \to w}) \rVert_2

    for the masked places in their order; each word is written in before the next place. Candidates
    are scored in the text as it then is, many in one pass, without a graph. The text in the end is
    differentiated once. Unit: as `R3`, for embeddings.

    Differs from the paper: not every substitute is tried at every place unless
    ``num_candidates=None``. Its public code scores candidates in the first text, by a signed sum.

    Args:
        num_candidates: Substitutes that are drawn for each place; None tries all.
        num_places: Most masked places of a text that are searched, the first ones; None is all.
        **settings: ``target`` and ``norm`` of `TokenR4`.

    References:
        ghitu2025model, zou2023universal
    """

    def __init__(
        self,
        *,
        num_candidates: int | None = 8,
        num_places: int | None = 4,
        **settings: Unpack[TokenSettings],
    ) -> None:
        super().__init__(**settings)
        given = {"num_candidates": num_candidates, "num_places": num_places}
        for name, value in given.items():
            if value is not None:
                check_integer(name, value)
        self.num_candidates = num_candidates
        self.num_places = num_places

    @override
    def gradient(self, probe: Probe) -> Tensor:
        tokens, known = self.attack(probe)
        found = None if known is None else known[None]
        return self.gradients_at(probe, tokens[None], create_graph=probe.create_graph, known=found)[
            0
        ]

    def attack(self, probe: Probe) -> tuple[Tensor, Tensor | None]:
        """The token ids in the end, ``(N, T)``, and their gradients; None if nothing was tried."""
        batch, masked = probe.batch, probe.mask[..., 0] != 0
        rank = torch.where(masked, masked.cumsum(dim=1) - 1, -1)
        most = int(masked.sum(dim=1).max()) if len(masked) else 0
        tokens, substitutes = batch.x, self.substitutes(batch)
        each, known = torch.arange(len(batch), device=tokens.device), None
        for number in range(most if self.num_places is None else min(most, self.num_places)):
            place = rank == number  # at most one of each text
            candidates = self._candidates(substitutes, len(batch))  # (C, N)
            tried = torch.where(place, candidates[..., None], tokens)
            found = self.gradients_at(probe, tried, create_graph=False)
            sizes = (found * place[..., None]).square().sum(dim=(2, 3))  # (C, N)
            best = sizes.argmax(dim=0)
            tokens, known = tried[best, each], found[best, each]
        return tokens, known

    def _candidates(self, substitutes: Tensor, size: int) -> Tensor:
        num, device = self.num_candidates, substitutes.device
        if num is None or num >= len(substitutes):
            return substitutes[:, None].expand(-1, size)
        order = torch.rand(size, len(substitutes), device=device).argsort(dim=1)[:, :num]
        return substitutes[order].T


def choose_tokens(allowed: Tensor, share: float, num_draws: int) -> Tensor:
    """Choose a share of the allowed tokens of each text at random, at least one: ``(K, N, T)``.

    Args:
        allowed: Which tokens may be chosen, ``(N, T)``.
        share: Share of them, rounded.
        num_draws: K.

    Example:
        >>> allowed = torch.tensor([[True, True, True, False]])
        >>> choose_tokens(allowed, 0.66, 2).sum(dim=2)
        tensor([[2],
                [2]])
    """
    noise = torch.rand(num_draws, *allowed.shape, device=allowed.device)
    rank = noise.masked_fill(~allowed, 2.0).argsort(dim=2).argsort(dim=2)
    wanted = (share * allowed.sum(dim=1)).round().clamp(min=1)
    return allowed & (rank < wanted[:, None])


def _rows_with_a_mask(mask: Tensor) -> Tensor:
    """The numbers of the texts with a mask; the first if there are none, for a graph of zeros."""
    found = (mask != 0).flatten(1).any(dim=1).nonzero().flatten()
    return found if len(found) else found.new_zeros(min(1, len(mask)))


def _has_room_for_records(probe: Probe) -> bool:
    """Whether the products of linear layers for two draws fit the memory of a training step."""
    batch = probe.batch
    if not probe.create_graph or torch.is_autocast_enabled(batch.x.device.type):
        return False
    one = pass_bytes(probe.model, batch.x, batch.inputs).graph  # outputs, as many gradients, twice
    return 4 * len(batch) * one <= budget_of(batch.x.device, in_training=True)


def _check_share(share: float) -> float:
    if not check_fraction("share", share):
        raise InvalidSettingError("Expected `share` above 0, but got 0. Use r3().")
    return float(share)


def _masked_tokens(data: Dataset) -> tuple[int, ...]:
    """The distinct tokens that masks cover in some of the data."""
    found: set[int] = set()
    for rows in torch.split(torch.arange(min(len(data), NUM_SEEN)), 256):
        batch = data.take(rows)
        if batch.mask is not None and batch.mask.shape == batch.x.shape:
            found |= set(batch.x[batch.mask != 0].tolist())
    return tuple(sorted(found))


@recipe(TokenSmoothR3)
def token_smooth_r3(
    task: Term, penalty: TokenSmoothR3, *, weight: Weight = "controlled"
) -> Objective:
    """Smooth-R3 for texts: no mean gradient inside the mask as words change.

    Example:
        >>> token_smooth_r3(weight=3.0).weights
        {'cross_entropy': 1.0, 'token_smooth_r3': 3.0}
    """
    return task + weight * penalty


@recipe(TokenRandR4)
def token_rand_r4(task: Term, penalty: TokenRandR4, *, weight: Weight = "controlled") -> Objective:
    """Rand-R4 for texts: no gradient inside the mask for random substitutes.

    Example:
        >>> token_rand_r4(weight=3.0).weights
        {'cross_entropy': 1.0, 'token_rand_r4': 3.0}
    """
    return task + weight * penalty


@recipe(TokenAdvR4)
def token_adv_r4(task: Term, penalty: TokenAdvR4, *, weight: Weight = "controlled") -> Objective:
    """Adv-R4 for texts: no gradient inside the mask for the worst substitutes.

    Example:
        >>> token_adv_r4(weight=3.0).weights
        {'cross_entropy': 1.0, 'token_adv_r4': 3.0}
    """
    return task + weight * penalty
