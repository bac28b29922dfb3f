"""Explainers by name."""

from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.grad_cam import GradCAM
from rightreasons.explainers.guided_backprop import GuidedBackprop
from rightreasons.explainers.input_gradient import InputGradient
from rightreasons.explainers.input_times_gradient import InputTimesGradient
from rightreasons.explainers.integrated_gradients import IntegratedGradients
from rightreasons.explainers.lrp import LRP
from rightreasons.explainers.occlusion import Occlusion
from rightreasons.explainers.smooth_grad import SmoothGrad
from rightreasons.explainers.xgrad_cam import XGradCAM
from rightreasons.registry import Registry

__all__ = ["EXPLAINERS"]

EXPLAINERS: Registry[Explainer] = Registry(
    "explainer",
    {
        "grad_cam": GradCAM,
        "guided_backprop": GuidedBackprop,
        "input_gradient": InputGradient,
        "input_times_gradient": InputTimesGradient,
        "integrated_gradients": IntegratedGradients,
        "lrp": LRP,
        "occlusion": Occlusion,
        "smooth_grad": SmoothGrad,
        "xgrad_cam": XGradCAM,
    },
)
