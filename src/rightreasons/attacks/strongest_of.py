"""Several attacks in sequence, each on the samples that the earlier ones did not fool."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from rightreasons.attacks.apgd import APGD
from rightreasons.attacks.ball import BallNorm
from rightreasons.attacks.output_attack import Attacked, OutputAttack, check_samples
from rightreasons.errors import InvalidSettingError

__all__ = ["apgd_pair", "strongest_of"]


def strongest_of(
    attacks: Sequence[OutputAttack],
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    index: Tensor | None = None,
) -> Attacked:
    """The worst result of all attacks; a sample is robust if no attack fools it.

    Args:
        attacks: The attacks, at least one, in the order in which they are tried.
        model: Gives logits ``(N, K)``.
        x: The samples, ``(N, *S)``, floating point.
        y: Their labels, ``(N,)``.
        index: The samples' numbers ``(N,)``, on which their draws depend; 0, 1, ... if None.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 2)
        >>> attacks = apgd_pair(epsilon=0.1, num_steps=5)
        >>> strongest_of(attacks, model, torch.rand(3, 2), torch.tensor([0, 1, 1])).x.shape
        torch.Size([3, 2])
    """
    if not attacks:
        raise InvalidSettingError("Expected at least one attack, but got none.")
    x, y, index = check_samples(x, y, index)
    worst = attacks[0](model, x, y, index=index)
    for attack in attacks[1:]:
        rows = (~worst.fooled).nonzero().flatten()
        if not len(rows):
            break
        worst = worst.stronger(rows, attack(model, x[rows], y[rows], index=index[rows]))
    return worst


def apgd_pair(
    *,
    epsilon: float,
    norm: BallNorm = "linf",
    num_steps: int = 100,
    num_rivals: int = 9,
    num_restarts: int = 1,
    valid_range: tuple[float, float] | None = (0.0, 1.0),
    seed: int = 0,
    max_rows: int | None = None,
) -> tuple[APGD, APGD]:
    """APGD-CE and targeted APGD-DLR: the gradient part of AutoAttack.

    The settings are those of `APGD`.

    References:
        croce2020reliable
    """
    cross_entropy, dlr = (
        APGD(
            epsilon=epsilon,
            norm=norm,
            loss=loss,
            num_steps=num_steps,
            num_rivals=num_rivals,
            num_restarts=num_restarts,
            valid_range=valid_range,
            seed=seed,
            max_rows=max_rows,
        )
        for loss in ("cross_entropy", "targeted_dlr")
    )
    return cross_entropy, dlr
