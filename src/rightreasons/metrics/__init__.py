"""Metrics: one metric = one file, two pure functions."""

from rightreasons.metrics.accuracy import Accuracy as Accuracy
from rightreasons.metrics.adv_insertion import AdvInsertion as AdvInsertion
from rightreasons.metrics.calibration_error import CalibrationError as CalibrationError
from rightreasons.metrics.catalogue import METRICS as METRICS
from rightreasons.metrics.catalogue import suitable as suitable
from rightreasons.metrics.certified_change import CertifiedChange as CertifiedChange
from rightreasons.metrics.deletion import Deletion as Deletion
from rightreasons.metrics.gradient_fragility import GradientFragility as GradientFragility
from rightreasons.metrics.group_accuracy import GroupAccuracy as GroupAccuracy
from rightreasons.metrics.input_gradient_mass import InputGradientMass as InputGradientMass
from rightreasons.metrics.insertion import Insertion as Insertion
from rightreasons.metrics.metric import Metric as Metric
from rightreasons.metrics.metric import Rows as Rows
from rightreasons.metrics.relative_core_sensitivity import (
    RelativeCoreSensitivity as RelativeCoreSensitivity,
)
from rightreasons.metrics.robust_criterion import RobustCriterion as RobustCriterion
from rightreasons.metrics.rps import RPS as RPS
from rightreasons.metrics.swap_accuracy import SwapAccuracy as SwapAccuracy
from rightreasons.metrics.swap_accuracy import transplanted as transplanted

__all__ = [
    "METRICS",
    "RPS",
    "Accuracy",
    "AdvInsertion",
    "CalibrationError",
    "CertifiedChange",
    "Deletion",
    "GradientFragility",
    "GroupAccuracy",
    "InputGradientMass",
    "Insertion",
    "Metric",
    "RelativeCoreSensitivity",
    "RobustCriterion",
    "Rows",
    "SwapAccuracy",
    "suitable",
    "transplanted",
]
