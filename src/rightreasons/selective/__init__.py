"""Models that may abstain: two that must agree, and thresholds from validation data."""

from rightreasons.selective.pair import AbstainingPair as AbstainingPair
from rightreasons.selective.threshold import Threshold as Threshold

__all__ = ["AbstainingPair", "Threshold"]
