"""Attacks: the worst a box holds, as far as steps along gradients find it."""

from rightreasons.attacks.gradient_search import GradientSize as GradientSize
from rightreasons.attacks.gradient_search import climbed as climbed
from rightreasons.attacks.gradient_search import drawn_points as drawn_points
from rightreasons.attacks.gradient_search import worst_drawn as worst_drawn
from rightreasons.attacks.value_search import worst_value as worst_value

__all__ = ["GradientSize", "climbed", "drawn_points", "worst_drawn", "worst_value"]
