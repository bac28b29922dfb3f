"""Explainers: one attribution = one file; all but occlusion are differentiable again."""

from rightreasons.explainers.activation_maximisation import (
    activation_maximisation as activation_maximisation,
)
from rightreasons.explainers.catalogue import EXPLAINERS as EXPLAINERS
from rightreasons.explainers.explainer import Explainer as Explainer
from rightreasons.explainers.grad_cam import GradCAM as GradCAM
from rightreasons.explainers.guided_backprop import GuidedBackprop as GuidedBackprop
from rightreasons.explainers.input_gradient import InputGradient as InputGradient
from rightreasons.explainers.input_times_gradient import InputTimesGradient as InputTimesGradient
from rightreasons.explainers.integrated_gradients import IntegratedGradients as IntegratedGradients
from rightreasons.explainers.lrp import LRP as LRP
from rightreasons.explainers.occlusion import Occlusion as Occlusion
from rightreasons.explainers.postprocess import postprocessed as postprocessed
from rightreasons.explainers.smooth_grad import SmoothGrad as SmoothGrad
from rightreasons.explainers.spatial_layers import last_spatial_layer as last_spatial_layer
from rightreasons.explainers.spatial_layers import resolution_layers as resolution_layers
from rightreasons.explainers.xgrad_cam import XGradCAM as XGradCAM

__all__ = [
    "EXPLAINERS",
    "Explainer",
    "GradCAM",
    "GuidedBackprop",
    "InputGradient",
    "InputTimesGradient",
    "IntegratedGradients",
    "LRP",
    "Occlusion",
    "SmoothGrad",
    "XGradCAM",
    "activation_maximisation",
    "last_spatial_layer",
    "postprocessed",
    "resolution_layers",
]
