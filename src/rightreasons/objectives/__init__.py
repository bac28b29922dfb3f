"""Objectives: one term = one file; `recipes` puts them together."""

from rightreasons.norm import Norm as Norm
from rightreasons.norm import sample_norm as sample_norm
from rightreasons.objectives import recipes as recipes
from rightreasons.objectives.adv_r4 import AdvR4 as AdvR4
from rightreasons.objectives.alignment_term import AlignmentTerm as AlignmentTerm
from rightreasons.objectives.atex import ATEX as ATEX
from rightreasons.objectives.auto_weight import AutoWeight as AutoWeight
from rightreasons.objectives.ball_term import BallTerm as BallTerm
from rightreasons.objectives.cert_r4 import CertR4 as CertR4
from rightreasons.objectives.cosine_alignment import CosineAlignment as CosineAlignment
from rightreasons.objectives.cross_entropy import CrossEntropy as CrossEntropy
from rightreasons.objectives.cure import CURE as CURE
from rightreasons.objectives.group_dro import GroupDRO as GroupDRO
from rightreasons.objectives.hessian import Hessian as Hessian
from rightreasons.objectives.ibp_ex import IbpEx as IbpEx
from rightreasons.objectives.ig_norm import IGNorm as IGNorm
from rightreasons.objectives.ig_sum import IGSum as IGSum
from rightreasons.objectives.iga import IGA as IGA
from rightreasons.objectives.input_gradient import InputGradient as InputGradient
from rightreasons.objectives.l2_alignment import L2Alignment as L2Alignment
from rightreasons.objectives.loss import Loss as Loss
from rightreasons.objectives.objective import Objective as Objective
from rightreasons.objectives.objective import Term as Term
from rightreasons.objectives.pgd_ex import PgdEx as PgdEx
from rightreasons.objectives.r3 import R3 as R3
from rightreasons.objectives.r4 import R4 as R4
from rightreasons.objectives.ramp import Ramp as Ramp
from rightreasons.objectives.rand_r4 import RandR4 as RandR4
from rightreasons.objectives.robust_term import RobustTerm as RobustTerm
from rightreasons.objectives.smooth_r3 import SmoothR3 as SmoothR3
from rightreasons.objectives.weight_decay import WeightDecay as WeightDecay

__all__ = [
    "ATEX",
    "CURE",
    "IGA",
    "R3",
    "R4",
    "AdvR4",
    "AlignmentTerm",
    "AutoWeight",
    "BallTerm",
    "CertR4",
    "CosineAlignment",
    "CrossEntropy",
    "GroupDRO",
    "Hessian",
    "IGNorm",
    "IGSum",
    "IbpEx",
    "InputGradient",
    "L2Alignment",
    "Loss",
    "Norm",
    "Objective",
    "PgdEx",
    "Ramp",
    "RandR4",
    "RobustTerm",
    "SmoothR3",
    "Term",
    "WeightDecay",
    "sample_norm",
]
