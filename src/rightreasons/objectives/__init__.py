"""Loss terms, the objectives they add up to, and recipes: one family of terms is one file."""

from rightreasons.core.norms import Norm as Norm
from rightreasons.core.norms import sample_norm as sample_norm
from rightreasons.objectives import recipes as recipes
from rightreasons.objectives.abn import ABN as ABN
from rightreasons.objectives.abn import (
    AttentionCrossEntropy as AttentionCrossEntropy,
)
from rightreasons.objectives.abn import AttentionTerm as AttentionTerm
from rightreasons.objectives.adversarial_training import (
    AdversarialTraining as AdversarialTraining,
)
from rightreasons.objectives.alignment import AlignmentTerm as AlignmentTerm
from rightreasons.objectives.alignment import CosineAlignment as CosineAlignment
from rightreasons.objectives.alignment import L2Alignment as L2Alignment
from rightreasons.objectives.atex import ATEX as ATEX
from rightreasons.objectives.auto_weight import AutoWeight as AutoWeight
from rightreasons.objectives.auto_weight import ControlledWeight as ControlledWeight
from rightreasons.objectives.counterexamples import CounterExamples as CounterExamples
from rightreasons.objectives.cross_entropy import CrossEntropy as CrossEntropy
from rightreasons.objectives.cross_entropy import WeightDecay as WeightDecay
from rightreasons.objectives.curvature import CURE as CURE
from rightreasons.objectives.curvature import Hessian as Hessian
from rightreasons.objectives.density import Density as Density
from rightreasons.objectives.dro import CVAR as CVAR
from rightreasons.objectives.dro import GroupDRO as GroupDRO
from rightreasons.objectives.ibp_ex import IbpEx as IbpEx
from rightreasons.objectives.ibp_ex import PgdEx as PgdEx
from rightreasons.objectives.ig import IGA as IGA
from rightreasons.objectives.ig import BallTerm as BallTerm
from rightreasons.objectives.ig import IGNorm as IGNorm
from rightreasons.objectives.ig import IGSum as IGSum
from rightreasons.objectives.input_gradient import InputGradient as InputGradient
from rightreasons.objectives.objective import Loss as Loss
from rightreasons.objectives.objective import Objective as Objective
from rightreasons.objectives.objective import Term as Term
from rightreasons.objectives.objective import with_task as with_task
from rightreasons.objectives.r3 import R3 as R3
from rightreasons.objectives.r3 import SmoothR3 as SmoothR3
from rightreasons.objectives.r4 import R4 as R4
from rightreasons.objectives.r4 import AdvR4 as AdvR4
from rightreasons.objectives.r4 import CertR4 as CertR4
from rightreasons.objectives.r4 import RandR4 as RandR4
from rightreasons.objectives.reff import CamTerm as CamTerm
from rightreasons.objectives.reff import ReFF as ReFF
from rightreasons.objectives.reff import ReFFL1 as ReFFL1
from rightreasons.objectives.reff import ReFFL2 as ReFFL2
from rightreasons.objectives.robust_term import Ramp as Ramp
from rightreasons.objectives.robust_term import RobustTerm as RobustTerm
from rightreasons.objectives.score_matching import ScoreMatching as ScoreMatching
from rightreasons.objectives.selective import DeepGamblers as DeepGamblers
from rightreasons.objectives.selective import OneSided as OneSided
from rightreasons.objectives.selective import SelectiveNet as SelectiveNet
from rightreasons.objectives.selective import SideTerm as SideTerm
from rightreasons.objectives.spectral_decoupling import SpectralDecoupling as SpectralDecoupling
from rightreasons.objectives.token_r4 import TokenAdvR4 as TokenAdvR4
from rightreasons.objectives.token_r4 import TokenR4 as TokenR4
from rightreasons.objectives.token_r4 import TokenRandR4 as TokenRandR4
from rightreasons.objectives.token_r4 import TokenSmoothR3 as TokenSmoothR3

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
    "ControlledWeight",
    "CosineAlignment",
    "CounterExamples",
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
    "TokenAdvR4",
    "TokenR4",
    "TokenRandR4",
    "TokenSmoothR3",
    "WeightDecay",
    "sample_norm",
    "with_task",
]
