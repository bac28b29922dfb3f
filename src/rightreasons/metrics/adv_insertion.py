"""Insertion in the order of an explanation that an attacker has bent towards a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, final

from torch import Tensor

from rightreasons.attacks import AttributionManipulation, frame_map
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers import Explainer, postprocessed
from rightreasons.metrics.attribution_choice import Explainers, attributions, named_explainers
from rightreasons.metrics.cache_friendly import COMFORTABLE_ROWS
from rightreasons.metrics.metric import Rows
from rightreasons.metrics.reconstruction import RATIOS, Reconstruction
from rightreasons.probe import Probe
from rightreasons.setting import checked_share

__all__ = ["AdvInsertion"]


@final
class AdvInsertion(Reconstruction):
    r"""Adv-Insertion: `Insertion` in the order of a manipulated explanation.

    The order is that of :math:`h_y(x_{adv})`, where :math:`x_{adv}` is what a targeted
    `AttributionManipulation` towards a frame found; what comes in are the pixels of :math:`x`.

    ====================== ================================================================
    ``adv_insertion``      mean over samples and ratios, of the first explainer
    ``EXPLAINER``          the same, of each explainer; ``EXPLAINER/GAMMA`` is the curve
    ``EXPLAINER/gap``      what the attack cost: insertion less adv-insertion
    ``EXPLAINER/frame``    share of the manipulated map on the frame, ``frame_before`` of the own
    ``EXPLAINER/flipped``  share of samples for which the attack met no other input that keeps
                           the prediction; they count with their own map
    ====================== ================================================================

    Differs from the paper: predictions are constrained, see `AttributionManipulation`.

    Args:
        explainers: See `ExplanationMetric`; each is attacked on its own.
        ratios: See `Reconstruction`.
        baseline: See `Reconstruction`.
        sign: See `Reconstruction`.
        epsilon: See `AttributionManipulation`.
        norm: See `AttributionManipulation`.
        num_steps: See `AttributionManipulation`.
        step_size: See `AttributionManipulation`.
        softplus_beta: See `AttributionManipulation`.
        border: See `frame_map`.

    References:
        joo2023towards
    """

    name = "adv_insertion"
    higher_is_better = True

    def __init__(
        self,
        *,
        explainers: Explainers = "input_gradient",
        ratios: float | Sequence[float] = RATIOS,
        baseline: float | Sequence[float] = 0.0,
        sign: Literal["absolute", "positive", "signed"] = "absolute",
        epsilon: float = 4 / 255,
        norm: Literal["linf", "l2"] = "linf",
        num_steps: int = 100,
        step_size: float = 0.1,
        softplus_beta: float | None = 10.0,
        border: float = 5 / 32,
    ) -> None:
        super().__init__(explainers=explainers, ratios=ratios, baseline=baseline, sign=sign)
        self.epsilon, self.norm, self.num_steps = epsilon, norm, num_steps
        self.step_size, self.softplus_beta = step_size, softplus_beta
        self.border = checked_share("border", border)
        for explainer in named_explainers(explainers).values():
            self._attack(explainer, COMFORTABLE_ROWS)  # checks the settings

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        x, y = self.checked(probe), probe.batch.y
        if x.ndim != 4:
            raise InvalidBatchError(
                f"Expected images (N, C, H, W) for AdvInsertion, whose target is a frame, but got "
                f"shape {tuple(x.shape)}. Use Insertion."
            )
        frame = frame_map(*x.shape[2:], border=self.border).to(x)
        rows: Rows = {}
        for name, own in attributions(self._chosen, probe.model, x, y).items():
            explainer = self._chosen[name]
            attack = self._attack(explainer, probe.max_rows or COMFORTABLE_ROWS)
            found = attack(probe.model, x, y, target=frame, index=probe.batch.index)
            bent = explainer(probe.model, found.x, y)
            rows[name] = self.curve(probe, bent)
            rows[f"{name}/clean"] = self.curve(probe, own)
            rows[f"{name}/frame"] = _share_on(frame, bent)
            rows[f"{name}/frame_before"] = _share_on(frame, own)
            rows[f"{name}/flipped"] = found.flipped
        return rows

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        result = self.curve_summary(rows)
        for name in self._chosen:
            clean = float(rows[f"{name}/clean"].double().mean(dim=0).mean())
            result[f"{name}/gap"] = clean - result[name]
            for key in ("frame", "frame_before", "flipped"):
                result[f"{name}/{key}"] = float(rows[f"{name}/{key}"].double().mean())
        return result

    def _attack(self, explainer: Explainer, max_rows: int) -> AttributionManipulation:
        return AttributionManipulation(
            explainer=explainer,
            epsilon=self.epsilon,
            norm=self.norm,
            num_steps=self.num_steps,
            step_size=self.step_size,
            valid_range=self._valid_range,
            softplus_beta=self.softplus_beta,
            max_rows=max_rows,
        )


def _share_on(frame: Tensor, attribution: Tensor) -> Tensor:
    shares = postprocessed(attribution, normalise="l1")
    return (frame * shares).flatten(1).sum(dim=1)
