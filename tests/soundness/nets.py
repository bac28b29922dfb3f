"""Random nets of all layers that can be bounded, with random settings and weight scales."""

import copy
import math
import random
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.bounds import layer_kinds, network_of
from rightreasons.bounds.curve import curve
from rightreasons.bounds.linear import linear_map
from rightreasons.bounds.rule import forward_bounds, ruled_kind

LIBRARIES = ("rightreasons", "torch")  # not the rules that tests and users register

MOST_NUMBERS = 128  # elements of an activation, so that a net takes milliseconds
SHAPES = {  # of a sample, by the number of its axes
    1: [(3,), (6,), (9,)],
    2: [(2, 5), (4, 6), (1, 9)],
    3: [(1, 5, 5), (2, 4, 6), (4, 4, 4)],
    4: [(1, 3, 4, 3), (2, 3, 3, 3)],
}
# Layers without a module of their own: what a forward pass writes with operators and functions.
WRITTEN_KINDS = ("Add", "Average", "Concatenate", "Elementwise", "Pad", "Permute", "Reshape")
WRITTEN_KINDS = (*WRITTEN_KINDS, "Select")
# What leaves no layer of its own in the bounds, and is looked for in the modules.
UNSEEN_KINDS = ("Dropout", "Identity", "InPlaceReLU")


def all_kinds() -> list[str]:
    """The layer kinds that a campaign must reach; a new rule of the library comes in by itself."""
    kinds = {*forward_bounds.registry, *linear_map.registry, *curve.registry}
    shipped = {kind.__name__ for kind in kinds if kind.__module__.split(".")[0] in LIBRARIES}
    return sorted({*(shipped & set(layer_kinds())), *WRITTEN_KINDS, *UNSEEN_KINDS})


def kinds_in(net: nn.Module, x: Tensor) -> set[str]:
    """The layer kinds that the bounds of a net really use, and those that leave no layer."""
    types = (type(node.layer) for node in network_of(net, x).nodes)
    modules = [type(module).__name__ for module in net.modules()]
    return {(ruled_kind(kind) or kind).__name__ for kind in types} | {*modules} & {*UNSEEN_KINDS}


class InPlaceReLU(nn.ReLU):
    """A ReLU that overwrites its input, which must not be the input of the net."""

    def __init__(self):
        super().__init__(inplace=True)


class Residual(nn.Module):
    """A weighted sum of two activations."""

    def __init__(self, body: nn.Module, alpha: float):
        super().__init__()
        self.body, self.alpha = body, alpha

    def forward(self, x):
        return torch.sub(x, self.body(x), alpha=self.alpha)


class Gated(nn.Module):
    """The product of two activations."""

    def __init__(self, gate: nn.Module, body: nn.Module):
        super().__init__()
        self.gate, self.body = gate, body

    def forward(self, x):
        return torch.sigmoid(self.gate(x)) * self.body(x)


class Squared(nn.Module):
    """An activation times itself, which intervals do not know to be one number."""

    def forward(self, x):
        return x * x


class Joined(nn.Module):
    """Two activations, one behind the other."""

    def __init__(self, body: nn.Module, axis: int):
        super().__init__()
        self.body, self.axis = body, axis

    def forward(self, x):
        return torch.cat([x, self.body(x)], dim=self.axis)


class Scaled(nn.Module):
    """Factors and shifts, some of them parameters and some plain numbers."""

    def __init__(self, channels: int, num_axes: int, divisor: float):
        super().__init__()
        shape = (channels, *[1] * (num_axes - 1))
        self.factor = nn.Parameter(torch.randn(shape))
        self.register_buffer("shift", torch.randn(1, *shape))
        self.divisor = divisor

    def forward(self, x):
        return 0.3 - (x - self.shift) * self.factor / self.divisor


class Call(nn.Module):
    """A function of the activation, such as one of `torch.nn.functional`."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def with_copies(net: nn.Module) -> nn.Module:
    """The same function; each layer gets its input as a new, contiguous tensor."""
    net = copy.deepcopy(net)
    for module in list(net.modules()):
        for name, child in module.named_children():
            if not list(child.children()):
                setattr(module, name, nn.Sequential(Call(lambda x: x.contiguous()), child))
    return net


class Draw:
    """Draws nets from one source of random numbers.

    Args:
        seed: Random seed; the same seed gives the same net.
    """

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.one_of = self.random.choice

    def net(self, kind: str) -> tuple[nn.Module, tuple[int, ...], int]:
        """A net with a layer of this kind, the shape of its samples and its number of classes."""
        while True:
            num_axes = self.one_of(AXES.get(kind, (1, 1, 2, 3, 3, 4)))
            shape = self.one_of(SHAPES[num_axes])
            layers = self._layers(shape, kind)
            if layers is None:
                continue
            num_classes = self.one_of((2, 3, 4))
            width = _output_shape(nn.Sequential(*layers), shape)
            head = nn.Linear(math.prod(width), num_classes, bias=self._is(0.8))
            ends = [] if len(width) == 1 else [self.one_of((nn.Flatten, _flatten))()]
            net = nn.Sequential(*layers, *ends, head)
            self._fill(net)
            if kind in kinds_in(net, torch.zeros(1, *shape)):
                return net.train(self._is(0.3)), shape, num_classes

    def _layers(self, shape: tuple[int, ...], kind: str) -> list[nn.Module] | None:
        length = self.one_of((1, 2, 3, 4))
        place = self.random.randrange(length)
        layers: list[nn.Module] = []
        for position in range(length):
            wanted = kind if position == place else self.one_of(all_kinds())
            found = self._fitting_layer(wanted, shape, retries=6)
            if found is None and position == place:
                return None
            if found is not None:
                layers.append(found)
                shape = _output_shape(found, shape)
                if wanted in MIXING:  # a curve behind what mixes features, as in most nets
                    layers.append(self._activation())
        return layers

    def _fitting_layer(self, kind: str, shape: tuple[int, ...], retries: int) -> nn.Module | None:
        if len(shape) not in AXES.get(kind, (1, 2, 3, 4)):
            return None
        for _ in range(retries):
            try:
                layer = getattr(self, f"_{kind}")(shape)
                size = _output_shape(layer, shape)
            except (RuntimeError, ValueError, IndexError, AssertionError):
                continue  # settings that PyTorch itself refuses for this shape
            if 0 < math.prod(size) <= MOST_NUMBERS:
                return layer
        return None

    def _activation(self) -> nn.Module:
        """A curve behind a layer whose output nobody else reads, so that some may overwrite it."""
        layer = getattr(self, f"_{self.one_of(CURVES)}")(())
        slope = getattr(layer, "negative_slope", getattr(layer, "alpha", 1.0))
        if getattr(layer, "inplace", None) is False and slope >= 0:  # PyTorch refuses others
            layer.inplace = self._is(0.3)
        return layer

    def _is(self, probability: float) -> bool:
        return self.random.random() < probability

    def _fill(self, net: nn.Module) -> None:
        """Draw weights from tiny to huge, and statistics as training might leave them."""
        usual = self._is(0.6)
        for module in net.modules():
            gain = 1.0 if usual or self._is(0.5) else 10 ** self.random.uniform(-5, 4)
            if self._is(0.01):
                gain = self.one_of((0.0, 1e-20, 1e12))
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(std=self.one_of((0.0, 1.0, 10.0)))
                module.running_var.uniform_().mul_(self.one_of((1e-6, 1.0, 100.0)))
            with torch.no_grad():
                for parameter in module.parameters(recurse=False):
                    parameter.add_(0.2 * torch.randn_like(parameter)).mul_(gain)

    # One method a kind, named as the kind. Each takes the shape of a sample.

    def _Linear(self, shape):  # noqa: N802
        return nn.Linear(shape[-1], self.one_of((1, 3, 5, 8)), bias=self._is(0.8))

    def _convolution(self, kind, shape, **settings):
        inputs = shape[0]
        groups = self.one_of([g for g in (1, 2, 4) if inputs % g == 0])
        outputs = groups * self.one_of((1, 2))
        return kind(
            inputs,
            outputs,
            tuple(self.one_of((1, 2, 3)) for _ in shape[1:]),
            dilation=self.one_of((1, 1, 2)),
            groups=groups,
            bias=self._is(0.8),
            **settings,
        )

    def _forward_convolution(self, kind, shape):
        padding = self.one_of(("same", "valid", 0, 1, 2))
        stride = 1 if padding == "same" else self.one_of((1, 1, 2, 3))
        return self._convolution(kind, shape, padding=padding, stride=stride)

    def _transposed_convolution(self, kind, shape):
        stride = self.one_of((1, 2, 3))
        extra = self.random.randrange(stride)
        return self._convolution(
            kind, shape, padding=self.one_of((0, 1)), stride=stride, output_padding=extra
        )

    def _Conv1d(self, shape):  # noqa: N802
        return self._forward_convolution(nn.Conv1d, shape)

    def _Conv2d(self, shape):  # noqa: N802
        return self._forward_convolution(nn.Conv2d, shape)

    def _Conv3d(self, shape):  # noqa: N802
        return self._forward_convolution(nn.Conv3d, shape)

    def _ConvTranspose1d(self, shape):  # noqa: N802
        return self._transposed_convolution(nn.ConvTranspose1d, shape)

    def _ConvTranspose2d(self, shape):  # noqa: N802
        return self._transposed_convolution(nn.ConvTranspose2d, shape)

    def _ConvTranspose3d(self, shape):  # noqa: N802
        return self._transposed_convolution(nn.ConvTranspose3d, shape)

    def _window(self):
        kernel = self.one_of((1, 2, 2, 3))
        return {
            "kernel_size": kernel,
            "stride": self.one_of((None, 1, 2, 3)),
            "padding": self.random.randint(0, kernel // 2),
            "ceil_mode": self._is(0.5),
        }

    def _max_pooling(self, kind, function):
        settings = {**self._window(), "dilation": self.one_of((1, 1, 2))}
        return kind(**settings) if self._is(0.7) else Call(lambda x: function(x, **settings))

    def _average_pooling(self, kind, function, **more):
        settings = {**self._window(), "count_include_pad": self._is(0.5), **more}
        return kind(**settings) if self._is(0.7) else Call(lambda x: function(x, **settings))

    def _adaptive_pooling(self, kind, function, num_axes):
        sizes = tuple(self.one_of((1, 2, 3, 7, None)) for _ in range(num_axes))
        size = sizes if num_axes > 1 else self.one_of((1, 2, 3, 7))
        return kind(size) if self._is(0.7) else Call(lambda x: function(x, size))

    def _MaxPool1d(self, shape):  # noqa: N802
        return self._max_pooling(nn.MaxPool1d, functional.max_pool1d)

    def _MaxPool2d(self, shape):  # noqa: N802
        return self._max_pooling(nn.MaxPool2d, functional.max_pool2d)

    def _AvgPool1d(self, shape):  # noqa: N802
        return self._average_pooling(nn.AvgPool1d, functional.avg_pool1d)

    def _AvgPool2d(self, shape):  # noqa: N802
        divisor = self.one_of((None, 1, 5, -2))
        return self._average_pooling(nn.AvgPool2d, functional.avg_pool2d, divisor_override=divisor)

    def _AdaptiveAvgPool1d(self, shape):  # noqa: N802
        return self._adaptive_pooling(nn.AdaptiveAvgPool1d, functional.adaptive_avg_pool1d, 1)

    def _AdaptiveAvgPool2d(self, shape):  # noqa: N802
        return self._adaptive_pooling(nn.AdaptiveAvgPool2d, functional.adaptive_avg_pool2d, 2)

    def _batch_normalisation(self, kind, shape):
        epsilon, momentum = self.one_of((1e-5, 1e-3, 1.0)), self.one_of((0.1, 0.9, None))
        return kind(shape[0], eps=epsilon, momentum=momentum, affine=self._is(0.7))

    def _BatchNorm1d(self, shape):  # noqa: N802
        return self._batch_normalisation(nn.BatchNorm1d, shape)

    def _BatchNorm2d(self, shape):  # noqa: N802
        return self._batch_normalisation(nn.BatchNorm2d, shape)

    def _BatchNorm3d(self, shape):  # noqa: N802
        return self._batch_normalisation(nn.BatchNorm3d, shape)

    def _LayerNorm(self, shape):  # noqa: N802
        axes = shape[self.random.randrange(len(shape)) :]
        epsilon, affine = self.one_of((1e-5, 1e-2, 1.0, 1e-12)), self._is(0.7)
        return nn.LayerNorm(axes, epsilon, affine, bias=self._is(0.7))

    def _GroupNorm(self, shape):  # noqa: N802
        groups = self.one_of([g for g in (1, 2, 3, 4) if shape[0] % g == 0])
        epsilon = self.one_of((1e-5, 1e-2, 1.0, 1e-12))
        return nn.GroupNorm(groups, shape[0], epsilon, self._is(0.7))

    def _ReLU(self, shape):  # noqa: N802
        return self.one_of((nn.ReLU(), Call(torch.relu), Call(functional.relu)))

    def _InPlaceReLU(self, shape):  # noqa: N802
        return nn.Sequential(self._Linear(shape), InPlaceReLU())

    def _Identity(self, shape):  # noqa: N802
        return nn.Identity()

    def _Dropout(self, shape):  # noqa: N802
        share = self.one_of((0.1, 0.5, 1.0))
        layers = nn.Dropout(share), nn.Sequential(nn.Dropout(share), nn.AlphaDropout(share))
        return self.one_of(layers)

    def _ReLU6(self, shape):  # noqa: N802
        return self.one_of((nn.ReLU6(), Call(functional.relu6)))

    def _LeakyReLU(self, shape):  # noqa: N802
        slope = self.one_of((0.01, 0.2, 0.0, 1.0, 1.5, -0.3))
        return self.one_of((nn.LeakyReLU(slope), Call(lambda x: functional.leaky_relu(x, slope))))

    def _Hardtanh(self, shape):  # noqa: N802
        low, high = self.one_of(((-1.0, 1.0), (-0.5, 0.8), (0.1, 0.1001), (-3.0, -1.0)))
        layers = nn.Hardtanh(low, high), Call(lambda x: functional.hardtanh(x, low, high))
        return self.one_of(layers)

    def _ELU(self, shape):  # noqa: N802
        alpha = self.one_of((1.0, 0.5, 1.7, 0.0, -0.5))
        return self.one_of((nn.ELU(alpha), Call(lambda x: functional.elu(x, alpha))))

    def _GELU(self, shape):  # noqa: N802
        way = self.one_of(("none", "tanh"))
        return self.one_of((nn.GELU(way), Call(lambda x: functional.gelu(x, approximate=way))))

    def _SiLU(self, shape):  # noqa: N802
        return self.one_of((nn.SiLU(), Call(functional.silu)))

    def _Sigmoid(self, shape):  # noqa: N802
        return self.one_of((nn.Sigmoid(), Call(torch.sigmoid)))

    def _Tanh(self, shape):  # noqa: N802
        return self.one_of((nn.Tanh(), Call(torch.tanh), Call(lambda x: x.tanh())))

    def _Softplus(self, shape):  # noqa: N802
        beta = self.one_of((1.0, 0.3, 3.0, 10.0, 0.77))
        limit = self.one_of((20.0, 5.0, 1.0, 0.6, 0.0, -1.0))
        layers = nn.Softplus(beta, limit), Call(lambda x: functional.softplus(x, beta, limit))
        return self.one_of(layers)

    def _Multiply(self, shape):  # noqa: N802
        if self._is(0.3):
            return Squared()
        gate, body = nn.Linear(shape[-1], shape[-1]), nn.Linear(shape[-1], shape[-1])
        return Gated(gate, nn.Sequential(body, self._activation()))

    def _Add(self, shape):  # noqa: N802
        body = nn.Sequential(nn.Linear(shape[-1], shape[-1]), self._activation())
        return Residual(body, self.one_of((1, -1, 0.5, -2.0)))

    def _Concatenate(self, shape):  # noqa: N802
        body = nn.Sequential(nn.Linear(shape[-1], shape[-1]), self._activation())
        return Joined(body, self.one_of([*range(1, len(shape) + 1), -1]))

    def _Elementwise(self, shape):  # noqa: N802
        scaled = Scaled(shape[0], len(shape), self.one_of((0.7, -3.0, 100.0)))
        return self.one_of((scaled, Call(torch.neg), Call(lambda x: 2 * x - 1)))

    def _Average(self, shape):  # noqa: N802
        axis, keeps = self.random.randint(min(2, len(shape)), len(shape)), len(shape) == 1
        if self._is(0.5):
            return Call(lambda x: x.mean(dim=axis, keepdim=keeps))
        return Call(lambda x: torch.sum(x, (axis,), keepdim=keeps))

    def _Pad(self, shape):  # noqa: N802
        amounts = [self.one_of((0, 1, 2, -1)) for _ in range(2 * self.one_of((1, len(shape))))]
        return Call(lambda x: functional.pad(x, amounts))

    def _zero_padding(self, kind, shape):
        return kind(tuple(self.one_of((0, 1, 2, -1)) for _ in range(2 * len(shape) - 2)))

    def _ZeroPad1d(self, shape):  # noqa: N802
        return self._zero_padding(nn.ZeroPad1d, shape)

    def _ZeroPad2d(self, shape):  # noqa: N802
        return self._zero_padding(nn.ZeroPad2d, shape)

    def _ZeroPad3d(self, shape):  # noqa: N802
        return self._zero_padding(nn.ZeroPad3d, shape)

    def _Permute(self, shape):  # noqa: N802
        axes = list(range(1, len(shape) + 1))
        self.random.shuffle(axes)
        first, second = axes[0], axes[-1]
        return self.one_of(
            (Call(lambda x: x.permute(0, *axes)), Call(lambda x: x.transpose(first, second)))
        )

    def _Reshape(self, shape):  # noqa: N802
        layers = (
            nn.Flatten(),
            Call(lambda x: x.flatten(2)),
            Call(lambda x: x.reshape(x.size(0), -1)),
            Call(lambda x: x.unsqueeze(1)),
            Call(lambda x: x.reshape(x.shape[0], shape[-1], -1)),
        )
        return self.one_of(layers)

    def _Select(self, shape):  # noqa: N802
        layers = (
            Call(lambda x: x[..., 1:]),
            Call(lambda x: x[:, ::2]),
            Call(lambda x: x[:, :, 0]),
            Call(lambda x: x[:, -2:]),
        )
        return self.one_of(layers)


LINES = ("Conv1d", "ConvTranspose1d", "MaxPool1d", "AvgPool1d", "AdaptiveAvgPool1d", "ZeroPad1d")
PLANES = ("Conv2d", "ConvTranspose2d", "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "ZeroPad2d")
VOLUMES = ("Conv3d", "ConvTranspose3d", "ZeroPad3d")
AXES: dict[str, tuple[int, ...]] = {  # the axes of samples that a kind takes; all where not listed
    **dict.fromkeys(LINES, (2,)),
    **dict.fromkeys((*PLANES, "BatchNorm2d"), (3,)),
    **dict.fromkeys((*VOLUMES, "BatchNorm3d"), (4,)),
    "BatchNorm1d": (1, 2),
    "Permute": (2, 3, 4),
}
CURVES = ("ReLU", "ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softplus")
CURVES = (*CURVES, "Hardtanh", "ReLU6")
MIXING = {"Linear", *(kind for kind in AXES if kind.startswith("Conv"))}


def _flatten() -> nn.Module:
    return Call(lambda x: torch.flatten(x, 1))


def _output_shape(layer: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch makes a padded copy for padding="same"
        layer.eval()
        two = layer(torch.zeros(2, *shape))
    if len(two) != 2 or not 2 <= two.ndim <= 5:
        raise ValueError("a layer that does not keep the batch")
    if not bool(torch.isfinite(two).all()):
        raise ValueError("a pooling with a window of padding only, which the library refuses")
    return tuple(two.shape[1:])
