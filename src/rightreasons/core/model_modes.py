"""The mode a model is in: whether its layers mix samples or draw, and test time in between."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

__all__ = [
    "Statistics",
    "depends_on_mode",
    "statistics_of",
    "test_time_mode",
    "with_statistics",
]

Statistics = list[tuple[nn.Module, dict[str, Tensor | None]]]
"""Copies of what normalisation layers know of the data, by layer."""

_MODELESS = {
    *(nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Linear, nn.Bilinear, nn.Embedding, nn.LayerNorm, nn.GroupNorm),
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.ZeroPad2d, nn.Upsample),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d),
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Sigmoid, nn.Tanh),
}


def depends_on_mode(model: nn.Module) -> bool:
    """Whether a layer in train mode may mix samples or draw: BatchNorm, dropout and the like.

    Layers known not to are let off; a module of the user's own may do anything, so it counts.
    """
    return any(module.training and not _is_modeless(module) for module in model.modules())


@contextmanager
def test_time_mode(model: nn.Module) -> Iterator[None]:
    """Let the model be as at test time, and afterwards as it was.

    BatchNorm statistics are used and not updated, nothing is dropped.
    """
    training = [module for module in model.modules() if module.training]
    statistics = statistics_of(model)
    for module in training:
        module.training = False
    try:
        # The graph keeps the statistics it saw; a later pass in train mode moves them in place.
        with with_statistics(statistics):
            yield
    finally:
        for module in training:
            module.training = True


def statistics_of(model: nn.Module) -> Statistics:
    """Copies of the statistics of all layers that would update them."""
    norms = nn.modules.batchnorm._NormBase
    layers = [one for one in model.modules() if one.training and isinstance(one, norms)]
    return [
        (layer, {n: None if b is None else b.clone() for n, b in layer._buffers.items()})
        for layer in layers
    ]


@contextmanager
def with_statistics(statistics: Statistics) -> Iterator[None]:
    """Let layers have other statistics, and afterwards their own."""
    own = [(layer, dict(layer._buffers)) for layer, _ in statistics]
    for layer, others in statistics:
        layer._buffers.update(others)
    try:
        yield
    finally:
        for layer, kept in own:
            layer._buffers.update(kept)


def _is_modeless(module: nn.Module) -> bool:
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return bool(module.p == 0)
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return not module.track_running_stats
    return type(module) in _MODELESS
