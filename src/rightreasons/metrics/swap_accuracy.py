"""Swap accuracy: accuracy after the masked features were exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_flag
from rightreasons.datasets.dataset import Dataset
from rightreasons.datasets.telling_masks import coarse_places, mask_tells_class
from rightreasons.datasets.wrappers import cover
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics.exchange import (
    alter_tokens,
    draw_donors,
    draw_donors_across,
    remove_masked,
    transplant,
)
from rightreasons.metrics.metric import (
    Metric,
    Rows,
    bootstrap_means,
    check_prepared,
    percentile_interval,
    refuse_without_masks,
)
from rightreasons.probe.embeddings import embed_tokens
from rightreasons.probe.probe import Probe

__all__ = ["SwapAccuracy", "transplant"]

SOURCES = ("auto", "samples", "uniform", "pasted")
WAYS = ("pasted", "blurred", "removed")
LARGE_MASK = 0.5  # pasting such a mask at its own place would cover the sample's own object


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
    ``changed``        fraction of the draws that changed their sample at all
    ``before``         accuracy of the samples that a draw changed, before the change
    ``cost``           what those samples lose, with ``cost/low`` and ``cost/high``
    ``pasted``, ...    fraction of right answers by what was done, if more than one thing was
    ================== ===============================================================

    If only dogs carry a tag, tags that dogs exchange say nothing. By default the metric therefore
    looks at the masks first. Where their presence or place tells the class, it alters every sample
    in several ways. It pastes what is masked in a sample of *another* class, at its own place. It
    blurs what is masked, and it removes it. A sample without a mask gets a pasted one each time.
    There are at least as many draws as ways.

    Draws depend on the seed and the sample, never on the batch. Samples without an
    annotation still have their shortcut, so they neither count nor give values.

    Args:
        source: ``"auto"``: as ``"samples"`` if every class carries masks equally often and at the
            same places, else across classes as described above. A soft mask counts as strong as
            its strongest place. ``"samples"``: the masked values of another sample, drawn anew
            each time. ``"uniform"``: every masked feature uniform in the data's valid range.
            ``"pasted"``: another sample's masked features at their own positions, whether the
            sample has a mask there or not.
        across: Whether values come from samples of *other* classes alone, as far as there are any.
            Else a donor may have the sample's own class, and its shortcut then tells the truth.
        num_draws: Number of times each sample is altered.
        seed: Random seed for the draws.
    """

    name = "swap_accuracy"
    takes_texts = True
    higher_is_better = True

    def __init__(
        self,
        *,
        source: Literal["auto", "samples", "uniform", "pasted"] = "auto",
        across: bool = False,
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
        self.across = check_flag("across", across)
        self.num_draws = num_draws
        self.seed = seed
        self._data: Dataset | None = None
        self._donors = torch.empty(0)
        self._ways: tuple[str, ...] = ()
        self._usual: Tensor | None = None
        self._strength = 1.0
        self.num_masked = 0  # samples with a mask, known once the metric is prepared

    def prepare(self, data: Dataset) -> None:
        """Look at the masks, and draw the donors of every sample."""
        refuse_without_masks(self, data, " Use Accuracy.")
        self._data, self._ways = data, ()
        masks = _read_masks(data)
        self._strength = masks.strength
        self.num_masked = int(masks.is_masked.sum())
        if self.source == "auto" and masks.tell_class(data.labels):
            self._usual, self._ways = masks.usual, _possible_ways(data, masks)
        num_draws = max(self.num_draws, len(self._ways))
        generator = torch.Generator().manual_seed(self.seed)
        if self._ways:
            strong = masks.carries.nonzero().flatten()
            self._donors = draw_donors_across(strong, data.labels, num_draws, generator)
        else:
            candidates = masks.is_masked.nonzero().flatten()
            candidates = candidates if len(candidates) else torch.arange(len(data))
            if self.across:
                self._donors = draw_donors_across(candidates, data.labels, num_draws, generator)
            else:
                self._donors = draw_donors(candidates, len(data), num_draws, generator)

    @override
    def measure(self, probe: Probe) -> Rows:
        altered = self.alter(probe)
        correct = probe.each_at(
            altered, lambda at: at.logits.argmax(dim=1) == at.batch.y, needs_gradient=False
        )
        annotated = probe.batch.annotated
        counts = torch.ones_like(probe.batch.y).bool() if annotated is None else annotated
        differs = (altered != probe.features.detach()).flatten(2).any(dim=2)
        return {
            "correct": correct.T,
            "before": probe.logits.argmax(dim=1) == probe.batch.y,
            "changed": differs.T,
            "y": probe.batch.y,
            "counts": counts,
        }

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        counts = rows["counts"]
        if not bool(counts.any()):
            raise InvalidBatchError(
                "Expected an annotated sample for SwapAccuracy, but got none. Use Accuracy."
            )
        correct, labels = rows["correct"][counts].double(), rows["y"][counts]
        fractions = correct.mean(dim=1)
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
            **self._costs(correct, rows["before"][counts], rows["changed"][counts]),
        }

    def alter(self, probe: Probe) -> Tensor:
        """The altered copies of the batch's samples, ``(draws, N, *S)``."""
        data, index = check_prepared(self, self._data, probe.batch.index)
        draws = range(len(self._donors))
        return torch.stack([self._alter(probe, data, index, draw) for draw in draws])

    def describe(self, draw: int) -> str:
        """What one draw does to what is masked: exchanged, pasted, blurred, removed."""
        if self._ways:
            return self._ways[draw % len(self._ways)]
        return {"uniform": "filled with noise", "pasted": "pasted"}.get(self.source, "exchanged")

    def _costs(self, correct: Tensor, before: Tensor, changed: Tensor) -> dict[str, float]:
        """What the samples that changed lose, and the accuracy in each way."""
        values = {"changed": float(changed.double().mean())}
        rows = changed.any(dim=1)
        if bool(rows.any()):
            lost = before[rows].double() - correct[rows].mean(dim=1)
            low, high = percentile_interval(bootstrap_means(lost.numpy(), seed=self.seed))
            before_change = float(before[rows].double().mean())
            values |= {"before": before_change, "cost": float(lost.mean())}
            values |= {"cost/low": low, "cost/high": high}
        for number, way in enumerate(self._ways):
            draws = slice(number, None, len(self._ways))
            seen = changed[:, draws]
            if bool(seen.any()):
                values[way] = float(correct[:, draws][seen].mean())
        return values

    def _alter(self, probe: Probe, data: Dataset, index: Tensor, draw: int) -> Tensor:
        if not probe.batch.x.is_floating_point():
            return self._alter_texts(probe, data, index, draw)
        x, mask = probe.features.detach(), probe.mask
        if self.source == "uniform":
            low, high = data.card.valid_range
            noise = torch.stack([self._noise(x[0], draw, int(sample)) for sample in index])
            return torch.lerp(x, low + (high - low) * noise.to(x), mask.expand_as(x))
        donors = data.take(self._donors[draw, index.cpu()]).to(x.device)
        if donors.mask is None:
            raise InvalidBatchError("Expected every batch to have masks, but got one without.")
        donor_mask = donors.mask
        if self.source == "pasted":
            return torch.lerp(x, donors.x.to(x), donor_mask.expand_as(x).to(x))
        if self.source == "auto":
            mask, donor_mask = self._strengthen(mask), self._strengthen(donor_mask)
        if not self._ways:
            return transplant(x, mask, donors.x.to(x), donor_mask)
        return self._alter_across(x, mask, donors.x.to(x), donor_mask, self.describe(draw))

    def _alter_across(
        self, x: Tensor, mask: Tensor, donor_x: Tensor, donor_mask: Tensor, way: str
    ) -> Tensor:
        mask, donor_mask = (
            one.reshape(one.shape + (1,) * (x.ndim - one.ndim)).expand_as(x).to(x)
            for one in (mask, donor_mask)
        )
        areas = [one.flatten(1).mean(dim=1) for one in (mask, donor_mask)]
        column = (-1, *[1] * (x.ndim - 1))
        has_mask = (mask.flatten(1).amax(dim=1) >= 0.5).reshape(column)
        removed = remove_masked(x, mask, self._usual)
        pasted = torch.lerp(removed, donor_x, donor_mask)
        if way == "pasted":
            is_large = (torch.maximum(*areas) > LARGE_MASK).reshape(column)
            return torch.where(
                is_large & has_mask, transplant(x, mask, donor_x, donor_mask), pasted
            )
        gone = cover(x, mask, "blur") if way == "blurred" else removed
        return torch.where(has_mask, gone, pasted)

    def _alter_texts(self, probe: Probe, data: Dataset, index: Tensor, draw: int) -> Tensor:
        batch = probe.batch
        donors = data.take(self._donors[draw, index.cpu()]).to(batch.x.device)
        one_more = torch.empty(batch.x.shape[1] + 1)
        noise = torch.stack([self._noise(one_more, draw, int(sample)) for sample in index])
        noise = noise.to(batch.x.device).roll(-1, dims=1)  # the same for every padding
        tokens = alter_tokens(batch, donors, self.describe(draw), noise, data.card.text)
        return embed_tokens(probe.model, batch, tokens)

    def _strengthen(self, mask: Tensor) -> Tensor:
        """Scale soft masks so that each is 1 at its strongest place; faint ones stay."""
        peak = mask.flatten(1).amax(dim=1).reshape(-1, *[1] * (mask.ndim - 1))
        return torch.where(peak >= self._strength / 2, mask / peak.clamp(min=1e-12), mask)

    def _noise(self, like: Tensor, draw: int, sample: int) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, draw, sample)) % 2**63)
        return torch.rand(like.shape, generator=generator)


def _possible_ways(data: Dataset, masks: _Masks) -> tuple[str, ...]:
    """What can be done to samples whose masks tell the class."""
    text = data.card.text
    if text is not None and text.mask_token is None:
        return ("pasted",)
    return WAYS if masks.usual is None and text is None else ("pasted", "removed")


@dataclass(frozen=True)
class _Masks:
    """What is known of all masks of a data set.

    Args:
        is_masked: Whether each sample has a mask that is not empty, ``(N,)``.
        carries: The same, for masks at least half as strong as the strongest.
        annotated: Whether each sample was annotated.
        places: Coarse pictures of the masks, ``(N, P)``.
        strength: Largest value of a mask.
        usual: Mean of each feature over the samples without a mask on it; None for images.
    """

    is_masked: Tensor
    carries: Tensor
    annotated: Tensor
    places: Tensor
    strength: float
    usual: Tensor | None

    def tell_class(self, labels: Tensor) -> bool:
        """Whether the presence or the place of masks tells the class of annotated samples."""
        rows = self.annotated.cpu()
        labels, carries, places = labels.cpu()[rows], self.carries[rows], self.places[rows]
        return bool(carries.any()) and mask_tells_class(labels, carries, places)


def _read_masks(data: Dataset) -> _Masks:
    peaks, annotated, places = [], [], []
    usual = _UsualValues()
    for rows in torch.split(torch.arange(len(data)), 500):
        batch = data.take(rows)
        mask = torch.zeros(len(rows), 1) if batch.mask is None else batch.mask.cpu()
        peaks.append(mask.flatten(1).amax(dim=1).float())
        everyone = torch.ones(len(rows), dtype=torch.bool)
        annotated.append(everyone if batch.annotated is None else batch.annotated.cpu())
        # The place of a word in a text says nothing, and texts differ in length.
        is_text = not batch.x.is_floating_point()
        places.append(torch.zeros(len(rows), 1) if is_text else coarse_places(mask))
        if batch.x.ndim != 4 and batch.x.is_floating_point():
            usual.add(batch.x.cpu(), mask)
    peak = torch.cat(peaks)
    strength = float(peak.max())
    return _Masks(
        is_masked=peak > 0,
        carries=peak >= max(strength / 2, 1e-12),
        annotated=torch.cat(annotated),
        places=torch.cat(places),
        strength=strength,
        usual=usual.mean(),
    )


class _UsualValues:
    """The mean of each feature over unmasked samples, added up batch by batch."""

    def __init__(self) -> None:
        self._sums: list[Tensor] = []

    def add(self, x: Tensor, mask: Tensor) -> None:
        """Add a batch."""
        mask = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)).expand_as(x)
        kept, x = (mask == 0).double(), x.double()
        parts = [(x * kept).sum(dim=0), kept.sum(dim=0), x.sum(dim=0), torch.ones_like(x).sum(0)]
        before = self._sums or [torch.zeros_like(part) for part in parts]
        self._sums = [one + two for one, two in zip(before, parts, strict=True)]

    def mean(self) -> Tensor | None:
        """The means; over all samples for a feature that every mask covers."""
        if not self._sums:
            return None
        kept_sum, num_kept, total, count = self._sums
        return torch.where(num_kept > 0, kept_sum / num_kept.clamp(min=1), total / count)
