"""ReFF: Grad-CAM maps of several layers stay outside the mask (Adachi et al. 2022).

The three members differ in how they compare a map with the mask. All need masks and a model with
convolutional features or tokens.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import positive_float
from rightreasons.core.model_modes import innermost
from rightreasons.core.norms import sample_norm
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers.feature_maps import Reshape, checked_reshape
from rightreasons.explainers.grad_cam import activation_gradients
from rightreasons.explainers.spatial_layers import resolution_layers
from rightreasons.objectives.auto_weight import Growing
from rightreasons.objectives.objective import Objective, Term, Weight, snake_case
from rightreasons.objectives.recipe import recipe
from rightreasons.objectives.robust_term import Ramp
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["CamTerm", "ReFF", "ReFFL1", "ReFFL2", "normalised_map", "reff", "reff_l1", "reff_l2"]

SMALLEST_SHARE = 1e-6
"""A map whose positive part is a smaller share of its absolute sum counts as zero."""


class CamTerm(Growing, Term):
    r"""A weighted sum over layers of a distance d of the normalised Grad-CAM map and the mask.

    .. math:: \sum_l w_l \, d(I'_l, m), \qquad
        I'_l = \frac{I_l}{\lVert I_l \rVert_1}, \qquad
        I_l = \mathrm{resize}\Bigl(\max\bigl(\sum_k \alpha^l_k A^l_k, 0\bigr)\Bigr), \qquad
        \alpha^l_k = \frac{1}{H^l W^l} \sum_{ij} \frac{\partial t(x)}{\partial A^l_{kij}}

    Maps are resized bilinearly to the mask and sum to 1 there. One backward pass serves all
    layers. A layer whose map is zero everywhere adds nothing, and has no gradient. Samples
    without a mask (`Batch.guided`) add nothing.

    Args:
        layers: Names of layers that give maps, or one name. None takes the last block of each
            resolution (`resolution_layers`), found once for each model.
        layer_weights: One weight for each layer, from the first to the last; None takes those of
            `default_weight`.
        target: The output that is differentiated, the label's logit as in the paper.
        ramp: Share of training over which the term grows to its weight. The maps of an untrained
            model mean nothing, and a strong term would keep it from learning.
        reshape: How outputs of the layers become maps, see `ClassActivation`; None finds it out.
    """

    needs_gradient = True

    def __init__(
        self,
        *,
        layers: Sequence[str] | str | None = None,
        layer_weights: Sequence[float] | None = None,
        target: Target | str = Target.LOGIT,
        ramp: float = 0.0,
        reshape: Reshape | None = None,
    ) -> None:
        super().__init__()
        self.reshape = checked_reshape(reshape)
        self.layers = () if layers is None else _checked_names(layers)
        self.layer_weights = None
        if layer_weights is not None:
            self.layer_weights = _checked_weights(layer_weights)
        self.target = Target(target)
        self.ramp = Ramp(ramp)
        self._layers_of: tuple[weakref.ref[nn.Module], tuple[str, ...]] | None = None

    @abstractmethod
    def distance(self, cam: Tensor, mask: Tensor) -> Tensor:
        """The distance of normalised maps and masks, both ``(N, H, W)`` -> ``(N,)``."""

    def default_weight(self, cells: int, pixels: int) -> float:
        """The weight of a layer whose maps have ``cells`` cells, for masks of ``pixels`` pixels."""
        del cells, pixels
        return 1.0

    @property
    @override
    def name(self) -> str:
        return snake_case(type(self).__name__.replace("ReFF", "Reff"))

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        del data
        self.ramp.prepare(num_passes)

    @override
    def layers_in(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        if self.layers:
            return self.layers
        if self._layers_of is None or self._layers_of[0]() is not model:
            self._layers_of = weakref.ref(model), tuple(resolution_layers(model, x))
        return self._layers_of[1]

    @override
    def forward(self, probe: Probe) -> Tensor:
        if probe.features.ndim != 4:
            raise InvalidBatchError(
                f"Expected images (N, C, H, W) for {type(self).__name__}, but got shape "
                f"{tuple(probe.features.shape)}."
            )
        size = probe.features.shape[2:]
        mask = probe.mask.mean(dim=1).expand(-1, *size)  # without channels, as the maps
        layers = self.layers_in(innermost(probe.model), probe.features)
        weights = self.layer_weights
        if weights is not None and len(weights) != len(layers):
            raise InvalidSettingError(
                f"Expected `layer_weights` to have one number for each of the layers "
                f"{', '.join(layers)}, but got {len(weights)}."
            )
        total = probe.logits.new_zeros(len(mask))
        for number, (activation, gradient) in enumerate(
            activation_gradients(probe, layers, self.target, reshape=self.reshape)
        ):
            heat = torch.einsum("nc,nchw->nhw", gradient.mean(dim=(2, 3)), activation)
            cam, alive = normalised_map(heat.to(total.dtype), size)
            cells, pixels = heat[0].numel(), mask[0].numel()
            weight = self.default_weight(cells, pixels) if weights is None else weights[number]
            total = total + weight * torch.where(alive, self.distance(cam, mask), 0)
        self.grown = self.ramp.advanced()
        total = self.grown * total
        guided = probe.batch.guided
        return total if guided is None else torch.where(guided, total, 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_layers_of": None}  # weak references cannot be copied


@final
class ReFF(CamTerm):
    r"""The squared norm of normalised Grad-CAM maps inside the mask, over layers.

    .. math:: \sum_l w_l \, \lVert I'_l \odot m \rVert_2^2

    with the maps of `CamTerm`. Unit: none. The default weights are :math:`w_l = HW / H^lW^l`, the
    pixels of a cell. A layer then gives about :math:`\sum_c (p_c m_c)^2` over its cells, where
    :math:`p_c` is a cell's share of the map. That is from 0 to 1, whatever the size of images and
    maps. The paper's (15, 60, 250, 1000) are these numbers, rounded, for 224 pixels and blocks of
    56, 28, 14 and 7: (16, 64, 256, 1024). A map that is spread out evenly has almost no penalty,
    wherever it lies.

    Differs from the paper: it does not say whether maps sum to 1 before or after they are
    resized. Here it is after, since only then its weights balance the layers. The paper annotates
    what is relevant, the mask is what is not.

    The settings are those of `CamTerm`. The paper's layers are ``["layer1", "layer2", "layer3",
    "layer4"]``, its weights ``(15, 60, 250, 1000)``.

    Example:
        >>> import torch
        >>> from rightreasons.models import small_cnn
        >>> from rightreasons.types import Batch
        >>> x, mask = torch.rand(2, 3, 28, 28), torch.ones(2, 1, 28, 28)
        >>> batch = Batch(x=x, y=torch.tensor([0, 1]), mask=mask)
        >>> loss = ReFF().as_objective()(small_cnn(classes=2), batch)
        >>> 0 < float(loss.total.detach()) < 4
        True

    References:
        adachi2022learning
    """

    @override
    def distance(self, cam: Tensor, mask: Tensor) -> Tensor:
        return sample_norm(mask * cam, "squared_l2")

    @override
    def default_weight(self, cells: int, pixels: int) -> float:
        return pixels / cells


@recipe(ReFF)
def reff(task: Term, penalty: ReFF, *, weight: Weight = 1.0) -> Objective:
    """ReFF: no Grad-CAM inside the mask, at several layers at once.

    The default weight is the paper's. Small nets that learn from scratch in few updates took 100 to
    300, with a ramp; see the suite ``reff-table3``.

    Example:
        >>> reff(layers="layer4", layer_weights=[1000.0]).weights
        {'cross_entropy': 1.0, 'reff': 1.0}
    """
    return task + weight * penalty


@final
class ReFFL1(CamTerm):
    r"""The distance of normalised Grad-CAM maps and what is outside the mask, over layers.

    .. math:: \sum_l w_l \, \lVert I'_l - (1 - m) \rVert_1

    with the maps of `CamTerm`, whose settings it takes. Unit: pixels. Maps sum to 1, so that they
    are nowhere above 1. Each distance is then the number of pixels outside the mask, less 1, plus
    twice the map's share inside: only that share is minimised. The default weights are 1.

    Differs from the paper: its weights are ``(15, 60, 250, 1000)``, with 1e-6 on the sum.

    References:
        adachi2022learning
    """

    @override
    def distance(self, cam: Tensor, mask: Tensor) -> Tensor:
        return sample_norm(cam - (1 - mask), "l1")


@recipe(ReFFL1)
def reff_l1(task: Term, penalty: ReFFL1, *, weight: Weight = 1e-3) -> Objective:
    """ReFF (L1): Grad-CAM maps near the annotation, by absolute distance.

    The default weight is near the paper's; small nets that learn from scratch took 3, with a ramp.

    Example:
        >>> reff_l1().weights
        {'cross_entropy': 1.0, 'reff_l1': 0.001}
    """
    return task + weight * penalty


@final
class ReFFL2(CamTerm):
    r"""The squared distance of normalised Grad-CAM maps and what is outside the mask.

    .. math:: \sum_l w_l \, \lVert I'_l - (1 - m) \rVert_2^2

    with the maps of `CamTerm`, whose settings it takes. Unit: pixels. For a mask of zeros and ones
    each distance is the number of pixels outside it, less 2, plus twice the map's share inside it,
    plus the map's squared norm. The norm is small, so the term is almost `ReFFL1`. The default
    weights are 1.

    Differs from the paper: its weights are ``(15, 60, 250, 1000)``, with 1e-6 on the sum.

    References:
        adachi2022learning
    """

    @override
    def distance(self, cam: Tensor, mask: Tensor) -> Tensor:
        return sample_norm(cam - (1 - mask), "squared_l2")


@recipe(ReFFL2)
def reff_l2(task: Term, penalty: ReFFL2, *, weight: Weight = 1e-3) -> Objective:
    """ReFF (L2): Grad-CAM maps near the annotation, by squared distance.

    The default weight is near the paper's; small nets that learn from scratch took 3, with a ramp.

    Example:
        >>> reff_l2().weights
        {'cross_entropy': 1.0, 'reff_l2': 0.001}
    """
    return task + weight * penalty


def normalised_map(heat: Tensor, size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The positive part of maps, resized, summing to 1.

    Args:
        heat: Maps ``(N, h, w)``.
        size: Height and width of the result.

    Returns:
        The maps ``(N, H, W)``, and whether each map has a positive part; one without is zero.

    Example:
        >>> cam, alive = normalised_map(torch.tensor([[[-1.0, 3.0]], [[-1.0, -2.0]]]), (1, 2))
        >>> cam[:, 0], alive
        (tensor([[0., 1.],
                [0., 0.]]), tensor([ True, False]))
    """
    positive = functional.relu(heat)
    resized = functional.interpolate(positive[:, None], size=tuple(size), mode="bilinear")[:, 0]
    floor = (SMALLEST_SHARE * heat.abs().sum(dim=(1, 2))).clamp_min(
        torch.finfo(heat.dtype).tiny ** 0.5
    )
    alive = positive.sum(dim=(1, 2)) > floor
    total = torch.where(alive, resized.sum(dim=(1, 2)), 1)
    return torch.where(alive, 1, 0)[:, None, None] * resized / total[:, None, None], alive


def _checked_names(layers: object) -> tuple[str, ...]:
    given = [layers] if isinstance(layers, str) else layers
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise InvalidSettingError(
            f"Expected `layers` to be the name of a layer or several, as `model.named_modules()` "
            f"has them, but got {layers!r}. Name them, such as ['layer3', 'layer4'], or leave "
            "them out to have them looked for."
        )
    if not names:
        raise InvalidSettingError("Expected `layers` to name at least one layer, but got none.")
    return names


def _checked_weights(weights: object) -> tuple[float, ...]:
    if not isinstance(weights, Iterable) or isinstance(weights, str):
        raise InvalidSettingError(
            f"Expected `layer_weights` to be one number for each layer, but got {weights!r}. Put "
            "them in a list, such as [15.0, 60.0]; the weight of the whole term is `weight`."
        )
    return tuple(positive_float("layer_weights", weight) for weight in weights)
