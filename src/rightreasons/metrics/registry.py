"""Metrics by name, and those that suit given data."""

from rightreasons.core.registry import Registry
from rightreasons.datasets.dataset import Dataset
from rightreasons.metrics.accuracy import Accuracy, CalibrationError, GroupAccuracy
from rightreasons.metrics.adversarial_accuracy import AdversarialAccuracy
from rightreasons.metrics.box import CertifiedChange, GradientFragility
from rightreasons.metrics.feature_leakage import FeatureLeakage
from rightreasons.metrics.insertion import AdvInsertion, Deletion, Insertion
from rightreasons.metrics.mass import CamMass, InputGradientMass
from rightreasons.metrics.metric import Metric
from rightreasons.metrics.noise import DensityRobustness, GradientRobustness
from rightreasons.metrics.pixel_perturbation import PixelPerturbation
from rightreasons.metrics.relative_core_sensitivity import RelativeCoreSensitivity
from rightreasons.metrics.risk_coverage import RiskCoverage
from rightreasons.metrics.robust_criterion import RobustCriterion
from rightreasons.metrics.rps import RPS
from rightreasons.metrics.swap_accuracy import SwapAccuracy

__all__ = ["METRICS", "suitable"]

METRICS: Registry[Metric] = Registry(
    "metric",
    {
        metric.name: metric
        for metric in (
            Accuracy,
            AdvInsertion,
            AdversarialAccuracy,
            CalibrationError,
            CamMass,
            CertifiedChange,
            Deletion,
            DensityRobustness,
            FeatureLeakage,
            GradientFragility,
            GradientRobustness,
            GroupAccuracy,
            InputGradientMass,
            Insertion,
            PixelPerturbation,
            RPS,
            RelativeCoreSensitivity,
            RiskCoverage,
            RobustCriterion,
            SwapAccuracy,
        )
    },
)


def suitable(data: Dataset) -> list[Metric]:
    """Every cheap metric for which the data have what it needs: masks, known groups.

    Those that need bounds, which not every model has, noise, or many explanations are measured
    when asked for by name.
    """
    metrics: list[Metric] = [Accuracy(), CalibrationError()]
    if data.groups is not None and bool((data.groups >= 0).any()):
        metrics.append(GroupAccuracy())
    if data.has_masks:
        metrics += [InputGradientMass(), SwapAccuracy()]
    return metrics
