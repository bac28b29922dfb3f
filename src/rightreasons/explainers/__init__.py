"""Explainers: which features of a sample a prediction comes from.

A family that shares its formula is one file. All but occlusion can be differentiated again.
"""

from rightreasons.explainers.activation_maximisation import (
    activation_maximisation as activation_maximisation,
)
from rightreasons.explainers.explainer import Explainer as Explainer
from rightreasons.explainers.explainer import postprocessed as postprocessed
from rightreasons.explainers.grad_cam import GradCAM as GradCAM
from rightreasons.explainers.grad_cam import XGradCAM as XGradCAM
from rightreasons.explainers.gradients import InputGradient as InputGradient
from rightreasons.explainers.gradients import InputTimesGradient as InputTimesGradient
from rightreasons.explainers.gradients import SmoothGrad as SmoothGrad
from rightreasons.explainers.guided_backprop import GuidedBackprop as GuidedBackprop
from rightreasons.explainers.integrated_gradients import IntegratedGradients as IntegratedGradients
from rightreasons.explainers.lrp import LRP as LRP
from rightreasons.explainers.occlusion import Occlusion as Occlusion
from rightreasons.explainers.registry import EXPLAINERS as EXPLAINERS
from rightreasons.explainers.spatial_layers import last_spatial_layer as last_spatial_layer
from rightreasons.explainers.spatial_layers import resolution_layers as resolution_layers

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
