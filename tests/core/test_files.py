import copy
import json
import os
import pickle
import stat

import pytest
import torch
from torch import nn

from rightreasons.core.files import (
    load_checkpoint,
    load_weights_into,
    refuse_other_model,
    save_checkpoint,
    save_weights,
    writable_folder,
    write_atomically,
    write_json,
)
from rightreasons.errors import CheckpointMismatchError, OutputError, RunNotFoundError


@pytest.fixture
def below_a_file(tmp_path):
    """A folder that cannot be, not even for the administrator."""
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file" / "folder"


def net(hidden=4):
    return nn.Sequential(nn.Linear(3, hidden), nn.BatchNorm1d(hidden), nn.Linear(hidden, 2))


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        write_atomically(path, lambda file, content=content: file.write(content))
        assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, OSError])
def test_a_writer_that_fails_leaves_the_old_file_whole(tmp_path, kind):
    path = tmp_path / "file"
    path.write_bytes(b"old and good")

    def fails(file):
        file.write(b"half of the n")
        file.flush()
        raise kind("in the middle")

    with pytest.raises(kind):
        write_atomically(path, fails)
    assert path.read_bytes() == b"old and good"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_new_file_is_nowhere_until_it_is_whole(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, lambda file: file.write(str(path.exists()).encode()))
    assert path.read_bytes() == b"False"


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_others_may_read_a_file_as_they_may_any_other(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "file", lambda file: file.write(b"content"))
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


def test_a_file_is_on_disk_before_it_is_moved(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    write_atomically(tmp_path / "file", lambda file: file.write(b"content"))
    assert calls[:2] == ["fsync", "replace"]


def test_a_folder_that_cannot_be_written(below_a_file):
    message = "Expected a place to write to, but .*folder cannot be written .Not a directory"
    with pytest.raises(OutputError, match=message):
        write_atomically(below_a_file / "x", lambda file: file.write(b""))
    with pytest.raises(OutputError, match=f"{message}.*Choose another with --out"):
        writable_folder(below_a_file)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OutputError, match="No such file or directory"):
        write_json(tmp_path / "missing" / "file.json", {})


def test_a_folder_is_made_with_its_parents(tmp_path):
    folder = writable_folder(str(tmp_path / "a" / "b"))
    assert folder == tmp_path / "a" / "b"
    assert writable_folder(folder) == folder
    assert list(folder.iterdir()) == []


def test_json_is_indented_and_ends_its_line(tmp_path):
    value = {"a": [1, 2.5, None], "b": {"c": "ü"}}
    write_json(tmp_path / "value.json", value)
    text = (tmp_path / "value.json").read_text()
    assert json.loads(text) == value
    assert text.startswith('{\n  "a"')
    assert text.endswith("}\n")


def test_json_has_no_nan(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"values": [float("nan"), (float("inf"), 1.5)], "name": "nan"})
    assert json.loads(path.read_text()) == {"values": [None, [None, 1.5]], "name": "nan"}


def test_a_target_that_is_a_folder(tmp_path):
    with pytest.raises(OutputError, match="cannot be written .Is a directory"):
        write_json(tmp_path, 1)
    assert not list(tmp_path.iterdir())


def test_weights_that_are_none(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(CheckpointMismatchError, match="as safetensors.*cannot be read"):
        load_weights_into(nn.Linear(2, 2), tmp_path / "model.safetensors")


def test_a_checkpoint_that_is_no_dictionary(tmp_path):
    torch.save([1, 2], tmp_path / "checkpoint.pt")
    with pytest.raises(CheckpointMismatchError, match="but got list"):
        load_checkpoint(tmp_path / "checkpoint.pt")


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    path = tmp_path / "checkpoint.pt"
    state = {"model": net().state_dict(), "position": {"epoch": 3, "history": [{"a": 0.1}]}}
    save_checkpoint(path, state)
    loaded = load_checkpoint(path)
    assert loaded["position"] == state["position"]
    assert all(torch.equal(loaded["model"][name], value) for name, value in state["model"].items())


def test_no_checkpoint(tmp_path):
    with pytest.raises(RunNotFoundError, match="Expected a checkpoint at .*, but there is none to"):
        load_checkpoint(tmp_path / "checkpoint.pt")


class Code:
    """What it leaves behind when it is unpickled by someone who trusts it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_code_in_a_checkpoint_is_never_run(tmp_path):
    path, trace = tmp_path / "checkpoint.pt", tmp_path / "trace"
    torch.save({"model": Code(trace)}, path)
    with pytest.raises(CheckpointMismatchError, match="Expected a checkpoint of rightreasons at"):
        load_checkpoint(path)
    path.write_bytes(pickle.dumps(Code(trace)))
    with pytest.raises(CheckpointMismatchError, match="it cannot be read"):
        load_checkpoint(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "damage", [lambda content: content[:100], lambda content: b"", lambda _: b"x"]
)
def test_a_damaged_checkpoint(tmp_path, damage):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"model": net().state_dict()})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointMismatchError, match="but it cannot be read"):
        load_checkpoint(path)


def test_weights_come_back_as_they_were(tmp_path):
    model, other = net(), net()
    model(torch.rand(8, 3))  # moves the statistics
    save_weights(tmp_path / "model.safetensors", model)
    load_weights_into(other, tmp_path / "model.safetensors")
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)


def test_shared_and_transposed_weights_can_be_saved(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[0].bias = nn.Parameter(torch.arange(9.0).reshape(3, 3).T[0])
    other = copy.deepcopy(model)
    nn.init.zeros_(other[0].weight)
    save_weights(tmp_path / "model.safetensors", model)
    load_weights_into(other, tmp_path / "model.safetensors")
    assert torch.equal(other[1].weight, model[0].weight)
    assert torch.equal(other[0].bias, model[0].bias)


def test_no_weights(tmp_path):
    with pytest.raises(RunNotFoundError, match="Expected weights at .*, but there are none"):
        load_weights_into(net(), tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (net(hidden=5), r"of another shape: 0.weight \(4, 3\) for \(5, 3\)"),
        (nn.Sequential(nn.Linear(3, 4)), r"unknown: [12]\.\w+, [12]\.\w+, [12]\.\w+"),
        (nn.Sequential(*net(), nn.Linear(2, 2)), "missing: 3.weight, 3.bias"),
    ],
    ids=["shape", "unknown", "missing"],
)
def test_the_weights_of_another_model_are_refused(tmp_path, other, words):
    path = tmp_path / "model.safetensors"
    save_weights(path, net())
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(CheckpointMismatchError, match=f"{words}.*Build the model it was saved"):
        load_weights_into(other, path)
    assert all(torch.equal(other.state_dict()[name], value) for name, value in before.items())


def test_the_state_of_the_same_model_is_not_refused(tmp_path):
    refuse_other_model(net().state_dict(), net(), tmp_path)
