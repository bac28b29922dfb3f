"""How sure a model is of its answer, by whatever it has to say so."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rightreasons.double_backward import innermost
from rightreasons.models.side_output import ABSTENTION, SELECTION, side_output
from rightreasons.probe import Probe

__all__ = ["SCORES", "Score", "confidence"]

Score = Literal["softmax", "logit", "abstain", "selection"]
SCORES: tuple[Score, ...] = ("softmax", "logit", "abstain", "selection")
"""Names of the scores; more of one means: surer."""


def confidence(probe: Probe, score: Score) -> Tensor:
    r"""How sure the model is of each answer, ``(N,)``; only the order matters.

    ============= =====================================================================
    ``softmax``   softmax response: :math:`p = \max_i p_i(x)`, as :math:`\log p / (1 - p)`
    ``logit``     the largest logit; of an `AbstainingPair` the logarithm of the largest
                  product of both models' probabilities
    ``abstain``   the probability *not* to abstain, of an `Abstaining` model, as log-odds
    ``selection`` what the selection head of a SelectiveNet gives, as log-odds
    ============= =====================================================================

    Log-odds order samples as probabilities do, and still tell apart those that would all round
    to 1. Scores are rounded to single precision, so that equal ones stay equal however samples
    were batched. The last two take one more pass, as at test time.

    Args:
        probe: Any pass of the model over the samples.
        score: One of `SCORES`.

    Example:
        >>> from torch import nn
        >>> from rightreasons.types import Batch
        >>> batch = Batch(x=torch.tensor([[2.0, 0.0], [0.0, 1.0]]), y=torch.tensor([0, 1]))
        >>> confidence(Probe(nn.Identity(), batch), "softmax")
        tensor([2., 1.])
    """
    if score == "softmax":
        surest = probe.logits.detach().double().sort(dim=1, descending=True).values
        value = surest[:, 0] - surest[:, 1:].logsumexp(dim=1)
    elif score == "logit":
        value = probe.logits.detach().double().amax(dim=1)
    elif score == "abstain":
        logits = _recorded(probe, ABSTENTION)
        value = logits[:, :-1].logsumexp(dim=1) - logits[:, -1]
    else:
        value = _recorded(probe, SELECTION)[:, 0]
    return value.float()


def _recorded(probe: Probe, layer: str) -> Tensor:
    core = innermost(probe.model)
    name = side_output(core, layer)
    with torch.no_grad():
        passed = Probe.at_test_time(core, probe.batch, layers=[name])
    return passed.activations[name].double()
