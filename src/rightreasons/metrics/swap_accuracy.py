"""Swap accuracy: accuracy after the masked features were exchanged."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics.metric import (
    Metric,
    Rows,
    bootstrap_means,
    check_prepared,
    percentile_interval,
    refuse_without_masks,
)
from rightreasons.probe.probe import Probe

__all__ = ["SwapAccuracy", "transplant"]

SOURCES = ("samples", "uniform", "pasted")


class SwapAccuracy(Metric):
    r"""Accuracy after the masked features of each sample got values from elsewhere.

    It needs masks only, no groups and no clean data. It is therefore the honest way to choose
    settings when the validation data have the shortcut too. A model that uses the masked features
    is as wrong here as it will be where the shortcut breaks.

    ================== ===============================================================
    ``swap_accuracy``  fraction of right answers over all annotated samples and draws
    ``low``, ``high``  its 95 % bootstrap interval over samples
    ``average``        mean over classes of the accuracy in the class (macro)
    ``worst``          the smallest of them
    ``class/NAME``     accuracy in the class called NAME
    ================== ===============================================================

    Draws depend on the seed and the sample, never on the batch. Samples without an
    annotation still have their shortcut, so they neither count nor give values.

    Args:
        source: ``"samples"``: the masked values of another sample, drawn anew each time.
            ``"uniform"``: every masked feature uniform in the data's valid range. ``"pasted"``:
            another sample's masked features at their own positions, whether the sample has a mask
            there or not. Use it for shortcuts that some classes never have, such as an artefact on
            benign lesions only, which an exchange cannot bring to the others.
        num_draws: Number of times each sample is altered.
        seed: Random seed for the draws.
    """

    name = "swap_accuracy"
    higher_is_better = True

    def __init__(
        self,
        *,
        source: Literal["samples", "uniform", "pasted"] = "samples",
        num_draws: int = 5,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if source not in SOURCES:
            raise InvalidSettingError(
                f"Expected `source` to be one of {SOURCES}, but got {source!r}."
            )
        if num_draws < 1:
            raise InvalidSettingError(f"Expected `num_draws` of at least 1, but got {num_draws}.")
        self.source = source
        self.num_draws = num_draws
        self.seed = seed
        self._data: Dataset | None = None
        self._donors = torch.empty(0)

    def prepare(self, data: Dataset) -> None:
        """Draw the donors of every sample."""
        refuse_without_masks(self, data, " Use Accuracy.")
        self._data = data
        generator = torch.Generator().manual_seed(self.seed)
        self._donors = _draw_donors(_masked_samples(data), len(data), self.num_draws, generator)

    @override
    def measure(self, probe: Probe) -> Rows:
        data, index = check_prepared(self, self._data, probe.batch.index)
        draws = range(self.num_draws)
        altered = torch.stack([self._alter(probe, data, index, draw) for draw in draws])
        correct = probe.each_at(altered, lambda at: at.logits.argmax(dim=1) == at.batch.y)
        annotated = probe.batch.annotated
        counts = torch.ones_like(probe.batch.y).bool() if annotated is None else annotated
        return {"correct": correct.T, "y": probe.batch.y, "counts": counts}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        counts = rows["counts"]
        if not bool(counts.any()):
            raise InvalidBatchError(
                "Expected an annotated sample for SwapAccuracy, but got none. Use Accuracy."
            )
        fractions, labels = rows["correct"][counts].double().mean(dim=1), rows["y"][counts]
        names = self._data.card.classes if self._data is not None else ()
        present = torch.unique(labels).tolist()
        classes = {y: float(fractions[labels == y].mean()) for y in present}
        low, high = percentile_interval(bootstrap_means(fractions.numpy(), seed=self.seed))
        return {
            "": float(fractions.mean()),
            "low": low,
            "high": high,
            "average": sum(classes.values()) / len(classes),
            "worst": min(classes.values()),
            **{f"class/{names[y] if y < len(names) else y}": classes[y] for y in present},
        }

    def _alter(self, probe: Probe, data: Dataset, index: Tensor, draw: int) -> Tensor:
        x, mask = probe.features.detach(), probe.mask
        if self.source == "uniform":
            low, high = data.card.valid_range
            noise = torch.stack([self._noise(x[0], draw, int(sample)) for sample in index])
            return torch.lerp(x, low + (high - low) * noise.to(x), mask.expand_as(x))
        donors = data.take(self._donors[draw, index.cpu()]).to(x.device)
        if donors.mask is None:
            raise InvalidBatchError("Expected every batch to have masks, but got one without.")
        if self.source == "pasted":
            return torch.lerp(x, donors.x.to(x), donors.mask.expand_as(x).to(x))
        return transplant(x, mask, donors.x, donors.mask)

    def _noise(self, like: Tensor, draw: int, sample: int) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, draw, sample)) % 2**63)
        return torch.rand(like.shape, generator=generator)


def transplant(x: Tensor, mask: Tensor, donor_x: Tensor, donor_mask: Tensor) -> Tensor:
    """Put the donors' masked values where the samples' masks are.

    The k-th masked position of a sample, in reading order, takes the value of the k-th masked
    position of its donor. If their numbers differ, it takes that of the same relative position.
    All channels move together if they share the mask. ``x`` is unchanged where a sample or its
    donor has no mask; a soft mask mixes old and new.

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
    masked, donor_masked = flat > 0, donor_flat > 0
    count, donor_count = (one.sum(dim=1, keepdim=True) for one in (masked, donor_masked))
    rank = masked.cumsum(dim=1) - 1  # (N, P)
    donor_rank = torch.div(rank * donor_count, count.clamp(min=1), rounding_mode="floor")
    # A stable sort puts the donor's masked positions first, in reading order: rank -> position.
    order = donor_masked.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    position = order.gather(1, donor_rank.clamp(min=0).clamp(max=order.shape[1] - 1))  # (N, P)
    values = donor_x.reshape(len(x), -1, flat.shape[1])  # (N, C, P), C = 1 if not shared
    moved = values.gather(2, position[:, None].expand_as(values)).reshape(x.shape)
    has_donor = (donor_count > 0).reshape(-1, *[1] * (x.ndim - 1))
    return torch.where(has_donor & (mask > 0), torch.lerp(x, moved, mask.expand_as(x).to(x)), x)


def _masked_samples(data: Dataset) -> Tensor:
    """The indices of samples whose mask is not empty; all indices if there is none."""
    parts = [
        rows[mask.flatten(1).any(dim=1).cpu()]
        for rows in torch.split(torch.arange(len(data)), 500)
        if (mask := data.take(rows).mask) is not None
    ]
    indices = torch.cat(parts) if parts else torch.arange(0)
    return indices if len(indices) else torch.arange(len(data))


def _draw_donors(
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
