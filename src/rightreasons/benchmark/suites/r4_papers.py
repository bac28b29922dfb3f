"""What R4's public code does on Decoy MNIST and Decoy DERM, setting by setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightreasons.benchmark.suite import Grid, Overrides

__all__ = [
    "PAPERS_DERM",
    "PAPERS_GRIDS",
    "PAPERS_MNIST",
    "PAPERS_NOTE",
    "scale_decay",
    "set_decay",
]

PIXELS = {"mnist": 784, "derm": 3 * 64 * 64}
"""Numbers by which the public code divides the penalties of R3 and Cert-R4."""

BATCH = {"mnist": 1000, "derm": 256}
MASKED = {"mnist": 4 * 4, "derm": 3 * 16 * 16}
"""Values that the mask of an image has."""

_CERT: Overrides = {"norm": "l1"}  # the public code sums the magnitudes of both bounds
_ADV: Overrides = {"norm": "l1", "num_steps": 10, "step_size": 0.5}  # steps as wide as epsilon
_RAND: Overrides = {"norm": "l2", "form": "change"}


def _share(data: str, strength: float) -> float:
    """The weight of a sample's norm, where the code has one norm of the whole batch.

    It is the norm of gradients of the batch's mean, divided by all masked values of the batch. If
    samples have equal norms, theirs counts with one over the batch size to the power of 1.5.
    """
    return float(strength / (BATCH[data] ** 1.5 * MASKED[data]))


def _mnist(lr: float, epochs: int, decay: float = 0.0, **settings: Any) -> Grid:
    decays = {"weight_decay": decay} if decay else {}
    return [{"lr": lr, "epochs": epochs, "settings": {**settings, **decays}}]


def _derm(lr: float, epochs: int, decay: float, benign: float, **settings: Any) -> Grid:
    candidate: dict[str, Any] = {
        "lr": lr,
        "epochs": epochs,
        "settings": {"class_weights": [benign, 2.0272], **settings},
    }
    return [candidate | ({"weight_decay": decay} if decay else {})]


def scale_decay(grids: Mapping[str, Grid], share: float) -> dict[str, Grid]:
    """Multiply weight decay by the share of samples with a mask, as the paper's section 5.5 does.

    Example:
        >>> scale_decay({"R3": [{"settings": {"weight": 2.0, "weight_decay": 0.5}}]}, 0.2)
        {'R3': [{'settings': {'weight': 2.0, 'weight_decay': 0.1}}]}
    """

    def scale(candidate: Overrides) -> dict[str, Any]:
        settings = dict(candidate["settings"])
        if "weight_decay" in settings:
            settings["weight_decay"] = float(f"{settings['weight_decay'] * share:.6g}")
        return {**candidate, "settings": settings}

    return {name: [scale(candidate) for candidate in grid] for name, grid in grids.items()}


def set_decay(grids: Mapping[str, Grid], decay: float) -> dict[str, Grid]:
    """Give every method the same weight decay, in the place of its own; 0 is none.

    Example:
        >>> set_decay({"R3": [{"settings": {"weight": 2.0, "weight_decay": 0.5}}]}, 0.1)
        {'R3': [{'settings': {'weight': 2.0, 'weight_decay': 0.1}}]}
    """

    def set_one(candidate: Overrides) -> dict[str, Any]:
        settings = {n: v for n, v in candidate["settings"].items() if n != "weight_decay"}
        return {**candidate, "settings": settings | ({"weight_decay": decay} if decay else {})}

    return {name: [set_one(candidate) for candidate in grid] for name, grid in grids.items()}


PAPERS_MNIST: Mapping[str, Grid] = {
    "ERM": _mnist(0.01, 30),
    "R3": _mnist(0.025, 25, 1e-3, weight=10 / PIXELS["mnist"]),
    "Smooth-R3": _mnist(
        0.001, 15, 1e-3, weight=_share("mnist", 10), epsilon=0.1, num_samples=7, norm="l2"
    ),
    "IBP-Ex": _mnist(0.075, 30, 8e-4, weight=4.0, epsilon=0.25),
    "IBP-Ex + R3": _mnist(
        0.01, 30, 1.26e-3, weight=2.1, epsilon=0.15, r3_weight=2.1 / PIXELS["mnist"]
    ),
    "Rand-R4": _mnist(
        0.001, 30, 1.5e-3, weight=_share("mnist", 15), epsilon=0.5, num_samples=10, **_RAND
    ),
    "Adv-R4": _mnist(0.002, 30, 1.4e-3, weight=14.0, epsilon=0.5, **_ADV),
    "Cert-R4": _mnist(0.001, 25, weight=15 / PIXELS["mnist"], epsilon=0.5, **_CERT),
    "counterexamples": _mnist(0.01, 30),
    "oracle": _mnist(0.01, 30),
}
PAPERS_DERM: Mapping[str, Grid] = {
    "ERM": _derm(1e-4, 12, 0.0, 1.0),
    "R3": _derm(2e-6, 24, 1e-8, 1.3, weight=1000 / BATCH["derm"]),
    "Smooth-R3": _derm(
        1e-5, 10, 2e-5, 1.0, weight=_share("derm", 1000), epsilon=0.05, num_samples=9, norm="l2"
    ),
    "IBP-Ex": _derm(1e-5, 10, 1e-5, 1.5, weight=0.005, epsilon=0.05),
    "IBP-Ex + R3": _derm(
        1e-5, 11, 3e-5, 0.9, weight=0.005, epsilon=0.05, r3_weight=0.005 / PIXELS["derm"]
    ),
    "Rand-R4": _derm(
        1e-5, 11, 2e-5, 0.9, weight=_share("derm", 2000), epsilon=0.05, num_samples=8, **_RAND
    ),
    "Adv-R4": _derm(1e-5, 10, 7e-5, 0.9, weight=10.0, epsilon=0.05, **_ADV),
    "Cert-R4": _derm(3e-4, 30, 2e-5, 1.07, weight=1 / PIXELS["derm"], epsilon=0.05, **_CERT),
    "counterexamples": _derm(1e-4, 12, 0.0, 1.0),
    "oracle": _derm(1e-4, 12, 0.0, 1.0),
}
PAPERS_GRIDS: Mapping[str, Mapping[str, Grid]] = {"mnist": PAPERS_MNIST, "derm": PAPERS_DERM}

PAPERS_NOTE = (
    "Rates, epochs, batches, boxes, draws, decay, class weights and weights of penalties are those "
    "of the public code, another for each method. Where it divides a penalty by the values of an "
    "image, by the batch or by all masked values, weights here are divided by the same number. "
    "Smooth-R3 and Rand-R4 have one norm of the whole batch there: here the mean of each sample's, "
    "at a weight that is the same if these are equal. Its Smooth-R3 penalises a change of the "
    "gradient, ours the gradient. Its Adv-R4 climbs the loss, ours the penalty. Its Cert-R4 adds "
    "the magnitudes of both bounds; ours takes the larger one, between half of that and all. "
    "Counterexamples and the oracle are ours, with ERM's settings."
)
