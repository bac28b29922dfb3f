"""Models built so that a careless certificate is false: each must be refused, or judged rightly.

Every model has two features. The prediction depends on feature 0, which is masked, but only on a
stretch so narrow that attacks by gradient miss it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.bounds import margin_bounds
from rightreasons.errors import RightReasonsError
from rightreasons.types import Batch

NOWHERE = 100.0


class Gate(nn.Module):
    """Two logits that change places where feature 0 is near a place.

    Args:
        place: The middle of the stretch; `NOWHERE` lies outside of all boxes.
    """

    def __init__(self, place: float = 0.7):
        super().__init__()
        self.place = place
        self.read, self.head = nn.Linear(2, 1), nn.Linear(1, 2)
        with torch.no_grad():
            self.read.weight.copy_(torch.tensor([[1.0, 0.0]]))
            self.read.bias.zero_()
            self.head.weight.copy_(torch.tensor([[-1.0], [1.0]]))
            self.head.bias.copy_(torch.tensor([0.1, -0.1]))

    def forward(self, x):
        return self.head(bump(self.read(x) - self.place))


class Aliased(Gate):
    """A second name for an activation that is then changed in place."""

    def forward(self, x):
        hidden = self.read(x)
        skip = hidden
        hidden += 1
        return self.head(bump(skip - 1.7))


class Viewed(Gate):
    """A view of an activation that is then changed in place."""

    def forward(self, x):
        hidden = self.read(x)
        view = hidden.view(-1, 1)
        hidden.mul_(2.0)
        return self.head(bump(view - 1.4))


class Jumping(Gate):
    """A Softplus that falls by 0.44 where PyTorch switches to the identity."""

    def forward(self, x):
        return self.head(0.702 - functional.softplus(self.read(x), 1.0, 0.6))


def bump(x: Tensor) -> Tensor:
    """A hat around 0, of width 0.004 and height 2."""
    return 1e3 * (torch.relu(x + 0.002) - 2 * torch.relu(x) + torch.relu(x - 0.002))


def hook_layer(net: Gate) -> None:
    """Change an output of a layer by a hook."""
    net.read.register_forward_hook(
        lambda layer, args, out: torch.where(bump(out - 0.7) > 0.2, NOWHERE, out)
    )


def hook_container(net: Gate) -> None:
    """Change the output of a module that has layers by a hook."""
    net.register_forward_hook(lambda layer, args, out: out * (1 - bump(args[0][:, :1] - 0.7)))


def patch_forward(net: Gate) -> None:
    """Give one layer another forward pass."""
    net.read.forward = lambda x: torch.where(bump(x[:, :1] - 0.7) > 0.2, NOWHERE, x[:, :1])


def change_attribute(net: Gate) -> None:
    """Change what the forward pass reads, after the model was traced."""
    rr.certify(net, batch_of((0.2, 0.3)), epsilon=None, valid_range=(0.0, 1.0))
    net.place = 0.7


class Trap(NamedTuple):
    """A construction, and where its prediction must stay if it is verified."""

    make: Callable[[], nn.Module]
    alter: Callable[[Gate], None] | None = None
    sample: tuple[float, float] = (0.2, 0.3)
    epsilon: float | None = None
    stated_range: tuple[float, float] | None = (0.0, 1.0)
    moves_between: tuple[float, float] = (0.0, 1.0)


def _closed() -> Gate:
    return Gate(NOWHERE)


TRAPS = {
    "forward hook": Trap(_closed, hook_layer),
    "hook on a container": Trap(_closed, hook_container),
    "patched forward": Trap(_closed, patch_forward),
    "in-place aliasing": Trap(Aliased),
    "view before mul_": Trap(Viewed),
    "stale cache": Trap(_closed, change_attribute),
    "Softplus threshold": Trap(
        Jumping, sample=(0.55, 0.3), epsilon=0.06, moves_between=(0.49, 0.61)
    ),
    "range not stated": Trap(
        lambda: Gate(-1.3), sample=(0.5, -1.5), stated_range=None, moves_between=(-2.0, 2.0)
    ),
}


def check_trap(name: str) -> str:
    """Certify and bound a construction.

    Returns:
        ``"refused"`` for a sentence by the library, ``"false"`` for a certificate or bounds that
        the model breaks, else ``"right"``.
    """
    trap = TRAPS[name]
    net = trap.make().eval()
    batch = batch_of(trap.sample)
    if trap.alter is not None:
        trap.alter(net)
    points = batch.x.repeat(20_001, 1)
    points[:, 0] = torch.linspace(*trap.moves_between, len(points))
    with torch.no_grad():
        margins = (net(points) * torch.tensor([1.0, -1.0])).sum(dim=1)

    def certificate_holds() -> bool:
        (verdict,) = rr.certify(
            net, batch, method="crown", epsilon=trap.epsilon, valid_range=trap.stated_range
        ).samples
        return verdict.status != "verified" or bool((margins > 0).all())

    def bounds_hold() -> bool:
        lower, upper = batch.x.clone(), batch.x.clone()
        lower[:, 0], upper[:, 0] = trap.moves_between
        least = margin_bounds(net, lower, upper, batch.y, method="crown")[0, 1]
        return bool((margins >= least).all())

    outcome = "right"
    for holds in (certificate_holds, bounds_hold):
        try:
            if not holds():
                return "false"
        except RightReasonsError:
            outcome = "refused"
    return outcome


def batch_of(sample: tuple[float, float]) -> Batch:
    """One sample whose feature 0 is masked."""
    mask = torch.tensor([[1.0, 0.0]])
    return Batch(x=torch.tensor([sample]), y=torch.tensor([0]), mask=mask)
