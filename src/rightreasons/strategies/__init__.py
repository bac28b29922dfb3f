"""Strategies: procedures that call `fit` once or more often; one strategy = one file."""

from rightreasons.strategies.dfr import DFR as DFR
from rightreasons.strategies.divdis import DivDis as DivDis
from rightreasons.strategies.jtt import JTT as JTT
from rightreasons.strategies.lff import LFF as LFF
from rightreasons.strategies.masktune import MaskTune as MaskTune
from rightreasons.strategies.random_mask import RandomMask as RandomMask
from rightreasons.strategies.reff import ReFF as ReFF
from rightreasons.strategies.registry import STRATEGIES as STRATEGIES
from rightreasons.strategies.strategy import Once as Once
from rightreasons.strategies.strategy import Stages as Stages
from rightreasons.strategies.strategy import Strategy as Strategy

__all__ = [
    "DFR",
    "JTT",
    "LFF",
    "STRATEGIES",
    "DivDis",
    "MaskTune",
    "Once",
    "RandomMask",
    "ReFF",
    "Stages",
    "Strategy",
]
