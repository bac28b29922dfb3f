"""What is known of one sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

__all__ = ["STATUSES", "Status", "Verdict"]

Status = Literal["verified", "refuted", "unknown", "nothing"]

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether masked features can change the prediction for one sample, and its gradient.

    Everything "proved" holds for every point of the box; everything "found" was seen at one.

    Args:
        index: Place in the data.
        y: The label.
        prediction: The class the model predicts at the sample.
        group: Number of the group; -1 is unknown.
        status: ``"verified"``: no value of the masked features in the box changes the
            prediction, proved by bounds. ``"refuted"``: an attack changed it. ``"unknown"``:
            neither. ``"nothing"``: the mask is empty, so there is nothing to certify.
        changed_to: What the attack changed the prediction to, if refuted.
        margin_proved: At least so much is the prediction's logit above all others.
        margin_found: The least that an attack found.
        loss_gradient_proved: At most so large is the L2 norm of the loss' masked gradient.
        loss_gradient_found: The largest that an attack found.
        logit_gradient_proved: The same of the label's logit.
        logit_gradient_found: The same of the label's logit.
    """

    index: int
    y: int
    prediction: int
    group: int = -1
    status: Status = "nothing"
    changed_to: int | None = None
    margin_proved: float | None = None
    margin_found: float | None = None
    loss_gradient_proved: float | None = None
    loss_gradient_found: float | None = None
    logit_gradient_proved: float | None = None
    logit_gradient_found: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether the prediction is the label."""
        return self.prediction == self.y

    @classmethod
    def from_mapping(cls, entry: Mapping[str, Any]) -> Verdict:
        """Read one back from JSON, which has null where a bound is infinite."""
        known = {field.name: entry[field.name] for field in fields(cls)}
        if known["status"] not in STATUSES:
            raise ValueError(f"no status {known['status']!r}")
        if known["status"] != "nothing":
            for name in ("margin_proved", "loss_gradient_proved", "logit_gradient_proved"):
                if known[name] is None:
                    known[name] = -math.inf if name == "margin_proved" else math.inf
        return cls(**known)
