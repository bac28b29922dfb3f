"""Sound bounds of a network's outputs and input gradients over a box of inputs.

- For a certificate: `output_bounds`, `input_gradient_bounds` and `margin_bounds`.
- Inside a loss: `output_box`, `gradient_box` and `lowest_margins`.
- To bound a new kind of layer: `linear_map` if it is affine, `curve` if it works element by
  element, else `forward_bounds` and `backward_bounds`.
"""

# Importing the file of a layer kind registers its rules.
from rightreasons.bounds import batch_norm, convolution, layer_norm, pooling, relu  # noqa: F401
from rightreasons.bounds.box import METHODS as METHODS
from rightreasons.bounds.box import Box as Box
from rightreasons.bounds.curve import Curve as Curve
from rightreasons.bounds.curve import curve as curve
from rightreasons.bounds.functions import gradient_box as gradient_box
from rightreasons.bounds.functions import (
    input_gradient_bounds as input_gradient_bounds,
)
from rightreasons.bounds.functions import lowest_margins as lowest_margins
from rightreasons.bounds.functions import margin_bounds as margin_bounds
from rightreasons.bounds.functions import output_bounds as output_bounds
from rightreasons.bounds.functions import output_box as output_box
from rightreasons.bounds.linear import LinearMap as LinearMap
from rightreasons.bounds.linear import linear_map as linear_map
from rightreasons.bounds.network import Network as Network
from rightreasons.bounds.network import Node as Node
from rightreasons.bounds.network import network_of as network_of
from rightreasons.bounds.network import refuse_jumps as refuse_jumps
from rightreasons.bounds.rule import backward_bounds as backward_bounds
from rightreasons.bounds.rule import forward_bounds as forward_bounds
from rightreasons.bounds.rule import layer_kinds as layer_kinds

__all__ = [
    "METHODS",
    "Box",
    "Curve",
    "LinearMap",
    "Network",
    "Node",
    "backward_bounds",
    "curve",
    "forward_bounds",
    "gradient_box",
    "input_gradient_bounds",
    "layer_kinds",
    "linear_map",
    "lowest_margins",
    "margin_bounds",
    "network_of",
    "output_bounds",
    "output_box",
    "refuse_jumps",
]
