"""A model with a second last layer."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from rightreasons.process import seeded
from rightreasons.strategies.last_linear import read_inputs

__all__ = ["TwoHeads"]


class TwoHeads(nn.Module):
    """A model and a second linear layer on the features of its last; logits are the first one's.

    Args:
        model: Gives logits.
        layer: Its last linear layer.
        seed: Of the weights of the second.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        >>> TwoHeads(model, model[1], seed=0).second
        Linear(in_features=4, out_features=2, bias=True)
    """

    def __init__(self, model: nn.Module, layer: nn.Linear, *, seed: int) -> None:
        super().__init__()
        self.model = model
        self.second = copy.deepcopy(layer)
        with seeded(seed):
            self.second.reset_parameters()
        self.__dict__["first"] = layer  # no submodule: it is one of the model already

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the first layer; those of the second are recorded by who asks for them."""
        with read_inputs(self.__dict__["first"]) as inputs:
            logits: Tensor = self.model(x)
        self.second(inputs[-1])
        return logits

    def use_second(self) -> None:
        """Put the second layer's weights into the model."""
        with torch.no_grad():
            self.__dict__["first"].load_state_dict(self.second.state_dict())
