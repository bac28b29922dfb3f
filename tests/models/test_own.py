import sys

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.models.own import absolute_name, check_outputs, is_own, short_name

SHAPE = {"classes": 2, "channels": 1, "size": (4, 4)}
CODE = """
import torch
from torch import nn
from beside_own import WIDTH

def make(classes, channels, size, hidden=WIDTH):
    inputs = channels * size[0] * size[1]
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.Linear(hidden, classes))

def plain():
    return make(2, 1, (4, 4))

def open_ended(classes, **settings):
    return make(classes, 1, (4, 4), **settings)

class Net(nn.Sequential):
    def __init__(self, *, classes=3):
        super().__init__(nn.Flatten(), nn.Linear(16, classes))

ready = plain()
number = 3

def text():
    return "a model"

def scripted():
    return torch.jit.trace(ready, torch.rand(1, 1, 4, 4))

def broken(classes):
    return nn.Linear(classes, "two")
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "beside_own.py").write_text("WIDTH = 5\n")
    (tmp_path / "net.py").write_text(CODE)
    return tmp_path / "net.py"


@pytest.mark.parametrize(
    ("name", "settings", "shape"),
    [
        ("make", {}, (2, 5)),
        ("make", {"hidden": 7}, (2, 7)),
        ("plain", {}, (2, 5)),
        ("open_ended", {"hidden": 6}, (2, 6)),
        ("Net", {}, (2, 16)),
        ("ready", {}, (2, 5)),
    ],
)
def test_a_file_gives_its_function_class_or_model(path, name, settings, shape):
    before = list(sys.path)
    model = rr.models.create(f"{path}:{name}", **SHAPE, **settings)
    assert tuple(model[-1].weight.shape) == shape
    assert sys.path == before
    scaled = rr.models.create(f"{path}:{name}", **SHAPE, **settings, mean=0.5, deviation=0.5)
    assert [child for child, _ in scaled.named_children()] == ["normalise", "net"]


def test_a_module_is_imported_by_its_name():
    model = rr.models.create("torch.nn:Linear", **SHAPE, in_features=3, out_features=2)
    assert isinstance(model, nn.Linear)


def test_a_changed_file_is_read_anew(path):
    assert rr.models.create(f"{path}:make", **SHAPE)[1].out_features == 5
    path.write_text(CODE.replace("hidden=WIDTH", "hidden=9"))
    assert rr.models.create(f"{path}:make", **SHAPE)[1].out_features == 9


def test_names_hold_in_every_folder(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    assert absolute_name("net.py:make") == f"{path}:make"
    assert absolute_name("torch.nn:Linear") == "torch.nn:Linear"
    assert short_name(f"{path}:make") == "net.py:make"
    assert not is_own("resnet18")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{path}:other", "Expected 'other' in .*net.py, but it has .*make"),
        ("{path}:number", "it is a int"),
        ("{path}:text", "to give an nn.Module, but it gives str"),
        ("{path}:scripted", "compiled archive can be neither hooked, bounded nor trained"),
        ("{path}:broken", r"to be called with classes=2, but line 30 of .*net.py raised Type"),
        ("{path}", "without a name after a colon"),
        ("{path}x.py:make", "Expected a Python file at .* but there is none"),
        ("model.pt", "an archive or a file of weights"),
        ("no_such_package.nets:make", "to be imported, but .* ModuleNotFoundError"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_gives_no_model_is_refused_with_the_place(path, name, words):
    with pytest.raises(InvalidSettingError, match=words):
        rr.models.create(name.format(path=path), **SHAPE)


def test_the_scale_has_one_number_for_each_channel(path):
    with pytest.raises(InvalidSettingError, match=r"\(--std\).* each of 1 channels, but got 3"):
        rr.models.create(f"{path}:make", **SHAPE, mean=[0.5], deviation=[0.2, 0.2, 0.3])


def test_errors_of_the_users_code_name_its_line(path):
    path.write_text("import torch\nraise RuntimeError('operator nms does not exist')\n")
    with pytest.raises(
        InvalidSettingError, match=r"line 2 of .*net.py raised RuntimeError: operator"
    ):
        rr.models.create(f"{path}:make", **SHAPE)
    path.write_text("import torch\n\ndef make(:\n")
    with pytest.raises(InvalidSettingError, match=r"line 3 of .*net.py raised SyntaxError"):
        rr.models.create(f"{path}:make", **SHAPE)
    with pytest.raises(
        InvalidSettingError, match="settings of the model .*: hidden; but got depth"
    ):
        path.write_text(CODE)
        rr.models.create(f"{path}:make", **SHAPE, depth=3)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Linear(4, 1), "two logits, for cat and dog.*--set-model positive=dog"),
        (nn.Linear(4, 3), r"shape \(2, 2\) for the classes cat, dog, but got \(2, 3\)"),
        (nn.Linear(5, 2), r"'net' to take samples of shape \(4,\), but line .* RuntimeError"),
    ],
)
def test_outputs_that_do_not_fit_the_classes_are_refused(model, words):
    with pytest.raises(InvalidSettingError, match=words):
        check_outputs(model, torch.rand(3, 4), ("cat", "dog"), "net")


def test_a_model_that_ends_in_softmax_is_refused():
    model = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1))
    with pytest.raises(rr.errors.InvalidBatchError, match="ends in softmax.*Remove the softmax"):
        check_outputs(model, torch.rand(3, 4), ("cat", "dog"), "net")
    check_outputs(nn.Sequential(model[0], nn.LogSoftmax(dim=1)), torch.rand(3, 4), "ab", "net")
