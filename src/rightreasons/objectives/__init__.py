"""Objectives: one term = one file; `recipes` puts them together."""

from rightreasons.norm import Norm as Norm
from rightreasons.norm import sample_norm as sample_norm
from rightreasons.objectives import recipes as recipes
from rightreasons.objectives.abn import ABN as ABN
from rightreasons.objectives.adv_r4 import AdvR4 as AdvR4
from rightreasons.objectives.adversarial_training import (
    AdversarialTraining as AdversarialTraining,
)
from rightreasons.objectives.alignment_term import AlignmentTerm as AlignmentTerm
from rightreasons.objectives.atex import ATEX as ATEX
from rightreasons.objectives.attention_cross_entropy import (
    AttentionCrossEntropy as AttentionCrossEntropy,
)
from rightreasons.objectives.attention_term import AttentionTerm as AttentionTerm
from rightreasons.objectives.auto_weight import AutoWeight as AutoWeight
from rightreasons.objectives.ball_term import BallTerm as BallTerm
from rightreasons.objectives.cam_term import CamTerm as CamTerm
from rightreasons.objectives.cert_r4 import CertR4 as CertR4
from rightreasons.objectives.cosine_alignment import CosineAlignment as CosineAlignment
from rightreasons.objectives.cross_entropy import CrossEntropy as CrossEntropy
from rightreasons.objectives.cure import CURE as CURE
from rightreasons.objectives.cvar import CVAR as CVAR
from rightreasons.objectives.deep_gamblers import DeepGamblers as DeepGamblers
from rightreasons.objectives.density import Density as Density
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
from rightreasons.objectives.one_sided import OneSided as OneSided
from rightreasons.objectives.pgd_ex import PgdEx as PgdEx
from rightreasons.objectives.r3 import R3 as R3
from rightreasons.objectives.r4 import R4 as R4
from rightreasons.objectives.ramp import Ramp as Ramp
from rightreasons.objectives.rand_r4 import RandR4 as RandR4
from rightreasons.objectives.reff import ReFF as ReFF
from rightreasons.objectives.reff_l1 import ReFFL1 as ReFFL1
from rightreasons.objectives.reff_l2 import ReFFL2 as ReFFL2
from rightreasons.objectives.robust_term import RobustTerm as RobustTerm
from rightreasons.objectives.score_matching import ScoreMatching as ScoreMatching
from rightreasons.objectives.selective_net import SelectiveNet as SelectiveNet
from rightreasons.objectives.side_term import SideTerm as SideTerm
from rightreasons.objectives.smooth_r3 import SmoothR3 as SmoothR3
from rightreasons.objectives.spectral_decoupling import SpectralDecoupling as SpectralDecoupling
from rightreasons.objectives.task import with_task as with_task
from rightreasons.objectives.weight_decay import WeightDecay as WeightDecay

__all__ = [
    "ABN",
    "ATEX",
    "CURE",
    "CVAR",
    "IGA",
    "R3",
    "R4",
    "AdvR4",
    "AdversarialTraining",
    "AlignmentTerm",
    "AttentionCrossEntropy",
    "AttentionTerm",
    "AutoWeight",
    "BallTerm",
    "CamTerm",
    "CertR4",
    "CosineAlignment",
    "CrossEntropy",
    "DeepGamblers",
    "Density",
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
    "OneSided",
    "PgdEx",
    "Ramp",
    "RandR4",
    "ReFF",
    "ReFFL1",
    "ReFFL2",
    "RobustTerm",
    "ScoreMatching",
    "SelectiveNet",
    "SideTerm",
    "SmoothR3",
    "SpectralDecoupling",
    "Term",
    "WeightDecay",
    "sample_norm",
    "with_task",
]
