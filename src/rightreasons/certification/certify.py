"""Certify a model: prove, or refute, that masked features cannot change its predictions."""

from __future__ import annotations

import copy
import platform
from dataclasses import asdict
from importlib import metadata
from typing import Any, Literal

import torch
from rich.console import Console
from rich.progress import track
from torch import nn

from rightreasons.certification.certificate import Certificate
from rightreasons.certification.judgement import Settings, judged
from rightreasons.certification.model_digest import model_digest
from rightreasons.certification.verdict import Verdict
from rightreasons.datasets import Dataset, as_dataset
from rightreasons.datasets.random_stream import drawn_from
from rightreasons.double_backward import innermost
from rightreasons.errors import InvalidBatchError
from rightreasons.mode import as_at_test_time
from rightreasons.probe import placed
from rightreasons.setting import checked_choice, checked_factor, checked_number, checked_range
from rightreasons.types import Batch

__all__ = ["certify"]

METHODS: tuple[Literal["ibp", "crown", "auto"], ...] = ("ibp", "crown", "auto")
NUM_COUNTEREXAMPLES = 10


def certify(
    model: nn.Module,
    data: Dataset | Batch,
    *,
    epsilon: float | None,
    valid_range: tuple[float, float] | None = None,
    method: Literal["ibp", "crown", "auto"] = "auto",
    batch_size: int = 250,
    num_steps: int = 10,
    num_restarts: int = 2,
    seed: int = 0,
    progress: bool = False,
) -> Certificate:
    r"""Prove for each sample what no value of its masked features in a box can do.

    (a) Whether the *prediction* can change: verified by bounds, refuted by an attack that changed
    it, or unknown. (b) How large the masked gradient of the loss and of the label's logit can get:
    :math:`\lVert m \max(|l|, |u|) \rVert_2`, beside the largest that an attack found.

    Proofs are made for the weights in double precision and again in the model's own, each rounded
    outward, so that rounding cannot undo them. Every batch is cross-checked: bounds of a single
    point are autograd's gradient, bounds of the box hold the sample's logits and gradient, and no
    attack exceeds them. The model, its mode and its ``.grad`` are left alone; memory does not grow
    with the data but for the verdicts.

    Args:
        model: Of layers that have bounds; stays on the device it is on.
        data: With masks.
        epsilon: How far masked features may move, in input units; times the mask where it is soft.
            None is the full range: they may take every valid value.
        valid_range: Smallest and largest value a feature may take; None is what the data's card
            says.
        method: ``"ibp"``: interval arithmetic. ``"crown"``: where it leaves a sample unknown, and
            for the gradients of all samples, linear relaxation (CROWN), which is tighter and, on
            convolutional nets, slower by far. ``"auto"``: interval arithmetic, and the relaxation
            where it leaves a sample unknown if the net has at most 8192 hidden units.
        batch_size: Samples at a time.
        num_steps: Of an attack.
        num_restarts: Of an attack.
        seed: Of the attacks' random starts.
        progress: Show a bar.

    Raises:
        UnsupportedLayerError: The model has layers without bounds; all are named.
        CertificateError: A proof and what was seen of the model contradict each other.
        InvalidBatchError: The data have no masks.

    Example:
        >>> batch = Batch(x=torch.rand(4, 2), y=torch.zeros(4).long(), mask=torch.eye(2)[[0] * 4])
        >>> model = nn.Linear(2, 2)
        >>> model.weight.data = torch.tensor([[0.0, 1.0], [0.0, -1.0]])  # does not read feature 0
        >>> model.bias.data = torch.tensor([0.5, -0.5])
        >>> certify(model, batch, epsilon=None).summary["shares"]["verified"]
        1.0

    References:
        ghitu2025model
    """
    data = as_dataset(data)
    settings = Settings(
        epsilon=None if epsilon is None else checked_factor("epsilon", epsilon),
        valid_range=checked_range(data.card.valid_range if valid_range is None else valid_range),
        method=checked_choice("method", method, METHODS),
        batch_size=checked_number("batch_size", batch_size),
        num_steps=checked_number("num_steps", num_steps, low=0),
        num_restarts=checked_number("num_restarts", num_restarts),
        seed=checked_number("seed", seed, low=0),
    )
    if not data.has_masks:
        raise InvalidBatchError(
            "Expected data with masks (1 where the model must not look) to certify, but got none."
        )
    core = innermost(model)
    exact = copy.deepcopy(core).double().eval().requires_grad_(False)
    samples: list[Verdict] = []
    counterexamples: list[dict[str, Any]] = []
    rows = list(torch.split(torch.arange(len(data)), batch_size))
    batches = track(
        data.batches(rows),
        "Certifying",
        len(rows),
        disable=not progress,
        console=Console(stderr=True),
    )
    for number, batch in enumerate(batches):
        with as_at_test_time(core), drawn_from(settings.seed, number):
            judgement = judged(core, exact, placed(batch, core), settings)
        samples += judgement.verdicts
        counterexamples += judgement.counterexamples
        del counterexamples[NUM_COUNTEREXAMPLES:]
    return Certificate(
        samples=tuple(samples),
        settings=asdict(settings),
        model_sha256=model_digest(core.state_dict()),
        data_sha256=data.digest(),
        data=data.card.name,
        groups=data.card.groups,
        counterexamples=tuple(counterexamples),
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    versions = {name: metadata.version(name) for name in ("rightreasons", "torch", "numpy")}
    return {**versions, "python": platform.python_version()}
