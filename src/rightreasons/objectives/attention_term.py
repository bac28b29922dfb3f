"""What terms on attention branches have in common: a model that has one."""

from __future__ import annotations

from torch import Tensor, nn

from rightreasons.double_backward import innermost
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe

__all__ = ["AttentionTerm"]

PARTS = ("attention", "attention_logits")


class AttentionTerm(Term):
    """A term that reads a part of an attention branch, by the names of `AttentionBranch`.

    The branch may be anywhere in the model. Many a transformer has layers called ``attention``
    too: inside a model, a branch is what has both parts.
    """

    def layers_in(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        """See `Term.layers_in`."""
        del x
        names = {name: None for name, _ in model.named_modules()}  # in their order
        if names.keys() >= set(self.layers):
            return self.layers
        places = [name.removesuffix(PARTS[1]) for name in names if name.endswith(f".{PARTS[1]}")]
        branches = [place for place in places if place + PARTS[0] in names]
        if not branches:
            raise InvalidSettingError(
                f"Expected a model with an attention branch, layers called "
                f"{' and '.join(repr(layer) for layer in self.layers)}, but got "
                f"{type(model).__name__}. Use the model attention_branch, or wrap yours in "
                "AttentionBranch."
            )
        outermost = min(branches, key=lambda place: place.count("."))
        return tuple(outermost + layer for layer in self.layers)

    def recorded(self, probe: Probe) -> Tensor:
        """What the layer gave in this pass."""
        (layer,) = self.layers_in(innermost(probe.model), probe.features)
        if layer not in probe.activations:
            raise InvalidSettingError(
                f"Expected a probe made with `layers=[{layer!r}]`, but it recorded none."
            )
        return probe.activations[layer]
