"""Explainers by name."""

from rightreasons.core.checks import Registry
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.grad_cam import GradCAM, XGradCAM
from rightreasons.explainers.gradients import InputGradient, InputTimesGradient, SmoothGrad
from rightreasons.explainers.guided_backprop import GuidedBackprop
from rightreasons.explainers.integrated_gradients import IntegratedGradients
from rightreasons.explainers.lrp import LRP
from rightreasons.explainers.occlusion import Occlusion

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
