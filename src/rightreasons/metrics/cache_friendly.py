"""How many samples at a time, and how they lie in memory, so that a processor is quick."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.double_backward import innermost
from rightreasons.probe import Probe
from rightreasons.types import Batch

__all__ = ["COMFORTABLE_ROWS", "comfortable_parts", "comfortable_rows", "laid_out"]

COMFORTABLE_ROWS = 128
"""Rows of a pass with gradients whose activations still fit the caches of a processor."""
_CACHE_BYTES = 8 * 2**20
_FEWEST, _MOST = 16, 1024


def comfortable_rows(probe: Probe) -> int:
    """Rows of a pass without gradients whose largest activation still fits the caches.

    A narrow net takes more of them than a wide one. One sample is passed to know the layers'
    sizes; elsewhere than on a processor the most is right.

    Example:
        >>> batch = Batch(x=torch.zeros(2, 3, 32, 32), y=torch.zeros(2, dtype=torch.long))
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Flatten(), nn.Linear(8 * 32 * 32, 2))
        >>> comfortable_rows(Probe(net, batch))
        256
    """
    if probe.features.device.type != "cpu":
        return _MOST
    core = innermost(probe.model)
    layers = [name for name, layer in core.named_modules() if name and not any(layer.children())]
    first = Batch.trusted(x=probe.features.detach()[:1], y=probe.batch.y[:1])
    with torch.no_grad():
        passed = Probe.at_test_time(core, first, layers=layers)
    outputs = [passed.logits, *passed.activations.values()]
    largest = max(one.nbytes for one in outputs if isinstance(one, Tensor))
    fitting = max(_CACHE_BYTES // largest, 1)
    return min(max(1 << fitting.bit_length() - 1, _FEWEST), _MOST)


def laid_out(x: Tensor) -> Tensor:
    """The same values, in memory as convolutions on a processor like them: channels last.

    Convolutions follow the layout of their input, so that a stack of images takes about a quarter
    less time, whatever the layout of the weights.
    """
    if x.ndim != 4 or x.device.type != "cpu":
        return x
    return x.contiguous(memory_format=torch.channels_last)


def comfortable_parts(x: Tensor) -> list[Tensor]:
    """Samples in parts that fit the caches, laid out; all at once where there is no processor's.

    Example:
        >>> [len(part) for part in comfortable_parts(torch.zeros(200, 3))]
        [128, 72]
    """
    rows = COMFORTABLE_ROWS if x.device.type == "cpu" else max(1, len(x))
    return [laid_out(part) for part in torch.split(x, rows)]
