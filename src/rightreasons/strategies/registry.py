"""Strategies by name."""

from rightreasons.core.checks import Registry
from rightreasons.strategies.dfr import DFR
from rightreasons.strategies.divdis import DivDis
from rightreasons.strategies.jtt import JTT
from rightreasons.strategies.lff import LFF
from rightreasons.strategies.masktune import MaskTune
from rightreasons.strategies.random_mask import RandomMask
from rightreasons.strategies.reff import ReFF
from rightreasons.strategies.strategy import Once, Strategy

__all__ = ["STRATEGIES"]

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    {
        "dfr": DFR,
        "divdis": DivDis,
        "jtt": JTT,
        "lff": LFF,
        "masktune": MaskTune,
        "once": Once,
        "random_mask": RandomMask,
        "reff": ReFF,
    },
)
