"""The confidence from which on a model answers, chosen once on validation data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from rightreasons.checkpoint import write_json
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics.confidence import SCORES, Score
from rightreasons.metrics.risk_coverage import checked_coverage, threshold_for_coverage
from rightreasons.setting import checked_choice

__all__ = ["Threshold"]


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A threshold on a model's confidence, for a target coverage.

    Args:
        coverage: The share of validation samples that was to be answered.
        value: Samples are answered from this confidence on; minus infinity answers all.
        score: What confidence is, see `confidence`.

    Example:
        >>> import torch
        >>> chosen = Threshold.chosen(torch.tensor([4.0, 3.0, 2.0, 1.0]), coverage=0.75)
        >>> chosen.value, chosen.answers(torch.tensor([1.5, 2.5]))
        (2.0, tensor([False,  True]))
    """

    coverage: float
    value: float
    score: Score = "softmax"

    def __post_init__(self) -> None:
        checked_coverage(self.coverage)
        checked_choice("score", self.score, SCORES)
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not number or math.isnan(self.value) or self.value == math.inf:
            raise InvalidSettingError(
                f"Expected `value` to be a number, or minus infinity, but got {self.value!r}."
            )

    @classmethod
    def chosen(cls, scores: Tensor, *, coverage: float, score: Score = "softmax") -> Threshold:
        """Choose it on the confidences ``(N,)`` of validation samples."""
        value = threshold_for_coverage(scores, coverage)
        return cls(coverage=coverage, value=value, score=score)

    def answers(self, scores: Tensor) -> Tensor:
        """Whether each sample is answered, ``(N,)``."""
        return scores >= self.value

    def to_json(self, path: str | Path) -> None:
        """Write it; minus infinity is null."""
        write_json(Path(path), asdict(self))

    @classmethod
    def from_json(cls, path: str | Path) -> Threshold:
        """Read what `to_json` wrote."""
        try:
            kept: dict[str, Any] = json.loads(Path(path).read_text())
            value = -math.inf if kept["value"] is None else kept["value"]
            return cls(coverage=kept["coverage"], value=value, score=kept["score"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidSettingError(
                f"Expected a threshold as Threshold.to_json wrote it at {path}, but cannot read "
                f"it: {error!r}."
            ) from error
