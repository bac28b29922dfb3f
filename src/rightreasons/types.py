"""The types that all packages share: a batch of samples, an interval, a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.errors import InvalidBatchError, UnknownNameError

__all__ = ["Batch", "Interval", "Target"]


class Target(StrEnum):
    r"""The scalar :math:`t(x)` of a sample that is differentiated, bounded or attributed.

    ==================== ===================================================
    ``loss``             :math:`-\log p(y \mid x)`, the cross-entropy
    ``logit``            :math:`f_y(x)`
    ``log_probabilities`` :math:`\sum_k \log p(k \mid x)`, as Ross et al. 2017
    ``logsumexp``        :math:`\log \sum_k e^{f_k(x)}`, the log-density up to a constant
    ``margin``           :math:`f_y(x) - \max_{k \ne y} f_k(x)`
    ==================== ===================================================

    A target is a function: logits ``(N, K)`` and labels ``(N,)`` -> values ``(N,)``. Wherever
    the library takes a target, it also takes its name.

    Example:
        >>> Target("logit")(torch.tensor([[1.0, 3.0]]), torch.tensor([1]))
        tensor([3.])
    """

    LOSS = "loss"
    LOGIT = "logit"
    LOG_PROBABILITIES = "log_probabilities"
    LOGSUMEXP = "logsumexp"
    MARGIN = "margin"

    @classmethod
    def _missing_(cls, value: object) -> Target:
        raise UnknownNameError("target", str(value), [member.value for member in cls])

    def __call__(self, logits: Tensor, y: Tensor) -> Tensor:
        """Evaluate the target: logits ``(N, K)``, labels ``(N,)`` -> ``(N,)``."""
        match self:
            case Target.LOSS:
                return functional.cross_entropy(logits, y, reduction="none")
            case Target.LOGIT:
                return logits.gather(1, y[:, None]).squeeze(1)
            case Target.LOG_PROBABILITIES:
                return functional.log_softmax(logits, dim=1).sum(dim=1)
            case Target.LOGSUMEXP:
                return torch.logsumexp(logits, dim=1)
            case Target.MARGIN:
                logit = logits.gather(1, y[:, None]).squeeze(1)
                others = logits.scatter(1, y[:, None], -torch.inf)
                return logit - others.amax(dim=1)


class Interval(NamedTuple):
    """The set of tensors between ``lower`` and ``upper``, element by element."""

    lower: Tensor
    upper: Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples, their labels, masks and groups.

    The constructor checks all fields. Slices, moves and collations of a batch are not checked
    again.

    Args:
        x: Inputs ``(N, *S)``: floating point, or integer token ids.
        y: Labels ``(N,)``, integers from 0.
        mask: ``(N, *M)`` in [0, 1], where ``M`` broadcasts to ``S``: 1 where the model must not
            look. An image mask ``(N, 1, H, W)`` serves all channels.
        annotated: ``(N,)`` booleans: whether a person annotated the sample. It tells a mask of
            zeros ("nothing to avoid") from a missing mask, and a mask drawn by hand from a
            predicted one. Defaults to True everywhere if there are masks.
        group: ``(N,)`` integers from 0; -1 is unknown.
        index: ``(N,)`` integers: the index of each sample in its data set.

    Example:
        >>> batch = Batch(x=torch.zeros(2, 1, 4, 4), y=torch.tensor([0, 1]))
        >>> len(batch), batch.mask is None
        (2, True)
        >>> batch[:1].y
        tensor([0])
    """

    x: Tensor
    y: Tensor
    mask: Tensor | None = None
    annotated: Tensor | None = None
    group: Tensor | None = None
    index: Tensor | None = None

    def __post_init__(self) -> None:
        _check_inputs(self.x)
        size = self.x.shape[0]
        for name, kind in (
            ("y", "integers"),
            ("annotated", "booleans"),
            ("group", "integers"),
            ("index", "integers"),
        ):
            value = getattr(self, name)
            if value is not None or name == "y":
                object.__setattr__(self, name, _checked_column(name, kind, value, size))
        if bool((self.y < 0).any()):
            raise InvalidBatchError(
                f"Expected `y` to hold classes from 0, but got {int(self.y.min())}."
            )
        if self.group is not None and bool((self.group < -1).any()):
            raise InvalidBatchError(
                f"Expected `group` from 0, or -1 for unknown, but got {int(self.group.min())}."
            )
        if self.mask is not None:
            object.__setattr__(self, "mask", _checked_mask(self.mask, self.x))
            if self.annotated is None:
                everyone = torch.ones(size, dtype=torch.bool, device=self.x.device)
                object.__setattr__(self, "annotated", everyone)

    @classmethod
    def trusted(cls, **parts: Tensor | None) -> Batch:
        """Make a batch from fields that were checked before, without checking them again."""
        batch = object.__new__(cls)
        for field in fields(cls):
            object.__setattr__(batch, field.name, parts.get(field.name))
        return batch

    @classmethod
    def collate(cls, batches: Sequence[Batch]) -> Batch:
        """Concatenate batches; a field that only some of them have is an error."""
        if not batches:
            raise InvalidBatchError("Expected at least one batch to collate, but got none.")
        parts: dict[str, Tensor | None] = {}
        for field in fields(cls):
            values = [getattr(batch, field.name) for batch in batches]
            missing = sum(value is None for value in values)
            if 0 < missing < len(values):
                raise InvalidBatchError(
                    f"Expected all batches to have `{field.name}` or none of them, but "
                    f"{missing} of {len(values)} have none."
                )
            shapes = {tuple(value.shape[1:]) for value in values if value is not None}
            if len(shapes) > 1:
                raise InvalidBatchError(
                    f"Expected `{field.name}` of one shape in all batches, but got "
                    f"{' and '.join(map(str, sorted(shapes)))}. Resize the samples first."
                )
            parts[field.name] = None if missing else torch.cat(values)
        return cls.trusted(**parts)

    def to(self, *args: Any, **kwargs: Any) -> Batch:
        """Move the batch as `Tensor.to` does; a dtype changes ``x`` and ``mask`` only."""
        parts: dict[str, Tensor | None] = {}
        for name, value in self._parts().items():
            if value is not None and value.is_floating_point():
                value = value.to(*args, **kwargs)
            elif value is not None:
                value = value.to(torch.empty(0, device=value.device).to(*args, **kwargs).device)
            parts[name] = value
        return Batch.trusted(**parts)

    def __getitem__(self, rows: slice | Tensor) -> Batch:
        """Select samples by a slice, by indices or by a boolean tensor."""
        if isinstance(rows, int):
            raise InvalidBatchError(
                f"Expected a slice or a tensor of rows, but got {rows}. "
                f"Use batch[{rows}:{rows + 1}]."
            )
        return Batch.trusted(
            **{name: None if part is None else part[rows] for name, part in self._parts().items()}
        )

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def guided(self) -> Tensor | None:
        """Which masks a method uses, ``(N,)`` booleans; None if there are no masks.

        A mask is used if the sample is annotated or if the mask is not all zero (predicted).
        """
        if self.mask is None or self.annotated is None:
            return None
        return self.annotated | (self.mask != 0).flatten(1).any(dim=1)

    def repeat(self, times: int) -> Batch:
        """Stack ``times`` copies along the batch dimension, copy after copy."""
        return Batch.collate([self] * times)

    def replace(self, **parts: Tensor | None) -> Batch:
        """Copy the batch with other values for some fields, and check all fields.

        For values from outside. `with_` is faster where the values come from a checked batch.
        """
        return Batch(**{**self._parts(), **parts})

    def with_(self, **parts: Tensor | None) -> Batch:
        """Copy the batch with other values for some fields, without any check.

        For values that were computed from this batch and keep its shapes, types and ranges.

        Example:
            >>> batch = Batch(x=torch.zeros(2, 3), y=torch.tensor([0, 1]))
            >>> batch.with_(x=batch.x + 1).x.mean()
            tensor(1.)
        """
        return Batch.trusted(**{**self._parts(), **parts})

    def _parts(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _check_inputs(x: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise InvalidBatchError(
            f"Expected `x` to be a tensor, but got {type(x).__name__}. Use torch.as_tensor(x)."
        )
    if x.ndim < 2:
        raise InvalidBatchError(
            f"Expected `x` of shape (N, *S) with at least one feature axis, but got "
            f"{tuple(x.shape)}. Use x.unsqueeze(0) for a single sample."
        )
    if x.is_complex():
        raise InvalidBatchError(f"Expected real `x`, but got {x.dtype}. Use torch.view_as_real(x).")
    if x.dtype == torch.uint8:
        raise InvalidBatchError(
            "Expected `x` to be floating point (or integer token ids), but got 8-bit pixels. "
            "Use x.float() / 255."
        )
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        bad = (~torch.isfinite(x)).flatten(1).any(dim=1).nonzero().flatten()
        raise InvalidBatchError(
            f"Expected finite `x`, but got NaN or infinity in {len(bad)} of {len(x)} samples, "
            f"first in sample {int(bad[0])}. Remove them, or use torch.nan_to_num(x)."
        )


def _checked_column(name: str, kind: str, value: object, size: int) -> Tensor:
    if not isinstance(value, Tensor):
        raise InvalidBatchError(
            f"Expected `{name}` to be a tensor, but got {type(value).__name__}. "
            f"Use torch.as_tensor({name})."
        )
    if value.shape != (size,):
        raise InvalidBatchError(
            f"Expected `{name}` of shape ({size},), one for each sample of `x`, but got "
            f"{tuple(value.shape)}."
        )
    if value.is_floating_point() or value.is_complex():
        raise InvalidBatchError(f"Expected `{name}` to hold {kind}, but got {value.dtype}.")
    return value.bool() if kind == "booleans" else value.long()


def _checked_mask(mask: object, x: Tensor) -> Tensor:
    if not isinstance(mask, Tensor):
        raise InvalidBatchError(
            f"Expected `mask` to be a tensor, but got {type(mask).__name__}. "
            "Use torch.as_tensor(mask)."
        )
    fits = mask.ndim == x.ndim and mask.shape[0] == x.shape[0]
    if not fits or any(m not in (1, s) for m, s in zip(mask.shape[1:], x.shape[1:], strict=True)):
        without_channels = mask.shape == x.shape[:1] + x.shape[2:]
        remedy = (
            " Use mask.unsqueeze(1) for one mask over all channels." if without_channels else ""
        )
        raise InvalidBatchError(
            f"Expected `mask` to have one entry a sample and to broadcast to `x`, "
            f"{tuple(x.shape)}, but got shape {tuple(mask.shape)}.{remedy}"
        )
    mask = mask.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())
    low, high = (float(value) for value in torch.aminmax(mask)) if mask.numel() else (0.0, 0.0)
    if not (low >= 0 and high <= 1):  # also false for NaN
        raise InvalidBatchError(
            f"Expected `mask` in [0, 1], 1 where the model must not look, but got values from "
            f"{low:g} to {high:g}. Masks stored as 0 and 255 need mask / 255."
        )
    return mask
