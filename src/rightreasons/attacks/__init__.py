"""Attacks: the worst point of a box or ball that gradient steps find."""

from rightreasons.attacks.apgd import APGD as APGD
from rightreasons.attacks.ball import Ball as Ball
from rightreasons.attacks.ball import BallNorm as BallNorm
from rightreasons.attacks.manipulation import AttributionManipulation as AttributionManipulation
from rightreasons.attacks.manipulation import Manipulated as Manipulated
from rightreasons.attacks.manipulation import frame_map as frame_map
from rightreasons.attacks.manipulation import map_distance as map_distance
from rightreasons.attacks.output_attack import Attacked as Attacked
from rightreasons.attacks.output_attack import OutputAttack as OutputAttack
from rightreasons.attacks.output_attack import climb_slope as climb_slope
from rightreasons.attacks.output_attack import targeted_dlr as targeted_dlr
from rightreasons.attacks.pgd import FGSM as FGSM
from rightreasons.attacks.pgd import PGD as PGD
from rightreasons.attacks.search import GradientSize as GradientSize
from rightreasons.attacks.search import climb as climb
from rightreasons.attacks.search import climb as climbed
from rightreasons.attacks.search import draw_points as draw_points
from rightreasons.attacks.search import draw_points as drawn_points
from rightreasons.attacks.search import draw_worst_point as draw_worst_point
from rightreasons.attacks.search import draw_worst_point as worst_drawn
from rightreasons.attacks.search import worst_value as worst_value
from rightreasons.attacks.strongest_of import apgd_pair as apgd_pair
from rightreasons.attacks.strongest_of import strongest_of as strongest_of

__all__ = [
    "APGD",
    "FGSM",
    "PGD",
    "Attacked",
    "AttributionManipulation",
    "Ball",
    "BallNorm",
    "GradientSize",
    "Manipulated",
    "OutputAttack",
    "apgd_pair",
    "climb",
    "climb_slope",
    "climbed",
    "draw_points",
    "draw_worst_point",
    "drawn_points",
    "frame_map",
    "map_distance",
    "strongest_of",
    "targeted_dlr",
    "worst_drawn",
    "worst_value",
]
