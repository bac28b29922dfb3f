"""The layers of a model that give maps of features: the last one, and one per resolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from rightreasons.core.model_modes import (
    hold_model,
    out_of_place,
    test_time_mode,
)
from rightreasons.core.tracing import structure_of
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers.feature_maps import (
    Layout,
    Reshape,
    choose_layout,
    draw_halves,
    layout_named,
    score_layouts,
)
from rightreasons.models import Normalise
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch

__all__ = ["last_spatial_layer", "maps_of", "resolution_layers"]

# These layers compute no features: their input did, at the resolution it had.
_WITHOUT_FEATURES = (
    *(nn.MaxPool2d, nn.AvgPool2d, nn.LPPool2d, nn.FractionalMaxPool2d),
    *(nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d, nn.Identity, nn.ZeroPad2d, nn.ReflectionPad2d),
    *(nn.ReplicationPad2d, nn.ConstantPad2d, nn.Dropout, nn.Dropout2d, nn.AlphaDropout),
    *(nn.Upsample, nn.Unflatten, Normalise),
)


def last_spatial_layer(model: nn.Module, x: Tensor) -> str:
    """The last executed layer that gives maps of features: the default of Grad-CAM.

    Maps have more than one place, which lies where the image has it, and the logits depend on
    places: see `resolution_layers`. Pooling, padding, dropout and `Normalise` compute no features
    and do not count: if a net ends with pooling, the layer before is taken.

    Args:
        model: A model that gives logits.
        x: Inputs of the model. Their shape and range count: drawn images are passed through.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        >>> last_spatial_layer(model, torch.zeros(1, 1, 8, 8))
        '1'
    """
    return resolution_layers(model, x)[-1]


def resolution_layers(model: nn.Module, x: Tensor) -> list[str]:
    """The last layer, or block of layers, of each resolution, in order of execution.

    Layers may give ``(N, C, H, W)``, ``(N, H, W, C)`` or tokens ``(N, T, C)``. In a transformer
    with a class token the logits do not depend on the other tokens behind its last attention. The
    layer that this attention reads is taken there, such as the first norm of the last block.

    Some blocks of a ResNet-50 or an EfficientNet end at a smaller resolution than they begin with,
    and have layers at the larger one. Their output is not the block's, and in a ResNet a shortcut
    goes past them. For the larger resolution the block before is taken instead.

    A stem, the single layers before the first block, computes edges and colours at a resolution of
    its own. It does not count in a net of blocks: a ResNet for ImageNet has four, as in ReFF.

    Args:
        model: A model that gives logits.
        x: Inputs of the model. Their shape and range count: drawn images are passed through.

    Raises:
        InvalidSettingError: No layer gives maps, or the last ones cannot be read.

    Example:
        >>> from rightreasons.models import resnet18
        >>> resolution_layers(resnet18(size=32, width=0.0625), torch.zeros(1, 3, 32, 32))
        ['layer1', 'layer2', 'layer3', 'layer4']
    """
    survey = _survey(model, x)
    if survey.unread is not None:
        name, shape = survey.unread
        raise InvalidSettingError(
            f"Expected layers whose places can be found in the image, but the last one, {name!r}, "
            f"gives {shape}. Name a layer with `layers=[...]`, and with `reshape` a function that "
            "makes maps (N, C, H, W) of its output."
        )
    if not survey.layers:
        raise InvalidSettingError(
            "Expected a model with convolutional features or tokens, but none of its layers gives "
            "maps of more than one pixel. Name a layer with `layers=[...]`, or guide input "
            "gradients with R3, which needs no maps."
        )
    return list(survey.layers)


def maps_of(
    model: nn.Module,
    x: Tensor,
    outputs: Mapping[str, Tensor],
    reshape: Reshape | None,
) -> dict[str, Callable[[Tensor], Tensor]]:
    """Functions that make maps ``(N, C, H, W)`` of the outputs of layers, by name.

    Args:
        model: A model that gives logits.
        x: Images ``(N, C, H, W)``.
        outputs: Outputs of some layers for these images.
        reshape: How they become maps; None finds it out.
    """
    if reshape is not None:
        return {n: layout_named(reshape, one, x) for n, one in outputs.items()}
    layouts = _survey(model, x).layouts
    for name, output in outputs.items():
        if name not in layouts:
            raise InvalidSettingError(
                f"Expected the layer {name!r} to give maps (N, C, H, W) or tokens whose places can "
                f"be found in the image, but got {tuple(output.shape)}. Name another layer, or say "
                "with `reshape` how its output becomes maps."
            )
    return {name: layouts[name] for name in outputs}


@dataclass(frozen=True)
class _Survey:
    """What passes of drawn images tell about a model's layers.

    Args:
        layouts: The layouts of all layers whose output can be read as maps.
        layers: The last of each resolution.
        unread: Name and shape of the last output with several axes, if it cannot be read.
    """

    layouts: Mapping[str, Layout]
    layers: tuple[str, ...]
    unread: tuple[str, tuple[int, ...]] | None


_surveys: WeakKeyDictionary[nn.Module, tuple[tuple[Any, ...], _Survey]] = WeakKeyDictionary()


def _survey(model: nn.Module, x: Tensor) -> _Survey:
    """Survey a model once; again if a module is exchanged or the images have another size."""
    if x.ndim != 4 or not len(x):
        raise InvalidBatchError(
            f"Expected images (N, C, H, W) to find layers with maps, but got shape "
            f"{tuple(x.shape)}. Guide or explain other data by input gradients."
        )
    signature = (structure_of(model), *map(id, model.modules()), *x.shape[1:])
    if model not in _surveys or _surveys[model][0] != signature:
        with hold_model(model), _without_zero_weights(model):
            _surveys[model] = (signature, _make_survey(model, x))
    return _surveys[model][1]


def _make_survey(model: nn.Module, x: Tensor) -> _Survey:
    modules = {name: module for name, module in model.named_modules() if name}
    draws = list(draw_halves(x))
    layouts, unread = _read_layouts(model, modules, draws)
    names = list(layouts)
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    tuples: set[str] = set()
    depends: dict[str, set[bool | None]] = {}

    def see(name: str, given: tuple[Any, ...], output: object) -> None:
        inputs.update(zip([name], given, strict=False))
        tuples.update([name] if isinstance(output, tuple) else [])

    for copies in draws:
        inputs, outputs = {}, {}  # one pass is held at a time
        batch = Batch(x=copies[:2], y=torch.zeros(2, dtype=torch.int64, device=x.device))
        with _watch({name: modules[name] for name in names}, see):
            probe = Probe.at_test_time(
                model, batch, needs_gradient=True, create_graph=False, layers=names
            )
        outputs = {name: probe.activations[name] for name in names}
        for name, found in _dependences(probe.logits, outputs, layouts).items():
            depends.setdefault(name, set()).add(found)
        del probe
    # With a draw that tells nothing, units behind a layer may be dead; another draw may tell.
    alive = {name for name, found in depends.items() if True in found or False not in found}
    computed = _computed(modules, outputs)
    ends = {
        name: layouts[name].num_places
        for name in computed
        # No shortcut goes past a chain's layers, nor past a stage that gives a tuple.
        if not isinstance(modules[name], nn.Sequential) and name not in tuples
    }
    computed = [name for name in computed if name in alive and layouts[name].num_places > 1]
    layers: dict[tuple[int, ...], str] = {}
    for name in computed:  # a block ends after its layers
        size = layouts[name].size
        earlier = layers.get(size, name)
        if _num_smaller_blocks(name, size, ends) <= _num_smaller_blocks(earlier, size, ends):
            layers.pop(size, None)
            layers[size] = name
    read = {id(outputs[name]): name for name in reversed(computed)}
    counted = _without_stem(list(layers.values()), modules)
    chosen = [_read_by_projection(name, modules, inputs, read) for name in counted]
    return _Survey(layouts, tuple(dict.fromkeys(chosen)), unread)


def _read_layouts(
    model: nn.Module, modules: Mapping[str, nn.Module], draws: Sequence[Tensor]
) -> tuple[dict[str, Layout], tuple[str, tuple[int, ...]] | None]:
    """The layouts of layers in the order of execution, and the last output if it cannot be read."""
    image = tuple(draws[0].shape[2:])
    shapes: dict[str, tuple[int, ...]] = {}
    scores: dict[str, dict[int, dict[Layout, float | None]]] = {}
    changing: set[str] = set()  # what does not depend on the image, or is a single row, is no map

    def read(number: int, name: str, given: tuple[Any, ...], output: Any) -> None:
        del given
        output = output[0] if type(output) is tuple and output else output
        shape = tuple(output.shape) if isinstance(output, Tensor) else ()
        if len(shape) not in (3, 4) or min(shape[1], shape[-1]) == 1 and len(shape) == 3:
            return
        is_ours = shape[0] == len(draws[0]) and output.is_floating_point()
        shapes.pop(name, None)
        shapes[name] = shape
        scores.setdefault(name, {})[number] = score_layouts(output, image) if is_ours else {}
        changing.update([] if bool((output == output[:1]).all()) else [name])

    for number, copies in enumerate(draws):
        with ExitStack() as contexts:
            for context in (test_time_mode(model), out_of_place(model), torch.no_grad()):
                contexts.enter_context(context)
            contexts.enter_context(_watch(modules, partial(read, number)))
            model(copies)
    known: dict[tuple[int, ...], list[Layout]] = {}
    found: dict[str, Layout | None] = {}
    for name, shape in shapes.items():
        earlier = known.setdefault(shape, [])
        layout = choose_layout(modules[name], list(scores[name].values()), earlier)
        if layout is not None:
            earlier.append(layout)
        if layout is not None or name in changing:
            found[name] = layout
    last = next(reversed(found), None)
    unread = (last, shapes[last]) if last is not None and found[last] is None else None
    return {name: layout for name, layout in found.items() if layout is not None}, unread


def _dependences(
    logits: Tensor, outputs: Mapping[str, Tensor], layouts: Mapping[str, Layout]
) -> dict[str, bool | None]:
    """Whether the logits depend on the places of layers; None where that cannot be told.

    A gradient that is zero at all places but not at a class token tells that places do not count. A
    gradient of zeros alone tells nothing: a unit behind the layer may be dead for these images.
    """
    if not outputs:
        return {}
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(logits.shape, generator=generator).to(logits)  # a plain sum may cancel
    weights = weights * torch.finfo(logits.dtype).max ** 0.5  # and small gradients vanish early on
    with torch.enable_grad():
        gradients = torch.autograd.grad(
            (weights * logits).sum(), list(outputs.values()), allow_unused=True
        )
    return {
        name: bool(layouts[name](gradient).any()) or (False if bool(gradient.any()) else None)
        for name, gradient in zip(outputs, gradients, strict=True)
        if gradient is not None
    }


def _computed(modules: Mapping[str, nn.Module], outputs: Mapping[str, Tensor]) -> list[str]:
    """The layers that give what a layer with features computed, in the order of execution."""
    made: set[int] = set()
    copied: set[int] = set()  # by a layer without features, and what blocks hand on of it
    for name, output in outputs.items():
        if not isinstance(modules[name], _WITHOUT_FEATURES):
            made.add(id(output))
        elif id(output) not in made:
            copied.add(id(output))
    return [
        name
        for name, output in outputs.items()
        if id(output) not in copied and not isinstance(modules[name], _WITHOUT_FEATURES)
    ]


def _without_stem(names: list[str], modules: Mapping[str, nn.Module]) -> list[str]:
    """Leave out single layers before the first block; a net without blocks has no stem."""
    blocks = [place for place, name in enumerate(names) if any(modules[name].children())]
    return names[blocks[0] :] if blocks else names


def _read_by_projection(
    name: str,
    modules: Mapping[str, nn.Module],
    inputs: Mapping[str, Tensor],
    read: Mapping[int, str],
) -> str:
    """The layer that a linear layer reads: keys and values of an attention are parts of one."""
    if not isinstance(modules[name], nn.Linear) or name not in inputs:
        return name
    return read.get(id(inputs[name]), name)


@contextmanager
def _watch(
    modules: Mapping[str, nn.Module], see: Callable[[str, tuple[Any, ...], Any], None]
) -> Iterator[None]:
    """Call ``see`` with the name, the arguments and the output of each layer that runs."""

    def hook_of(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        return lambda module, given, output: see(name, given, output)

    hooks = [module.register_forward_hook(hook_of(name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _without_zero_weights(model: nn.Module) -> Iterator[None]:
    """Replace weights that are all zero: behind a head of zeros nothing seems to count."""
    replaced = []
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None and weight.ndim > 1 and not bool(weight.any()):
                drawn = torch.rand(weight.shape, generator=generator).to(weight)
                replaced.append((module, name, weight))
                module._parameters[name] = nn.Parameter(drawn - 0.5, weight.requires_grad)
    try:
        yield
    finally:
        for module, name, weight in replaced:
            module._parameters[name] = weight


def _num_smaller_blocks(name: str, size: tuple[int, ...], ends: Mapping[str, int]) -> int:
    """The number of blocks around a layer that end with fewer pixels than it has."""
    parts = name.split(".")
    around = (".".join(parts[:number]) for number in range(1, len(parts)))
    return sum(ends.get(block, math.inf) < math.prod(size) for block in around)
