"""Attacks: the worst a box holds, as far as steps along gradients find it."""

from rightreasons.attacks.frame_map import frame_map as frame_map
from rightreasons.attacks.gradient_search import GradientSize as GradientSize
from rightreasons.attacks.gradient_search import climbed as climbed
from rightreasons.attacks.gradient_search import drawn_points as drawn_points
from rightreasons.attacks.gradient_search import worst_drawn as worst_drawn
from rightreasons.attacks.manipulation import AttributionManipulation as AttributionManipulation
from rightreasons.attacks.manipulation import Manipulated as Manipulated
from rightreasons.attacks.manipulation import map_distance as map_distance
from rightreasons.attacks.value_search import worst_value as worst_value

__all__ = [
    "AttributionManipulation",
    "GradientSize",
    "Manipulated",
    "climbed",
    "drawn_points",
    "frame_map",
    "map_distance",
    "worst_drawn",
    "worst_value",
]
