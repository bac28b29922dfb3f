"""What some models say beside their logits, by the name of the layer that says it."""

from __future__ import annotations

from torch import nn

from rightreasons.errors import InvalidSettingError

__all__ = ["ABSTENTION", "AUXILIARY", "SELECTION", "side_output"]

ABSTENTION = "all_logits"
"""Logits ``(N, K + 1)``, the last one that of abstaining."""
SELECTION = "selection"
"""Log-odds ``(N, 1)`` of answering."""
AUXILIARY = "auxiliary_logits"
"""Logits ``(N, K)`` of a second head."""

_MADE_BY = {
    ABSTENTION: "abstaining, or wrap one with a further output in Abstaining",
    SELECTION: "selective_net, or give a body of your own to SelectiveHeads",
    AUXILIARY: "selective_net, or give a body of your own to SelectiveHeads",
}


def side_output(model: nn.Module, layer: str) -> str:
    """The full name of a layer, wherever it is in the model.

    Args:
        model: May hold the one that has the layer, as `normalised` does.
        layer: Its own name, such as ``"selection"``.

    Example:
        >>> side_output(nn.ModuleDict({"net": nn.ModuleDict({"selection": nn.Identity()})}),
        ...             "selection")
        'net.selection'
    """
    names: list[str] = [name for name, _ in model.named_modules() if name.split(".")[-1] == layer]
    if not names:
        raise InvalidSettingError(
            f"Expected a model with a layer called {layer!r}, but {type(model).__name__} has none. "
            f"Use the model {_MADE_BY.get(layer, 'that has one')}."
        )
    return min(names, key=lambda name: name.count("."))
