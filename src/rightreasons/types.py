"""The types that all packages share: a batch of samples, an interval, a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        inputs: What else the model's forward takes, by name, each ``(N, ...)``. Texts have
            ``attention_mask``, ``(N, T)``: 1 for tokens, 0 for padding at the end.

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
    inputs: Mapping[str, Tensor] | None = None

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
        if self.inputs is not None:
            object.__setattr__(self, "inputs", _checked_inputs(self.inputs, size))
        if self.mask is not None:
            object.__setattr__(self, "mask", _checked_mask(self.mask, self.x))
            if self.annotated is None:
                everyone = torch.ones(size, dtype=torch.bool, device=self.x.device)
                object.__setattr__(self, "annotated", everyone)

    @classmethod
    def trusted(cls, **parts: Part) -> Batch:
        """Make a batch from fields that were checked before, without checking them again."""
        batch = object.__new__(cls)
        for field in fields(cls):
            object.__setattr__(batch, field.name, parts.get(field.name))
        return batch

    @classmethod
    def collate(cls, batches: Sequence[Batch], *, padding: int = 0) -> Batch:
        """Concatenate batches; a field that only some of them have is an error.

        Token ids of several lengths are padded at the end, if an attention mask says where.

        Args:
            batches: At least one.
            padding: The token id that fills up shorter texts.
        """
        if not batches:
            raise InvalidBatchError("Expected at least one batch to collate, but got none.")
        if all(batch.has_padding for batch in batches):
            longest = max(batch.x.shape[1] for batch in batches)
            batches = [batch.padded(longest, padding) for batch in batches]
        names = {name for batch in batches for name in batch.inputs or {}}
        parts: dict[str, Any] = {"inputs": None}
        for field in fields(cls):
            if field.name != "inputs":
                parts[field.name] = _joined(field.name, [getattr(b, field.name) for b in batches])
        if names:
            columns = {n: [(batch.inputs or {}).get(n) for batch in batches] for n in sorted(names)}
            parts["inputs"] = {name: _joined(name, column) for name, column in columns.items()}
        return cls.trusted(**parts)

    @property
    def has_padding(self) -> bool:
        """Whether the samples are token ids with an attention mask."""
        is_text = self.x.ndim == 2 and not self.x.is_floating_point()
        return is_text and self.inputs is not None and "attention_mask" in self.inputs

    def padded(self, length: int, padding: int = 0) -> Batch:
        """Texts of so many tokens, filled up or cut at the end; the mask is 0 on padding.

        Args:
            length: Number of tokens. None of those that are cut may be part of a text.
            padding: The token id to fill up with.

        Example:
            >>> attention = {"attention_mask": torch.ones(1, 2).long()}
            >>> batch = Batch(x=torch.tensor([[7, 8]]), y=torch.tensor([0]), inputs=attention)
            >>> batch.padded(3).x, batch.padded(3).inputs["attention_mask"]
            (tensor([[7, 8, 0]]), tensor([[1, 1, 0]]))
        """
        tokens = self.x.shape[1]
        if length == tokens:
            return self

        def fit(part: Tensor, value: int = 0) -> Tensor:
            if part.ndim < 2 or part.shape[1] != tokens:
                return part
            return functional.pad(
                part, (0, 0) * (part.ndim - 2) + (0, length - tokens), value=value
            )

        inputs = {name: fit(part) for name, part in (self.inputs or {}).items()}
        mask = None if self.mask is None else fit(self.mask)
        return self.with_(x=fit(self.x, padding), mask=mask, inputs=inputs)

    def trimmed(self) -> Batch:
        """The same texts without the padding that all of them have."""
        if self.inputs is None or not self.has_padding:
            return self
        used = self.inputs["attention_mask"].any(dim=0)
        length = int(used.nonzero().max()) + 1 if bool(used.any()) else 1
        return self.padded(length)

    def to(self, *args: Any, **kwargs: Any) -> Batch:
        """Move the batch as `Tensor.to` does; a dtype changes ``x`` and ``mask`` only."""

        def move(part: Tensor) -> Tensor:
            if part.is_floating_point():
                return part.to(*args, **kwargs)
            return part.to(torch.empty(0, device=part.device).to(*args, **kwargs).device)

        return self._map(move)

    def __getitem__(self, rows: slice | Tensor) -> Batch:
        """Select samples by a slice, by indices or by a boolean tensor."""
        if isinstance(rows, int):
            raise InvalidBatchError(
                f"Expected a slice or a tensor of rows, but got {rows}. "
                f"Use batch[{rows}:{rows + 1}]."
            )
        return self._map(lambda part: part[rows])

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

    def replace(self, **parts: Part) -> Batch:
        """Copy the batch with other values for some fields, and check all fields.

        For values from outside. `with_` is faster where the values come from a checked batch.
        """
        return Batch(**{**self._parts(), **parts})

    def with_(self, **parts: Part) -> Batch:
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

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        parts = self._parts()
        inputs = parts.pop("inputs")
        changed: dict[str, Any]
        changed = {name: None if one is None else change(one) for name, one in parts.items()}
        if inputs is not None:
            changed["inputs"] = {name: change(one) for name, one in inputs.items()}
        return Batch.trusted(**changed)


Part = Tensor | Mapping[str, Tensor] | None
"""A field of a batch."""


def _joined(name: str, values: list[Any]) -> Tensor | None:
    """One field of several batches."""
    missing = sum(value is None for value in values)
    if 0 < missing < len(values):
        raise InvalidBatchError(
            f"Expected all batches to have `{name}` or none of them, but "
            f"{missing} of {len(values)} have none."
        )
    shapes = {tuple(value.shape[1:]) for value in values if value is not None}
    if len(shapes) > 1:
        raise InvalidBatchError(
            f"Expected `{name}` of one shape in all batches, but got "
            f"{' and '.join(map(str, sorted(shapes)))}. Resize the samples first."
        )
    return None if missing else torch.cat(values)


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


def _checked_inputs(inputs: object, size: int) -> dict[str, Tensor]:
    if not isinstance(inputs, Mapping):
        raise InvalidBatchError(
            f"Expected `inputs` to be tensors by name, but got {type(inputs).__name__}. Use "
            'inputs={"attention_mask": mask}.'
        )
    for name, one in inputs.items():
        if not isinstance(one, Tensor) or one.ndim < 1 or len(one) != size:
            got = tuple(one.shape) if isinstance(one, Tensor) else type(one).__name__
            raise InvalidBatchError(
                f"Expected `inputs[{name!r}]` to be a tensor with one entry for each of {size} "
                f"samples, but got {got}."
            )
    return dict(inputs)


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
