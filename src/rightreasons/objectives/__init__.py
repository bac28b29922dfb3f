"""Objectives: one term = one file; `recipes` puts them together."""

from rightreasons.objectives import recipes as recipes
from rightreasons.objectives.auto_weight import AutoWeight as AutoWeight
from rightreasons.objectives.cross_entropy import CrossEntropy as CrossEntropy
from rightreasons.objectives.group_dro import GroupDRO as GroupDRO
from rightreasons.objectives.input_gradient import InputGradient as InputGradient
from rightreasons.objectives.loss import Loss as Loss
from rightreasons.objectives.norm import Norm as Norm
from rightreasons.objectives.norm import sample_norm as sample_norm
from rightreasons.objectives.objective import Objective as Objective
from rightreasons.objectives.objective import Term as Term
from rightreasons.objectives.r3 import R3 as R3
from rightreasons.objectives.weight_decay import WeightDecay as WeightDecay

__all__ = [
    "AutoWeight",
    "CrossEntropy",
    "GroupDRO",
    "InputGradient",
    "Loss",
    "Norm",
    "Objective",
    "R3",
    "Term",
    "WeightDecay",
    "sample_norm",
]
