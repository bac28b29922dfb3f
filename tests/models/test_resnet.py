from collections import Counter

import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models import resnet18, resnet34, resnet50
from rightreasons.models.resnet import BasicBlock, Bottleneck


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
@pytest.mark.parametrize("stride", [1, 2])
def test_shape(block, stride):
    made = block(inputs=6, width=4, stride=stride, make_activation=nn.ReLU)
    side = -(-7 // stride)
    assert made(torch.zeros(2, 6, 7, 7)).shape == (2, 4 * block.expansion, side, side)


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_without_a_residual_the_block_is_its_shortcut(block):
    made = block(inputs=8, width=8 // block.expansion, stride=1, make_activation=nn.ReLU)
    last = made.bn2 if block is BasicBlock else made.bn3
    nn.init.zeros_(last.weight)
    x = torch.rand(2, 8, 5, 5)
    assert made.downsample is None
    assert torch.equal(made(x), x)


def test_the_shortcut_is_projected_where_shapes_change():
    made = BasicBlock(inputs=3, width=4, stride=2, make_activation=nn.ReLU).eval()
    nn.init.zeros_(made.bn2.weight)
    x = torch.randn(2, 3, 6, 6)
    pixels = torch.einsum("oi,nihw->nohw", made.downsample[0].weight[:, :, 0, 0], x[:, :, ::2, ::2])
    expected = (pixels / (1 + made.downsample[1].eps) ** 0.5).clamp(min=0)
    torch.testing.assert_close(made(x), expected)


def test_bottleneck_strides_in_its_middle():
    made = Bottleneck(inputs=8, width=2, stride=2, make_activation=nn.ReLU)
    assert [made.conv1.stride, made.conv2.stride, made.conv3.stride] == [(1, 1), (2, 2), (1, 1)]


NETS = [
    (resnet18, (2, 2, 2, 2), False, 11_689_512),
    (resnet34, (3, 4, 6, 3), False, 21_797_672),
    (resnet50, (3, 4, 6, 3), True, 25_557_032),
]


def batch_norm(name, width):
    vectors = {
        f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")
    }
    return {**vectors, f"{name}.num_batches_tracked": ()}


def torchvision_shapes(blocks, has_bottlenecks):
    """Every name and shape in torchvision's file, written from the papers' table of layers."""
    shapes = {"conv1.weight": (64, 3, 7, 7), **batch_norm("bn1", 64)}
    inputs = 64
    for stage, num_blocks in enumerate(blocks):
        width = 64 * 2**stage
        outputs = width * 4 if has_bottlenecks else width
        for position in range(num_blocks):
            block = f"layer{stage + 1}.{position}"
            if has_bottlenecks:
                kernels = [(width, inputs, 1), (width, width, 3), (outputs, width, 1)]
            else:
                kernels = [(width, inputs, 3), (width, width, 3)]
            for number, (to, of, side) in enumerate(kernels, start=1):
                shapes[f"{block}.conv{number}.weight"] = (to, of, side, side)
                shapes |= batch_norm(f"{block}.bn{number}", to)
            if inputs != outputs:
                shapes[f"{block}.downsample.0.weight"] = (outputs, inputs, 1, 1)
                shapes |= batch_norm(f"{block}.downsample.1", outputs)
            inputs = outputs
    return {**shapes, "fc.weight": (1000, inputs), "fc.bias": (1000,)}


@pytest.mark.parametrize(("make", "blocks", "has_bottlenecks", "count"), NETS)
def test_state_dict_is_torchvisions(make, blocks, has_bottlenecks, count):
    with torch.device("meta"):
        model = make(classes=1000)
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    assert shapes == torchvision_shapes(blocks, has_bottlenecks)
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize("make", [resnet18, resnet34, resnet50])
@pytest.mark.parametrize(("size", "channels"), [(32, 3), ((16, 24), 1), (65, 3)])
def test_logits(make, size, channels):
    model = make(classes=5, channels=channels, size=size, width=0.0625)
    height, width = (size, size) if isinstance(size, int) else size
    assert model(torch.randn(2, channels, height, width)).shape == (2, 5)


@pytest.mark.parametrize(
    ("size", "stem", "kernel", "pooled"),
    [
        (64, "auto", 3, False),
        (65, "auto", 7, True),
        ((32, 65), "auto", 7, True),
        (64, "imagenet", 7, True),
        (224, "cifar", 3, False),
    ],
)
def test_stem_follows_the_image_unless_given(size, stem, kernel, pooled):
    with torch.device("meta"):
        model = resnet18(size=size, stem=stem)
    assert model.conv1.kernel_size == (kernel, kernel)
    assert isinstance(model.maxpool, nn.MaxPool2d) == pooled


def test_each_module_without_children_is_called_once():
    model = resnet18(classes=2, size=32, width=0.0625)
    calls = Counter()
    leaves = [name for name, module in model.named_modules() if not list(module.children())]
    for name in leaves:
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: calls.update([name]))
    model(torch.zeros(2, 3, 32, 32))
    assert calls == dict.fromkeys(leaves, 1)


def test_convolutions_start_with_hes_deviation():
    torch.manual_seed(0)
    weight = resnet18(size=32).layer4[1].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)


def test_unknown_stem():
    message = "`stem` to be 'auto' or 'cifar' or 'imagenet', but got 'imagnet'"
    with pytest.raises(InvalidSettingError, match=message):
        resnet18(stem="imagnet")


def test_width_out_of_range():
    with pytest.raises(InvalidSettingError, match="`width` to be a finite number above 0"):
        resnet34(width=0)


@pytest.mark.parametrize(("stem", "at_least"), [("cifar", 8), ("imagenet", 32)])
def test_image_too_small(stem, at_least):
    message = f"at least {at_least} x {at_least} pixels for a resnet with the {stem} stem"
    with pytest.raises(InvalidSettingError, match=message):
        resnet50(size=at_least - 1, stem=stem)
    model = resnet50(classes=2, size=at_least, stem=stem, width=0.0625)
    assert model(torch.randn(2, 3, at_least, at_least)).shape == (2, 2)


@pytest.mark.parametrize(("name", "value"), [("classes", 1), ("channels", 0)])
def test_counts(name, value):
    with pytest.raises(InvalidSettingError, match=f"`{name}` to be a whole number"):
        resnet18(**{"width": 0.0625, name: value})
