"""The mode a model is in: whether its layers mix samples or draw, and test time in between."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

__all__ = ["as_at_test_time", "depends_on_mode"]

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
def as_at_test_time(model: nn.Module) -> Iterator[None]:
    """Let the model be as at test time, and afterwards as it was.

    BatchNorm statistics are used and not updated, nothing is dropped.
    """
    training = [module for module in model.modules() if module.training]
    norms = [module for module in training if isinstance(module, nn.modules.batchnorm._NormBase)]
    buffers = [(norm, dict(norm._buffers)) for norm in norms]
    for module in training:
        module.training = False
    for norm, kept in buffers:
        # The graph keeps the statistics it saw; a later pass in train mode moves them in place.
        norm._buffers.update({n: b.clone() for n, b in kept.items() if b is not None})
    try:
        yield
    finally:
        for module in training:
            module.training = True
        for norm, kept in buffers:
            norm._buffers.update(kept)


def _is_modeless(module: nn.Module) -> bool:
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return bool(module.p == 0)
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return not module.track_running_stats
    return type(module) in _MODELESS
