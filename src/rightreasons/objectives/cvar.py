"""The worst samples count alone: the conditional value at risk of the loss."""

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe

__all__ = ["CVAR"]


class CVAR(Term):
    r"""Cross-entropy of the hardest share of each batch, in place of the plain one: CVaR DRO.

    .. math:: \max_q \sum_n q_n \ell_n \quad\text{with}\quad
              0 \le q_n \le \frac1{\alpha N}, \; \sum_n q_n = 1

    The maximum puts all weight on the :math:`\alpha N` largest losses; where that is no whole
    number, the last one counts in part. A sample's loss is multiplied by :math:`N q_n`, so that
    the mean over samples is the sum above and a sample's value depends on its batch.

    Differs from the paper: the plain estimate of a batch, without its multilevel Monte Carlo
    correction for small batches; in several processes each looks at its own part of the batch.

    Args:
        alpha: The share, above 0; 1 is plain cross-entropy.

    Example:
        >>> from torch import nn
        >>> from rightreasons.types import Batch
        >>> logits = torch.tensor([[9.0, 0.0], [0.0, 0.0]])  # one is easy, one is a toss-up
        >>> batch = Batch(x=logits, y=torch.tensor([0, 0]))
        >>> CVAR(alpha=0.5)(Probe(nn.Identity(), batch))
        tensor([0.0000, 1.3863])

    References:
        levy2020large
    """

    is_task = True

    def __init__(self, *, alpha: float = 0.2) -> None:
        super().__init__()
        if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 0 < alpha <= 1:
            raise InvalidSettingError(
                f"Expected `alpha` to be a share above 0 and up to 1, but got {alpha!r}."
            )
        self.alpha = float(alpha)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        losses = functional.cross_entropy(probe.logits, probe.batch.y, reduction="none")
        order = losses.detach().argsort(descending=True, stable=True)
        left = self.alpha * len(losses) - torch.arange(len(losses), device=losses.device)
        factors = torch.zeros_like(losses)
        factors[order] = left.clamp(0, 1).to(losses) / self.alpha
        return losses * factors
