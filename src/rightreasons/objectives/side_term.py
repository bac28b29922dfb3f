"""What terms have in common that read what a model says beside its logits."""

from __future__ import annotations

from torch import Tensor, nn

from rightreasons.double_backward import innermost
from rightreasons.errors import InvalidSettingError
from rightreasons.models.side_output import side_output
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe

__all__ = ["SideTerm"]


class SideTerm(Term):
    """A term that reads side outputs; ``layers`` are their names, wherever they are in a model."""

    def layers_in(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        """See `Term.layers_in`."""
        del x
        return tuple(side_output(model, layer) for layer in self.layers)

    def recorded(self, probe: Probe, layer: str) -> Tensor:
        """What the layer gave in this pass, in the precision of the logits."""
        name = side_output(innermost(probe.model), layer)
        if name not in probe.activations:
            raise InvalidSettingError(
                f"Expected a probe made with `layers=[{name!r}]`, but it recorded none."
            )
        return probe.activations[name].to(probe.logits.dtype)
