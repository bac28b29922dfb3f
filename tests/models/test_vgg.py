import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models import vgg11

WIDTHS = (64, 128, 256, 256, 512, 512, 512, 512)
CLASSIFIER = {"0": (4096, 25088), "3": (4096, 4096), "6": (1000, 4096)}


def torchvision_shapes(positions, has_batch_norm):
    shapes = {}
    for inputs, width, position in zip((3, *WIDTHS[:-1]), WIDTHS, positions, strict=True):
        shapes[f"features.{position}.weight"] = (width, inputs, 3, 3)
        shapes[f"features.{position}.bias"] = (width,)
        if has_batch_norm:
            for part in ("weight", "bias", "running_mean", "running_var"):
                shapes[f"features.{position + 1}.{part}"] = (width,)
            shapes[f"features.{position + 1}.num_batches_tracked"] = ()
    for position, shape in CLASSIFIER.items():
        shapes[f"classifier.{position}.weight"] = shape
        shapes[f"classifier.{position}.bias"] = shape[:1]
    return shapes


@pytest.mark.parametrize("size", [28, 224])
@pytest.mark.parametrize(
    ("has_batch_norm", "positions", "count"),
    [
        (False, (0, 3, 6, 8, 11, 13, 16, 18), 132_863_336),
        (True, (0, 4, 8, 11, 15, 18, 22, 25), 132_868_840),
    ],
)
def test_state_dict_is_torchvisions_at_every_size(has_batch_norm, positions, count, size):
    with torch.device("meta"):
        model = vgg11(classes=1000, size=size, batch_norm=has_batch_norm)
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    assert shapes == torchvision_shapes(positions, has_batch_norm)
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize("has_batch_norm", [False, True])
@pytest.mark.parametrize("size", [(16, 16), (28, 56), (32, 32), (225, 100)])
def test_logits(size, has_batch_norm):
    model = vgg11(classes=3, channels=1, size=size, batch_norm=has_batch_norm, width=1 / 64)
    assert model(torch.randn(2, 1, *size)).shape == (2, 3)


@pytest.mark.parametrize(("size", "poolings"), [(31, 4), ((64, 31), 4), (32, 5)])
def test_small_images_skip_the_last_pooling(size, poolings):
    kinds = [type(layer) for layer in vgg11(size=size, width=1 / 64).features]
    assert kinds.count(nn.MaxPool2d) == poolings
    assert len(kinds) == 21


def test_dropout_acts_in_training_only():
    model = vgg11(classes=4, size=32, width=1 / 8)
    x = torch.randn(1, 3, 32, 32)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


def test_initialisation():
    torch.manual_seed(0)
    model = vgg11(classes=10, size=32, width=0.25)
    assert model.classifier[3].weight.std().item() == pytest.approx(0.01, rel=0.01)
    assert model.features[18].weight.std().item() == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.01)
    assert all((p == 0).all() for name, p in model.named_parameters() if name.endswith("bias"))


def test_image_too_small():
    with pytest.raises(InvalidSettingError, match="at least 16 x 16 pixels for vgg11"):
        vgg11(size=(15, 32))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dropout": 1.0}, "`dropout` to be a number from 0 to below 1"),
        ({"batch_norm": "yes"}, "`batch_norm` to be False or True, but got 'yes'"),
        ({"width": -1}, "`width` to be a finite number above 0"),
        ({"classes": 0}, "`classes` to be a whole number from 2"),
        ({"channels": 0}, "`channels` to be a whole number from 1"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(InvalidSettingError, match=message):
        vgg11(**{"width": 1 / 64, **settings})
