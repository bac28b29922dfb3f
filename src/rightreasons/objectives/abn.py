"""Terms of an attention branch network: its cross-entropy, and its map outside the mask."""

from __future__ import annotations

from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_choice
from rightreasons.core.model_modes import innermost
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe

__all__ = ["ABN", "AttentionCrossEntropy", "AttentionTerm", "abn"]

PARTS = ("attention", "attention_logits")
"""Names of the two layers of an attention branch."""


class AttentionTerm(Term):
    """A term that reads a layer of an attention branch, by the names of `AttentionBranch`.

    The branch may be anywhere in the model. Transformers have layers called ``attention`` too, so a
    branch inside a model must have both layers.
    """

    @override
    def layers_in(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        del x
        names = [name for name, _ in model.named_modules()]
        if set(names) >= set(self.layers):
            return self.layers
        prefixes = [name.removesuffix(PARTS[1]) for name in names if name.endswith(f".{PARTS[1]}")]
        branches = [prefix for prefix in prefixes if prefix + PARTS[0] in names]
        if not branches:
            raise InvalidSettingError(
                f"Expected a model with an attention branch, layers called "
                f"{' and '.join(repr(layer) for layer in self.layers)}, but got "
                f"{type(model).__name__}. Use the model attention_branch, or wrap yours in "
                "AttentionBranch."
            )
        outermost = min(branches, key=lambda prefix: prefix.count("."))
        return tuple(outermost + layer for layer in self.layers)

    def recorded(self, probe: Probe) -> Tensor:
        """The layer's output in this pass."""
        (layer,) = self.layers_in(innermost(probe.model), probe.features)
        if layer not in probe.activations:
            raise InvalidSettingError(
                f"Expected a probe made with `layers=[{layer!r}]`, but it recorded none."
            )
        return probe.activations[layer]


@final
class AttentionCrossEntropy(AttentionTerm):
    r"""The cross-entropy of an attention branch's own logits.

    .. math:: -\log p_\mathrm{att}(y \mid x)

    Unit: nats. It trains the branch, and so the attention map, to tell the classes apart.

    References:
        fukui2019attention
    """

    layers = ("attention_logits",)

    @override
    def forward(self, probe: Probe) -> Tensor:
        logits = self.recorded(probe).to(probe.logits.dtype)
        return functional.cross_entropy(logits, probe.batch.y, reduction="none")


@final
class ABN(AttentionTerm):
    r"""The mean squared distance of an attention map and the inverse of the mask.

    .. math:: \frac{1}{HW} \lVert M(x) - (1 - m) \rVert_2^2

    where the map of an `AttentionBranch` is resized bilinearly to the mask. Unit: none, from 0
    to 1. Samples without a mask (`Batch.guided`) add nothing.

    Differs from the papers: the formula of both has the sum over pixels, ``reduction="sum"``, with
    a weight of 10 in ReFF's. Mitsuhara et al. have a mean in their text. The default is the mean,
    which does not depend on the size of images.

    Args:
        reduction: ``"mean"`` or ``"sum"`` over the pixels of a map.

    References:
        mitsuhara2021embedding, adachi2022learning
    """

    layers = ("attention",)

    def __init__(self, *, reduction: Literal["mean", "sum"] = "mean") -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, ("mean", "sum"))

    @override
    def forward(self, probe: Probe) -> Tensor:
        attention = self.recorded(probe)
        size = probe.features.shape[2:]
        mask = probe.mask.mean(dim=1).expand(-1, *size)
        resized = functional.interpolate(attention, size=size, mode="bilinear")[:, 0]
        distance = (resized - (1 - mask)).square().sum(dim=(1, 2))
        if self.reduction == "mean":
            distance = distance / mask[0].numel()
        guided = probe.batch.guided
        return distance if guided is None else torch.where(guided, distance, 0)


@recipe(AttentionCrossEntropy, ABN)
def abn(
    task: Term,
    attention: AttentionCrossEntropy,
    penalty: ABN,
    *,
    weight: Weight = 10.0,
    attention_weight: float = 1.0,
) -> Objective:
    """ABN: an attention branch whose map equals the annotation.

    Needs a model with an attention branch, such as ``attention_branch``.

    Example:
        >>> abn().weights
        {'cross_entropy': 1.0, 'attention_cross_entropy': 1.0, 'abn': 10.0}
    """
    return task + attention_weight * attention + weight * penalty
