"""What terms on attention branches have in common: a model that has one."""

from __future__ import annotations

from torch import Tensor, nn

from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe

__all__ = ["AttentionTerm"]


class AttentionTerm(Term):
    """A term that reads a part of an attention branch, by the names of `AttentionBranch`."""

    def layers_in(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        """See `Term.layers_in`."""
        del x
        names = {name for name, _ in model.named_modules()}
        if not names >= set(self.layers):
            raise InvalidSettingError(
                f"Expected a model with an attention branch, layers called "
                f"{' and '.join(repr(layer) for layer in self.layers)}, but got "
                f"{type(model).__name__}. Use the model attention_branch, or wrap yours in "
                "AttentionBranch."
            )
        return self.layers

    def recorded(self, probe: Probe) -> Tensor:
        """What the layer gave in this pass."""
        (layer,) = self.layers_in(probe.model, probe.features)
        if layer not in probe.activations:
            raise InvalidSettingError(
                f"Expected a probe made with `layers=[{layer!r}]`, but it recorded none."
            )
        return probe.activations[layer]
