import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import rightreasons as rr
from rightreasons.errors import CheckpointMismatchError, OutputError
from rightreasons.strategies.strategy import SEEDS_APART, Stages, is_begun, resume_files


@pytest.fixture
def make_stages(tiny_splits, fit_settings):
    def make(out=None, *, resume=False):
        return Stages(tiny_splits, out=out, resume=resume, settings=dict(fit_settings))

    return make


def train_twice(stages, net):
    objective = rr.recipes.erm().as_objective()
    for name in ("one", "two"):
        stages.fit(name, net, objective, stages.data.train, epochs=1)
    return stages.finish(net)


def test_every_fit_has_its_folder_and_the_whole_its_log(make_stages, make_net, tmp_path):
    net = make_net()
    fitted = train_twice(make_stages(tmp_path), net)
    assert {path.name for path in tmp_path.iterdir()} == {
        "log.jsonl",
        "model.safetensors",
        "stage-1-one",
        "stage-2-two",
    }
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["stage"] for row in rows] == ["one", "two"]
    assert rows == fitted.history
    assert fitted.seconds == sum(row["seconds"] for row in rows)
    saved = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(saved[name], value) for name, value in net.state_dict().items())
    assert not net.training


def test_each_fit_has_a_seed_of_its_own(make_stages, make_net):
    stages = make_stages()
    assert stages.seed == 0
    train_twice(stages, make_net())
    assert stages.seed == 2 * SEEDS_APART


def test_layers_put_in_test_mode_stay_in_it(make_stages, make_net):
    net = make_net()
    net[1].eval()
    before = net[1].running_mean.clone()
    train_twice(make_stages(), net)
    assert torch.equal(net[1].running_mean, before)


def test_a_folder_with_a_run_is_not_overwritten(make_stages, make_net, tmp_path):
    train_twice(make_stages(tmp_path), make_net())
    with pytest.raises(OutputError, match="Expected a folder without a run"):
        train_twice(make_stages(tmp_path), make_net())


def test_what_is_worked_out_is_kept_and_read_back(make_stages, tmp_path):
    def chunks():
        yield np.array([[1, 2], [3, 4]], dtype=np.uint8)
        yield np.array([[5, 6]], dtype=np.uint8)

    def never():
        raise AssertionError("it is there already")

    in_memory = make_stages().compute_once("numbers", 3, chunks)
    on_disk = make_stages(tmp_path).compute_once("numbers", 3, chunks)
    assert isinstance(on_disk, np.memmap)
    assert (tmp_path / "stage-1-numbers.npy").exists()
    again = make_stages(tmp_path, resume=True).compute_once("numbers", 3, never)
    for rows in (in_memory, on_disk, again):
        assert rows.tolist() == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(CheckpointMismatchError, match="to have 4 rows, .*but it has 3"):
        make_stages(tmp_path, resume=True).compute_once("numbers", 4, never)


def test_a_chunk_that_fails_leaves_nothing(make_stages, tmp_path):
    def chunks():
        yield np.zeros(2, dtype=bool)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_stages(tmp_path).compute_once("errors", 4, chunks)
    assert list(tmp_path.iterdir()) == []


def test_what_a_finished_run_no_longer_needs(make_stages, make_net, tmp_path):
    assert not is_begun(tmp_path)
    stages = make_stages(tmp_path)
    stages.compute_once("masks", 1, lambda: [np.zeros(1)])
    train_twice(stages, make_net())
    assert is_begun(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in resume_files(tmp_path)] == [
        "checkpoint.pt",
        "stage-1-masks.npy",
        "stage-1-one/checkpoint.pt",
        "stage-2-two/checkpoint.pt",
    ]


def test_the_last_weights_are_given_where_others_are_kept(make_stages, make_net):
    stages, net = make_stages(), make_net()
    objective = rr.recipes.erm().as_objective()
    fitted = stages.fit("one", net, objective, stages.data.train, epochs=3, select="accuracy")
    assert fitted.last.keys() == net.state_dict().keys()
    plain = stages.fit("two", nn.Sequential(*make_net()), objective, stages.data.train)
    assert plain.last == {}
