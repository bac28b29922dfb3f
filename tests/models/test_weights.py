import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from rightreasons.errors import CheckpointMismatchError, InvalidSettingError
from rightreasons.models import binary, load_weights, mlp, normalised, resnet18, small_cnn, vgg11


def tiny_resnet(seed, **settings):
    torch.manual_seed(seed)
    return resnet18(**{"classes": 10, "size": 32, "stem": "imagenet", "width": 1 / 16, **settings})


def tiny_cnn(seed, classes=2):
    torch.manual_seed(seed)
    return small_cnn(classes=classes, size=16)


def tiny_vgg(seed, classes=10):
    torch.manual_seed(seed)
    return vgg11(classes=classes, size=32, width=1 / 64)


def save(state, path):
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


def same(first, second, keys):
    first, second = first.state_dict(), second.state_dict()
    return all(torch.equal(first[key], second[key]) for key in keys)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt", "w.pth"])
@pytest.mark.parametrize("make", [tiny_resnet, tiny_cnn])
def test_round_trip(make, name, tmp_path):
    model, other = make(0), make(1)
    done = load_weights(other, save(model.state_dict(), tmp_path / name))
    assert done.path == tmp_path / name
    assert done.loaded == tuple(model.state_dict())
    assert done.skipped == ()
    assert same(model, other, done.loaded)


@pytest.mark.parametrize(
    ("make", "head"),
    [
        (tiny_resnet, "fc"),
        (tiny_vgg, "classifier.6"),
        (tiny_cnn, "fc2"),
    ],
)
def test_another_number_of_classes_keeps_the_models_head(make, head, tmp_path):
    model, other = make(0, classes=7), make(1, classes=3)
    before = {key: value.clone() for key, value in other.state_dict().items()}
    done = load_weights(other, save(model.state_dict(), tmp_path / "w.pt"))
    assert done.skipped == (f"{head}.weight", f"{head}.bias")
    assert set(done.loaded) == set(before) - set(done.skipped)
    assert same(model, other, done.loaded)
    assert all(torch.equal(before[key], other.state_dict()[key]) for key in done.skipped)


def test_a_file_without_a_head(tmp_path):
    model, other = tiny_resnet(0), tiny_resnet(1)
    state = {key: value for key, value in model.state_dict().items() if not key.startswith("fc")}
    assert load_weights(other, save(state, tmp_path / "w.pt")).skipped == ("fc.weight", "fc.bias")


def test_old_files_without_counters(tmp_path):
    model, other = tiny_resnet(0), tiny_resnet(1)
    state = {key: v for key, v in model.state_dict().items() if "num_batches_tracked" not in key}
    done = load_weights(other, save(state, tmp_path / "w.pth"))
    assert set(done.loaded) == set(state)
    assert same(model, other, state)


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
def test_wrappers_and_prefixes(wrapper, prefix, tmp_path):
    model, other = mlp(inputs=4, classes=2), mlp(inputs=4, classes=2)
    state = {f"{prefix}{key}": value for key, value in model.state_dict().items()}
    content = state if wrapper is None else {wrapper: state, "epoch": 3}
    done = load_weights(other, save(content, tmp_path / "w.pt"))
    assert same(model, other, done.loaded)
    assert len(done.loaded) == 4


def test_a_prefix_of_the_model_itself_stays(tmp_path):
    model = nn.ModuleDict({"module": nn.Linear(2, 2)})
    done = load_weights(model, save(model.state_dict(), tmp_path / "w.pt"))
    assert done.loaded == ("module.weight", "module.bias")


def test_a_model_without_linear_layers_has_no_head(tmp_path):
    model = nn.Conv2d(1, 2, 3)
    path = save({"weight": torch.zeros(3, 1, 3, 3), "bias": torch.zeros(3)}, tmp_path / "w.pt")
    with pytest.raises(CheckpointMismatchError, match="2 of another shape"):
        load_weights(model, path)


def test_another_stem_or_channels(tmp_path):
    path = save(tiny_resnet(0).state_dict(), tmp_path / "w.pt")
    message = r"1 of another shape \(conv1.weight is \(4, 3, 7, 7\) in the file, \(4, 1, 3, 3\) in"
    with pytest.raises(CheckpointMismatchError, match=message) as caught:
        load_weights(tiny_resnet(1, stem="cifar", channels=1), path)
    assert 'channels=3 and, for a resnet, stem="imagenet"' in str(caught.value)


def test_another_model_stays_as_it_was(tmp_path):
    path = save(tiny_vgg(0).state_dict(), tmp_path / "w.pt")
    model = tiny_resnet(1)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    message = r"100 missing from the file \(conv1.*4.1.bn2.running_var\), 22 .*classifier.6.bias"
    with pytest.raises(CheckpointMismatchError, match=message):
        load_weights(model, path)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_half_a_head_is_no_head(tmp_path):
    state = mlp(inputs=4, classes=3).state_dict()
    del state["3.bias"]
    with pytest.raises(CheckpointMismatchError, match=r"1 missing from the file \(3.bias\)"):
        load_weights(mlp(inputs=4, classes=2), save(state, tmp_path / "w.pt"))


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ([torch.zeros(2)], "list"),
        ({"epoch": 3, "lr": 0.1}, "a mapping of epoch, lr"),
        ({1: torch.zeros(2)}, "a mapping of 1"),
        ({}, "an empty mapping"),
    ],
)
def test_not_a_state_dict(content, got, tmp_path):
    with pytest.raises(CheckpointMismatchError, match=f"a state dict.*but got {got}. Save model"):
        load_weights(mlp(inputs=4, classes=2), save(content, tmp_path / "w.pt"))


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
@pytest.mark.parametrize("kept", [0, 5, 200])
def test_truncated_file(name, kept, tmp_path):
    path = save(mlp(inputs=4, classes=2).state_dict(), tmp_path / name)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointMismatchError, match="damaged, incomplete or holds other Python"):
        load_weights(mlp(inputs=4, classes=2), path)


def test_code_in_a_file_is_not_run(tmp_path):
    torch.save(mlp(inputs=4, classes=2), tmp_path / "w.pt")
    with pytest.raises(CheckpointMismatchError, match=r"Save model.state_dict\(\)"):
        load_weights(mlp(inputs=4, classes=2), tmp_path / "w.pt")


def test_missing_file(tmp_path):
    with pytest.raises(InvalidSettingError, match="a file with weights, but there is none at"):
        load_weights(mlp(inputs=4, classes=2), tmp_path / "w.pt")


def test_unknown_ending(tmp_path):
    with pytest.raises(
        InvalidSettingError, match=r"end in one of \('.safetensors', '.pt', '.pth', "
    ):
        load_weights(mlp(inputs=4, classes=2), tmp_path / "w.h5")


def test_an_unreadable_file_says_so_itself(tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError("no entry")

    monkeypatch.setattr(torch, "load", refuse)
    path = save(mlp(inputs=4, classes=2).state_dict(), tmp_path / "w.pt")
    with pytest.raises(PermissionError, match="no entry"):
        load_weights(mlp(inputs=4, classes=2), path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_archives_of_code_are_refused_with_the_reason(tmp_path):
    net = nn.Sequential(nn.Linear(2, 2))
    torch.jit.trace(net, torch.rand(1, 2)).save(tmp_path / "net.pt")
    with pytest.raises(InvalidSettingError, match=r"TorchScript archive: a compiled.*jit.load"):
        load_weights(net, tmp_path / "net.pt")
    torch.export.save(torch.export.export(net, (torch.rand(1, 2),)), tmp_path / "net.pt2")
    with pytest.raises(InvalidSettingError, match="torch.export archive: a compiled model"):
        load_weights(net, tmp_path / "net.pt2")


@pytest.mark.parametrize("wrapper", ["state_dict", "model_state_dict", "model"])
@pytest.mark.parametrize("prefix", ["module.", "model.", ""])
def test_the_file_may_be_of_the_model_inside_its_adapters(wrapper, prefix, tmp_path):
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    state = {prefix + name: tensor for name, tensor in net.state_dict().items()}
    path = save({wrapper: state, "epoch": 3}, tmp_path / "w.ckpt")
    inside = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    model = normalised(binary(inside), mean=0.5, deviation=0.5)
    done = load_weights(model, path)
    assert same(inside, net, net.state_dict()) and not done.skipped
    assert len(load_weights(model, save(model.state_dict(), tmp_path / "own.pt")).loaded) == 6
