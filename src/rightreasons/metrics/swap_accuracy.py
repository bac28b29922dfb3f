"""Is the model still right when what must not matter is exchanged?"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics.metric import Metric, Rows, bootstrap_means, percentile_interval
from rightreasons.probe.probe import Probe

__all__ = ["SwapAccuracy", "transplanted"]

SOURCES = ("samples", "uniform", "pasted")


class SwapAccuracy(Metric):
    r"""Accuracy after the masked features of each sample took values from elsewhere.

    It needs masks only, no groups and no clean data, so it is the honest way to choose settings
    when the validation data carry the shortcut too: a model that reads the masked features is as
    wrong here as it will be where the shortcut breaks.

    ================== ===============================================================
    ``swap_accuracy``  share of right answers over all annotated samples and draws
    ``low``, ``high``  its 95 % bootstrap interval over samples
    ``average``        mean over classes of the accuracy in the class (macro)
    ``worst``          the smallest of them
    ``class/NAME``     accuracy in the class called NAME
    ================== ===============================================================

    Draws depend on the seed and the sample, never on the batch. Samples nobody annotated still
    carry whatever must not matter, so they neither count nor give values.

    Args:
        source: ``"samples"``: the masked values of another sample, drawn anew each time.
            ``"uniform"``: every masked feature uniform in the data's valid range. ``"pasted"``:
            another sample's masked features as they are and where they are, over whatever a
            sample has there, masked or not; for what some classes never carry, such as an
            artefact on benign lesions only, which an exchange cannot bring to the others.
        num_draws: How often each sample is altered.
        seed: Of the draws.
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
        if not data.has_masks:
            raise InvalidBatchError(
                "Expected data with masks for SwapAccuracy, but got none. Use Accuracy."
            )
        self._data = data
        generator = torch.Generator().manual_seed(self.seed)
        self._donors = _others(_places_of_masks(data), len(data), self.num_draws, generator)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        data, index = self._data, probe.batch.index
        if data is None or index is None:
            raise InvalidBatchError(
                "Expected SwapAccuracy.prepare(data) before the first batch, and batches with an "
                "`index`. evaluate() does both."
            )
        draws = range(self.num_draws)
        altered = torch.stack([self._altered(probe, data, index, draw) for draw in draws])
        correct = probe.each_at(altered, lambda at: at.logits.argmax(dim=1) == at.batch.y)
        annotated = probe.batch.annotated
        counts = torch.ones_like(probe.batch.y).bool() if annotated is None else annotated
        return {"correct": correct.T, "y": probe.batch.y, "counts": counts}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        counts = rows["counts"]
        if not bool(counts.any()):
            raise InvalidBatchError(
                "Expected an annotated sample for SwapAccuracy, but got none. Use Accuracy."
            )
        shares, labels = rows["correct"][counts].double().mean(dim=1), rows["y"][counts]
        names = self._data.card.classes if self._data is not None else ()
        present = torch.unique(labels).tolist()
        classes = {y: float(shares[labels == y].mean()) for y in present}
        low, high = percentile_interval(bootstrap_means(shares.numpy(), seed=self.seed))
        return {
            "": float(shares.mean()),
            "low": low,
            "high": high,
            "average": sum(classes.values()) / len(classes),
            "worst": min(classes.values()),
            **{f"class/{names[y] if y < len(names) else y}": classes[y] for y in present},
        }

    def _altered(self, probe: Probe, data: Dataset, index: Tensor, draw: int) -> Tensor:
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
        return transplanted(x, mask, donors.x, donors.mask)

    def _noise(self, like: Tensor, draw: int, sample: int) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, draw, sample)) % 2**63)
        return torch.rand(like.shape, generator=generator)


def _places_of_masks(data: Dataset) -> Tensor:
    """Where samples whose mask is not empty are; everybody if there is none."""
    found = [
        rows[mask.flatten(1).any(dim=1).cpu()]
        for rows in torch.split(torch.arange(len(data)), 500)
        if (mask := data.take(rows).mask) is not None
    ]
    places = torch.cat(found) if found else torch.arange(0)
    return places if len(places) else torch.arange(len(data))


def _others(places: Tensor, size: int, num_draws: int, generator: torch.Generator) -> Tensor:
    """For each of ``size`` samples, places drawn uniformly, never its own: (draws, size)."""
    if len(places) == 1:
        return places.expand(num_draws, size)
    own = torch.full((size,), -1)
    own[places] = torch.arange(len(places))  # a sample's number among the places
    span = len(places) - (own >= 0).long()  # how many others there are
    drawn = (torch.rand(num_draws, size, generator=generator, dtype=torch.float64) * span).long()
    drawn += (own >= 0) & (drawn >= own)  # step over itself
    return places[drawn]


def transplanted(x: Tensor, mask: Tensor, donor_x: Tensor, donor_mask: Tensor) -> Tensor:
    """Put the donors' masked values where the samples' masks are.

    The k-th masked position of a sample, in reading order, takes the value of the k-th masked
    position of its donor; if they have different numbers of them, of the one at the same relative
    place. All channels move together if the mask is shared by them. A sample or a donor without a
    mask leaves ``x`` as it is; a soft mask mixes old and new.

    Args:
        x: ``(N, *S)``.
        mask: ``(N, *M)``, broadcasting to ``x``.
        donor_x: ``(N, *S)``.
        donor_mask: ``(N, *M)``.

    Example:
        >>> x, mask = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.0, 1.0, 1.0]])
        >>> transplanted(x, mask, torch.tensor([[7.0, 8.0, 9.0]]), torch.tensor([[1.0, 1.0, 0.0]]))
        tensor([[1., 7., 8.]])
    """
    shared = mask.ndim > 2 and mask.shape[1] == 1 and x.shape[1] != 1  # one mask, many channels
    full = mask.expand_as(x[:, :1] if shared else x).flatten(1)  # (N, P)
    donor_full = donor_mask.expand_as(donor_x[:, :1] if shared else donor_x).flatten(1)
    chosen, offered = full > 0, donor_full > 0
    count, offer = chosen.sum(dim=1, keepdim=True), offered.sum(dim=1, keepdim=True)
    rank = chosen.cumsum(dim=1) - 1  # (N, P)
    wanted = torch.div(rank * offer, count.clamp(min=1), rounding_mode="floor").clamp(min=0)
    order = offered.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    place = order.gather(1, wanted.clamp(max=order.shape[1] - 1))  # (N, P)
    values = donor_x.reshape(len(x), -1, full.shape[1])  # (N, C, P), C = 1 if not shared
    moved = values.gather(2, place[:, None].expand_as(values)).reshape(x.shape)
    usable = (offer > 0).reshape(-1, *[1] * (x.ndim - 1))
    return torch.where(usable & (mask > 0), torch.lerp(x, moved, mask.expand_as(x).to(x)), x)
