"""Stop before a bad number reaches the weights, and say where it came from."""

from __future__ import annotations

import torch

from rightreasons.diagnosis import pulls
from rightreasons.errors import NonFiniteLossError
from rightreasons.objectives import Loss
from rightreasons.process import agreed, gathered
from rightreasons.training import Training
from rightreasons.types import Batch

__all__ = ["gradient_norm", "refuse_non_finite_loss"]


def refuse_non_finite_loss(training: Training, loss: Loss) -> None:
    """Raise if a part of the loss is NaN or infinite, after saving the last good state."""
    (stop,) = agreed(training.fabric, not bool(torch.isfinite(loss.total)))
    if not stop:
        return
    bad = [name for name, part in loss.parts.items() if not bool(torch.isfinite(part))]
    bad = sorted({name for names in gathered(training.fabric, bad) for name in names})
    training.recall()
    training.save()
    raise _error(training, f"the term {_listed(bad or list(loss.parts))}")


def gradient_norm(training: Training, batch: Batch) -> float:
    """The norm of the whole gradient, or an error if it is NaN or infinite.

    The weights have not been stepped yet, so what is saved is the last good state. Loss scaling in
    16-bit training deals with infinite gradients itself.
    """
    gradients = [parameter.grad for parameter in training.parameters if parameter.grad is not None]
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients]
    norm = float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0
    if norm < float("inf") or str(training.settings["precision"]).startswith("16"):
        return norm
    training.recall()
    training.save()
    again = pulls(training.objective(training.model, batch))
    bad = [name for name, pull in again.items() if not pull < float("inf")]
    raise _error(training, f"the gradient of {_listed(bad or list(again))}")


def _error(training: Training, what: str) -> NonFiniteLossError:
    position = training.position
    where = f"epoch {position.epoch + 1}, update {position.update + 1}"
    path = training.checkpoint
    kept = f" The last good state is in {path}." if path is not None else ""
    return NonFiniteLossError(
        f"Expected finite numbers, but {what} became NaN or infinite in {where}.{kept} Lower the "
        "learning rate or that term's weight, or set `clip`, and start again."
    )


def _listed(names: list[str]) -> str:
    return " + ".join(f"`{name}`" for name in names)
