"""Metrics: one metric or family = one file, each two pure functions."""

from rightreasons.metrics.accuracy import Accuracy as Accuracy
from rightreasons.metrics.accuracy import CalibrationError as CalibrationError
from rightreasons.metrics.accuracy import GroupAccuracy as GroupAccuracy
from rightreasons.metrics.adversarial_accuracy import AdversarialAccuracy as AdversarialAccuracy
from rightreasons.metrics.box import CertifiedChange as CertifiedChange
from rightreasons.metrics.box import GradientFragility as GradientFragility
from rightreasons.metrics.feature_leakage import FeatureLeakage as FeatureLeakage
from rightreasons.metrics.insertion import AdvInsertion as AdvInsertion
from rightreasons.metrics.insertion import Deletion as Deletion
from rightreasons.metrics.insertion import Insertion as Insertion
from rightreasons.metrics.mass import CamMass as CamMass
from rightreasons.metrics.mass import InputGradientMass as InputGradientMass
from rightreasons.metrics.metric import Metric as Metric
from rightreasons.metrics.metric import Rows as Rows
from rightreasons.metrics.noise import DensityRobustness as DensityRobustness
from rightreasons.metrics.noise import GradientRobustness as GradientRobustness
from rightreasons.metrics.out_of_distribution import auroc as auroc
from rightreasons.metrics.out_of_distribution import ood_auroc as ood_auroc
from rightreasons.metrics.pixel_perturbation import PixelPerturbation as PixelPerturbation
from rightreasons.metrics.rationales import Comprehensiveness as Comprehensiveness
from rightreasons.metrics.rationales import Sufficiency as Sufficiency
from rightreasons.metrics.rationales import TokenAgreement as TokenAgreement
from rightreasons.metrics.registry import METRICS as METRICS
from rightreasons.metrics.registry import create_metric as create_metric
from rightreasons.metrics.registry import suitable as suitable
from rightreasons.metrics.relative_core_sensitivity import (
    RelativeCoreSensitivity as RelativeCoreSensitivity,
)
from rightreasons.metrics.risk_coverage import RiskCoverage as RiskCoverage
from rightreasons.metrics.risk_coverage import selective_accuracy as selective_accuracy
from rightreasons.metrics.risk_coverage import threshold_for_coverage as threshold_for_coverage
from rightreasons.metrics.robust_criterion import RobustCriterion as RobustCriterion
from rightreasons.metrics.rps import RPS as RPS
from rightreasons.metrics.sensitivity import SubstitutionSensitivity as SubstitutionSensitivity
from rightreasons.metrics.swap_accuracy import SwapAccuracy as SwapAccuracy
from rightreasons.metrics.swap_accuracy import transplant as transplant
from rightreasons.metrics.swap_accuracy import transplant as transplanted

__all__ = [
    "METRICS",
    "RPS",
    "Accuracy",
    "AdvInsertion",
    "AdversarialAccuracy",
    "CalibrationError",
    "CamMass",
    "CertifiedChange",
    "Comprehensiveness",
    "Deletion",
    "DensityRobustness",
    "FeatureLeakage",
    "GradientFragility",
    "GradientRobustness",
    "GroupAccuracy",
    "InputGradientMass",
    "Insertion",
    "Metric",
    "PixelPerturbation",
    "RelativeCoreSensitivity",
    "RiskCoverage",
    "RobustCriterion",
    "Rows",
    "SubstitutionSensitivity",
    "Sufficiency",
    "SwapAccuracy",
    "TokenAgreement",
    "auroc",
    "create_metric",
    "ood_auroc",
    "selective_accuracy",
    "suitable",
    "threshold_for_coverage",
    "transplant",
    "transplanted",
]
