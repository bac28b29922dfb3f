"""Occlusion: how the prediction changes when a window of the input is covered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_integer
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.gradients import stacked_rows
from rightreasons.explainers.subject import Subject
from rightreasons.types import Target

__all__ = ["Occlusion"]


@final
class Occlusion(Explainer):
    r"""Occlusion: how the prediction changes when a window of the input is covered.

    .. math:: h_i(x) = \frac{1}{|W_i|} \sum_{w \in W_i} t(x) - t(x \text{ with } w \text{ covered})

    :math:`W_i` are the windows that hold feature i. A window is a square of pixels over all
    channels, a run of numeric columns, or a run of tokens. Samples with two axes are signals
    ``(N, C, T)`` or embeddings ``(N, T, E)``: ``channel_axis`` says which. It is for evaluation
    only: it needs many passes, so `create_graph` is refused.

    Differs from the paper: overlapping windows are averaged, not kept apart.

    Args:
        window: Side of the window, in pixels, columns or tokens.
        stride: Distance between windows, at most ``window``; None takes ``window``.
        value: The value that covers a window, in units of the input (or of embeddings).
        channel_axis: The axis that a window covers whole: 1 for images and signals, -1 for
            embeddings. None is 1, but refuses samples with two axes.
        max_rows: The most rows in one stacked pass; None fits a memory budget, 256 at most.
        target: The number of the prediction that is explained.

    Example:
        >>> model = torch.nn.Linear(3, 2)
        >>> x, y = torch.rand(1, 3), torch.tensor([1])
        >>> torch.allclose(Occlusion(window=1)(model, x, y)[0], model.weight[1] * x[0], atol=1e-6)
        True

    References:
        zeiler2014visualizing
    """

    is_differentiable: ClassVar[bool] = False

    def __init__(
        self,
        *,
        window: int = 4,
        stride: int | None = None,
        value: float = 0.0,
        channel_axis: Literal[1, -1] | None = None,
        max_rows: int | None = None,
        target: Target | str = Target.LOGIT,
    ) -> None:
        super().__init__(target=target)
        self.window = check_integer("window", window)
        self.stride = check_integer(
            "stride", window if stride is None else stride, low=1, high=self.window
        )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidSettingError(f"Expected `value` to be a number, but got {value!r}.")
        self.value = float(value)
        self.channel_axis = check_choice("channel_axis", channel_axis, (None, 1, -1))
        self.max_rows = None if max_rows is None else check_integer("max_rows", max_rows)

    @override
    def attribution(self, subject: Subject) -> Tensor:
        features = subject.features
        corners, axes = self._corners(features, has_tokens=subject.has_tokens)
        plain = self.target(subject.probe(needs_gradient=False).logits, subject.y)
        trailing = (1,) * (features.ndim - 1)
        total = torch.zeros_like(features)
        count = torch.zeros_like(features)
        most = subject.rows_for("values", self.max_rows)
        rows = stacked_rows(len(corners), len(features), most, features.device)
        for copies, samples in rows:
            cover = self._cover(corners[copies], features, axes).expand(-1, *features.shape[1:])
            covered = torch.where(cover, self.value, features[samples])
            logits = subject.probe(covered, samples, needs_gradient=False).logits
            drop = plain[samples] - self.target(logits, subject.y[samples])
            total.index_add_(0, samples, drop.reshape(-1, *trailing).to(total.dtype) * cover)
            count.index_add_(0, samples, cover.to(count.dtype))
        return total / count

    def _corners(self, features: Tensor, *, has_tokens: bool) -> tuple[Tensor, Sequence[int]]:
        """The first indices of the windows, ``(K, axes)``, and the axes along which they move."""
        axes = self._window_axes(features, has_tokens=has_tokens)
        # The last window is the first one that reaches the end.
        reaches = [max(1, features.shape[axis] - self.window + self.stride) for axis in axes]
        starts = [torch.arange(0, reach, self.stride) for reach in reaches]
        corners = torch.cartesian_prod(*starts).reshape(-1, len(starts))
        return corners.to(features.device), axes

    def _window_axes(self, features: Tensor, *, has_tokens: bool) -> Sequence[int]:
        if has_tokens or features.ndim == 2:
            return [1]
        if features.ndim == 3 and self.channel_axis is None:
            raise InvalidSettingError(
                f"Expected `channel_axis` for samples {tuple(features.shape[1:])}, but got none: "
                "it is 1 for signals (N, C, T), -1 for embeddings (N, T, E)."
            )
        return range(1, features.ndim - 1) if self.channel_axis == -1 else range(2, features.ndim)

    def _cover(self, corners: Tensor, features: Tensor, axes: Sequence[int]) -> Tensor:
        """True inside each row's window; ``(R, *S)``, of length 1 along other axes."""
        shape = [1] * (features.ndim - 1)
        cover = torch.ones(len(corners), *shape, dtype=torch.bool, device=features.device)
        for axis, start in zip(axes, corners.T, strict=True):
            index = torch.arange(features.shape[axis], device=features.device)
            inside = (index >= start[:, None]) & (index < start[:, None] + self.window)
            along_axis = [len(corners), *shape]
            along_axis[axis] = len(index)
            cover = cover & inside.reshape(along_axis)
        return cover
