"""The contract of bounds for all layers: one table of nets, the same checks for each.

Every family makes random nets in float32; together they are more than three hundred. Comparisons
are strict: bounds are rounded outward, so that no computed output or gradient may lie outside, not
even by the last digit.
"""

import copy
import itertools
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.bounds import (
    Box,
    gradient_box,
    input_gradient_bounds,
    margin_bounds,
    output_bounds,
)
from rightreasons.types import Target

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:Using padding='same'"),  # PyTorch makes a padded copy
]

CLASSES = 3
SAMPLES = 3
PLANE = (2, 5, 5)


class Residual(nn.Module):
    """Every way to combine activations that a forward pass may write down."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.randn(6))
        self.register_buffer("shift", torch.randn(1, 6))
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = (x - self.shift) / 0.7
        branch = torch.relu(self.first(x)) * self.scale + 0.1
        branch += x
        other = functional.silu(self.second(branch))
        gate = torch.sigmoid(x) * other
        return self.head(torch.cat([branch - 0.5 * other, -gate], dim=1))


class Rearranged(nn.Module):
    """Reshapes, permutations, slices, padding, means and sums of an image."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3, bias=False)
        self.mixed = nn.Linear(3, 4)
        self.head = nn.Linear(4 + 2, CLASSES)

    def forward(self, x):
        padded = functional.pad(x, (1, 0, 0, 1))
        features = functional.leaky_relu(self.convolution(padded), 0.2)
        tokens = features.flatten(2).transpose(1, 2)
        tokens = functional.gelu(self.mixed(tokens))
        pooled = tokens.mean(dim=1)
        corner = x[:, :, ::2, 1].reshape(x.size(0), 2, -1).sum(dim=2, keepdim=True)
        return self.head(torch.cat([pooled, corner.squeeze(2)], dim=-1))


class Functional(nn.Module):
    """The functions of `torch.nn.functional` in place of modules."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 2)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = functional.relu(self.convolution(x), inplace=True)
        x = functional.max_pool2d(x, 2, stride=1) + functional.avg_pool2d(x, 2, stride=1)
        x = functional.dropout(functional.softplus(x, 2.0), 0.5, training=self.training)
        x = functional.adaptive_avg_pool2d(functional.elu(x, 0.7), 2)
        return self.head(torch.flatten(x, 1))


class Asking(nn.Module):
    """Asks for shapes as models of transformers do, and normalises by a function."""

    def __init__(self):
        super().__init__()
        self.convolution, self.head = nn.Conv2d(2, 3, 2), nn.Linear(3, CLASSES)
        self.weight, self.bias = (nn.Parameter(torch.randn(3)) for _ in range(2))

    def forward(self, x):
        if x.shape[1] != 2 or x.dim() != 4:
            raise ValueError("expected two channels")
        x = self.convolution(x).permute(0, 2, 3, 1)
        x = functional.layer_norm(x, (3,), self.weight, self.bias, 1e-3)
        x = functional.layer_norm(x.view(len(x), -1, 3), (3,), eps=1e-2)
        return self.head(functional.gelu(x).mean(dim=1))


def mlp(activation):
    return rr.models.mlp(inputs=6, hidden=(9, 8), classes=CLASSES, activation=activation)


def plane(*layers):
    """Layers on an image, a ReLU and a linear head."""
    body = nn.Sequential(*layers, nn.ReLU(), nn.Flatten())
    with torch.no_grad():
        width = body(torch.zeros(2, *PLANE)).shape[1]
    return nn.Sequential(body, nn.Linear(width, CLASSES))


def line():
    return nn.Sequential(
        nn.Conv1d(2, 4, 3, stride=2, padding=1),
        nn.BatchNorm1d(4),
        nn.Tanh(),
        nn.MaxPool1d(2, 1),
        nn.AvgPool1d(2),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(4, CLASSES),
    )


def conv(**settings):
    return nn.Conv2d(2, 4, **{"kernel_size": 3, **settings})


def spread():
    return nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, dilation=1)


def token_net():
    return nn.Sequential(
        nn.Unflatten(1, (2, 3)), nn.Linear(3, 5), nn.LayerNorm(5), nn.GELU("tanh"),
        nn.Flatten(), nn.BatchNorm1d(10), nn.Dropout(0.5), nn.Linear(10, CLASSES),
    )  # fmt: skip


ACTIVATIONS = {
    "relu": nn.ReLU,
    "leaky": nn.LeakyReLU,
    "elu": partial(nn.ELU, 1.7),
    "softplus": nn.Softplus,
    "softplus 3": partial(nn.Softplus, 3.0),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "gelu tanh": partial(nn.GELU, "tanh"),
    "hardtanh": partial(nn.Hardtanh, -0.5, 0.8),
    "relu6": nn.ReLU6,
}
POOLS = {
    "max": lambda: nn.MaxPool2d(2),
    "max overlapping": lambda: nn.MaxPool2d(3, 2, 1),
    "max dilated": lambda: nn.MaxPool2d(2, dilation=2, ceil_mode=True),
    "avg": lambda: nn.AvgPool2d(2),
    "avg padded": lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
    "avg divisor": lambda: nn.AvgPool2d(2, 1, divisor_override=3),
    "adaptive": lambda: nn.AdaptiveAvgPool2d((2, 3)),
    "adaptive larger": lambda: nn.AdaptiveAvgPool2d((None, 7)),
    "batch norm": lambda: nn.BatchNorm2d(4),
    "group norm": lambda: nn.GroupNorm(2, 4),
    "layer norm": lambda: nn.LayerNorm((4, 5, 5)),
    "zero pad": lambda: nn.ZeroPad2d((1, 0, -1, 2)),
}
CONVOLUTIONS = {
    "conv": dict(padding=1),
    "strided": dict(stride=(2, 1), padding=(0, 1), bias=False),
    "dilated": dict(dilation=2, padding=2),
    "groups": dict(groups=2, padding="same"),
    "same": dict(kernel_size=(2, 3), padding="same"),
}
# name: (how to make it, shape of a sample, how many)
FAMILIES = {
    **{f"mlp {name}": (partial(mlp, kind), (6,), 10) for name, kind in ACTIVATIONS.items()},
    **{
        f"cnn {name}": (lambda kind=kind: plane(conv(padding=1), kind()), PLANE, 6)
        for name, kind in POOLS.items()
    },
    **{
        f"cnn {name}": (lambda kind=kind: plane(conv(**kind), nn.Tanh()), PLANE, 6)
        for name, kind in CONVOLUTIONS.items()
    },
    "cnn transposed": (lambda: plane(spread()), PLANE, 6),
    "conv1d": (line, (2, 9), 10),
    "residual": (Residual, (6,), 15),
    "rearranged": (Rearranged, PLANE, 10),
    "functional": (Functional, PLANE, 10),
    "asking for shapes": (Asking, PLANE, 10),
    "tokens": (token_net, (6,), 10),
    "resnet18": (
        partial(rr.models.resnet18, classes=CLASSES, channels=2, size=8, width=0.016), (2, 8, 8), 3,
    ),
    "deep mlp": (lambda: rr.models.mlp(inputs=6, hidden=(8,) * 4, classes=CLASSES), (6,), 10),
    "linear": (lambda: nn.Linear(6, CLASSES), (6,), 4),
    "input": (lambda: nn.Flatten(), (CLASSES,), 1),
}  # fmt: skip
NUM_NETS = sum(count for _, _, count in FAMILIES.values())


def make_net(name, number=0):
    """A random net of a family in eval mode, with random statistics and offsets."""
    make, shape, _ = FAMILIES[name]
    torch.manual_seed(1000 * list(FAMILIES).index(name) + number)
    net = make()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.3, 2)
        for parameter in module.parameters(recurse=False):
            parameter.data += 0.2 * torch.randn_like(parameter)
    return net.eval(), shape


def draw_box(shape, number):
    """Samples and a box: thin or wide, over all features or a few, by turns."""
    x = torch.randn(SAMPLES, *shape)
    epsilon = (0.0, 0.01, 0.1, 0.5, 2.0)[number % 5]
    radius = epsilon * torch.rand_like(x)
    if number % 2:
        is_free = torch.zeros_like(x).flatten(1)
        is_free[:, torch.randperm(is_free.shape[1])[:3]] = 1
        radius = radius * is_free.reshape(x.shape)
    return x - radius, x + radius


def points_in(lower, upper, num_random=3):
    """Random points, and all corners where few features are free."""
    for _ in range(num_random):
        yield between(lower, upper, torch.rand_like(lower))
    free = (upper > lower).flatten(1).any(dim=0).nonzero().flatten()
    if len(free) <= 3:
        for signs in itertools.product((0.0, 1.0), repeat=len(free)):
            share = torch.zeros_like(lower).flatten(1)
            share[:, free] = torch.tensor(signs)
            yield between(lower, upper, share.reshape(lower.shape))
    else:
        yield between(lower, upper, torch.randint(2, lower.shape).float())


def between(lower, upper, share):
    return (lower + share * (upper - lower)).clamp(lower, upper)


def attack(net, lower, upper, score, steps=2):
    """A few sign-gradient steps that raise a score of the point."""
    point = between(lower, upper, torch.rand_like(lower))
    for _ in range(steps):
        point.requires_grad_()
        (ascent,) = torch.autograd.grad(score(net(point), point), point)
        point = (point + 0.5 * (upper - lower) * ascent.sign()).detach().clamp(lower, upper)
    return point


def evaluate(net, point, y, target):
    point = point.detach().requires_grad_()
    logits = net(point)
    (gradient,) = torch.autograd.grad(target(logits, y).sum(), point)
    return logits.detach(), gradient


def outside(value, bounds):
    return int(((value < bounds.lower) | (value > bounds.upper)).sum())


def test_the_table_has_three_hundred_nets():
    assert NUM_NETS >= 300


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_lies_outside(name):
    for number in range(FAMILIES[name][2]):
        net, shape = make_net(name, number)
        lower, upper = draw_box(shape, number)
        y = torch.randint(CLASSES, (SAMPLES,))
        target = list(Target)[number % len(Target)]
        method = "crown" if number % 3 == 2 else "ibp"
        with torch.no_grad():
            logits = output_bounds(net, lower, upper, method=method)
            margins = margin_bounds(net, lower, upper, y, method=method)
            gradients = input_gradient_bounds(net, lower, upper, y, target=target, method=method)
        feature = torch.randint(lower[0].numel(), ()).item()

        def raised(output, point, y=y, target=target, feature=feature):
            (gradient,) = torch.autograd.grad(
                target(output, y).sum(), point, create_graph=True, retain_graph=True
            )
            return gradient.flatten(1)[:, feature].sum() + output[:, 0].sum()

        for point in [*points_in(lower, upper), attack(net, lower, upper, raised)]:
            output, gradient = evaluate(net, point, y, target)
            assert not outside(output, logits)
            assert not outside(gradient, gradients)
            assert bool((output.gather(1, y[:, None]) - output >= margins).all())


@pytest.mark.parametrize(
    ("name", "target"),
    [(name, list(Target)[number % 5]) for number, name in enumerate(FAMILIES)]
    + [(name, target) for name in ("mlp relu", "residual") for target in Target],
)
def test_at_width_zero_bounds_are_what_autograd_gives(name, target):
    net, shape = make_net(name)
    net, x = net.double(), torch.randn(SAMPLES, *shape, dtype=torch.float64)
    y = torch.arange(SAMPLES) % CLASSES
    output, gradient = evaluate(net, x, y, target)
    logits_box, gradients_box = gradient_box(net, Box(x, torch.zeros_like(x)), y, target=target)
    for value, box in ((output, logits_box), (gradient, gradients_box)):
        torch.testing.assert_close(box.center, value, rtol=1e-9, atol=1e-11)
        assert float(box.radius.detach().max()) < 1e-9
    if name != "resnet18":  # twenty layers lift even the rounding errors of double precision
        bounds = input_gradient_bounds(net, x, x, y, target=target)
        size = 1 + float(gradient.abs().max())
        assert float((bounds.upper - bounds.lower).detach().max()) < 1e-9 * size


@pytest.mark.parametrize("name", ["mlp relu", "mlp gelu", "cnn max", "cnn conv", "residual"])
def test_at_width_zero_single_precision_stays_within_rounding(name):
    net, shape = make_net(name)
    x, y = torch.randn(SAMPLES, *shape), torch.arange(SAMPLES) % CLASSES
    _, gradient = evaluate(net, x, y, Target.LOSS)
    bounds = input_gradient_bounds(net, x, x, y, target="loss")
    assert float((bounds.upper - bounds.lower).detach().max()) < 1e-3 * float(gradient.abs().max())


@pytest.mark.parametrize("name", FAMILIES)
def test_larger_boxes_have_wider_bounds(name):
    net, shape = make_net(name)
    net, x = net.double(), torch.randn(SAMPLES, *shape, dtype=torch.float64)
    y = torch.arange(SAMPLES) % CLASSES
    within = None
    for epsilon in (0.0, 0.01, 0.1, 0.4):
        ends = x - epsilon, x + epsilon
        bounds = [
            output_bounds(net, *ends, outward=False),
            input_gradient_bounds(net, *ends, y, target="loss", outward=False),
        ]
        for old, new in zip(within or [], bounds, strict=bool(within)):
            slack = 1e-9 * (1 + new.upper.abs() + new.lower.abs())
            assert bool((new.lower <= old.lower + slack).all())
            assert bool((new.upper >= old.upper - slack).all())
        within = bounds


@pytest.mark.parametrize(
    ("name", "outward"),
    [(name, True) for name in FAMILIES] + [(name, False) for name in FAMILIES if name[0] != "r"],
)
def test_crown_is_never_looser(name, outward):
    net, shape = make_net(name, 1)
    x, y = torch.randn(SAMPLES, *shape), torch.arange(SAMPLES) % CLASSES
    for epsilon in (0.05, 0.4) if name != "resnet18" else (0.05,):
        ends = x - epsilon, x + epsilon
        pairs = [
            [output_bounds(net, *ends, method=m, outward=outward) for m in ("ibp", "crown")],
            [
                input_gradient_bounds(net, *ends, y, target="loss", method=m, outward=outward)
                for m in ("ibp", "crown")
            ],
        ]
        for loose, tight in pairs:
            assert bool((tight.lower >= loose.lower).all() and (tight.upper <= loose.upper).all())
            assert bool((tight.lower <= tight.upper).all())
        loose, tight = (
            margin_bounds(net, *ends, y, method=m, outward=outward) for m in ("ibp", "crown")
        )
        assert bool((tight >= loose).all())


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("name", ["mlp relu", "mlp silu", "cnn max", "cnn group norm", "residual"])
def test_weights_get_the_gradient_that_finite_differences_show(name, method):
    net, shape = make_net(name)
    net, x = net.double(), torch.randn(2, *shape, dtype=torch.float64)
    y = torch.tensor([0, 1])

    def total():
        ends = x - 0.05, x + 0.05
        bounds = input_gradient_bounds(net, *ends, y, target="loss", method=method, outward=False)
        margins = margin_bounds(net, *ends, y, method=method, outward=False)
        return (bounds.upper - bounds.lower).square().sum() + margins.sum()

    parameters = [p for p in net.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(total(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        index = int(torch.randint(parameter.numel(), ()))
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter.view(-1)[index] += step
                values.append(total())
                parameter.view(-1)[index] -= step
        slope = (values[0] - values[1]) / 2e-6
        torch.testing.assert_close(gradient.view(-1)[index], slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_of_the_bounds_are_finite_even_at_width_zero(name):
    net, shape = make_net(name)
    if not list(net.parameters()):
        return
    x, y = torch.randn(SAMPLES, *shape), torch.arange(SAMPLES) % CLASSES
    for radius in (torch.zeros_like(x), torch.full_like(x, 0.1)):
        for target in Target:
            logits, gradient = gradient_box(net, Box(x, radius), y, target=target)
            total = sum(part.square().sum() for part in (*logits, *gradient))
            total.backward()
            assert all(bool(torch.isfinite(p.grad).all()) for p in net.parameters())


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("name", FAMILIES)
def test_samples_do_not_depend_on_their_batch(name, method):
    net, shape = make_net(name)
    net, x = net.double(), torch.randn(4, *shape, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0])
    lower, upper = x - 0.1, x + 0.1
    settings = {"target": "loss", "method": method, "outward": False}
    together = input_gradient_bounds(net, lower, upper, y, **settings)
    alone = input_gradient_bounds(net, lower[2:3], upper[2:3], y[2:3], **settings)
    torch.testing.assert_close(together.lower[2:3], alone.lower)
    torch.testing.assert_close(together.upper[2:3], alone.upper)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_model_is_left_as_it_was(name):
    net, shape = make_net(name)
    net.train()
    before = copy.deepcopy(net.state_dict())
    modes = [module.training for module in net.modules()]
    x, y = torch.randn(SAMPLES, *shape), torch.arange(SAMPLES) % CLASSES
    for method in ("ibp", "crown"):
        input_gradient_bounds(net, x - 0.1, x + 0.1, y, method=method)
    assert [module.training for module in net.modules()] == modes
    assert not any(module._forward_hooks for module in net.modules())
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key])
    assert all(parameter.grad is None for parameter in net.parameters())


def trained_mlp() -> tuple[nn.Module, Tensor, Tensor]:
    data = rr.datasets.decoy_digits(seed=0)
    model = rr.models.mlp(inputs=196, hidden=(48,) * 4, classes=10)
    rr.fit(model, rr.recipes.erm(), data.train, epochs=6)
    batch = data.test.take(torch.arange(4))
    return model.eval(), batch.x, batch.y


def test_on_a_trained_net_crown_is_five_times_tighter():
    model, x, y = trained_mlp()
    lower, upper = x - 0.02, x + 0.02
    widths = []
    for method in ("ibp", "crown"):
        with torch.no_grad():
            bounds = input_gradient_bounds(model, lower, upper, y, method=method)
        widths.append(float((bounds.upper - bounds.lower).mean()))
    assert widths[0] > 5 * widths[1]
