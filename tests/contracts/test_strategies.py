"""What every strategy promises, whatever it does between fits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.strategies import tiny

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.strategies import STRATEGIES
from rightreasons.training.state import Training

# name: settings that make it quick
QUICK = {
    "dfr": {"num_draws": 2, "head_epochs": 2},
    "divdis": {},
    "jtt": {"upweight": 2, "first_lr": 1e-3},
    "lff": {},
    "masktune": {"iterations": 2},
    "once": {},
    "random_mask": {},
    "reff": {
        "num_annotations": 4,
        "annotator_width": 2,
        "annotator_depth": 1,
        "annotator_updates": 7,
    },
}
BAD_SETTINGS = [
    ("dfr", {"source": "test"}, "Expected `source` to be 'validation' or 'train'"),
    ("dfr", {"num_draws": 0}, "Expected `num_draws` to be a whole number from 1"),
    ("dfr", {"head_epochs": 0}, "Expected `head_epochs` to be a whole number from 1"),
    ("dfr", {"head_lr": 0}, "Expected `head_lr` to be a finite number above 0"),
    ("dfr", {"head_decay": -1}, "Expected `head_decay` to be a finite number above 0"),
    ("divdis", {"unlabelled": "train"}, "Expected `unlabelled` to be 'test' or 'validation'"),
    ("divdis", {"weight": 0}, "Expected `weight` to be a finite number above 0"),
    ("divdis", {"balance": -1}, "Expected `balance` to be a finite number above 0"),
    ("jtt", {"first_epochs": 0}, "Expected `first_epochs` to be a whole number from 1"),
    ("jtt", {"first_lr": 0}, "Expected `first_lr` to be a finite number above 0"),
    ("jtt", {"upweight": 1.5}, "Expected `upweight` to be a whole number from 1"),
    ("lff", {"q": 0}, "Expected `q` to be a finite number above 0"),
    ("lff", {"decay": 1}, "Expected `decay` to be a number from 0 to below 1"),
    ("masktune", {"rule": "hard"}, "Expected `rule` to be 'deviations' or 'top' or 'soft'"),
    ("masktune", {"k": -1}, "Expected `k` to be a number from 0, but got -1"),
    ("masktune", {"k": True}, "Expected `k` to be a number from 0"),
    ("masktune", {"statistics": "some"}, "Expected `statistics` to be 'all' or 'positive'"),
    ("masktune", {"share": 1.0}, "Expected `share` to be a number from 0 to below 1"),
    ("masktune", {"fill": "white"}, "Expected `fill` to be 'zero' or 'mean' or 'blur'"),
    ("masktune", {"iterations": 0}, "Expected `iterations` to be a whole number from 1"),
    ("masktune", {"accumulate": 1}, "Expected `accumulate` to be True or False"),
    ("masktune", {"stop_below": 2}, "Expected `stop_below` to be a number from 0 to below 1"),
    ("masktune", {"tune_epochs": 0}, "Expected `tune_epochs` to be a whole number from 1"),
    ("masktune", {"tune_lr": 0}, "Expected `tune_lr` to be a finite number above 0"),
    ("random_mask", {"window": 0}, "Expected `window` to be a whole number from 1"),
    ("random_mask", {"fill": "noise"}, "Expected `fill` to be 'zero'"),
    ("random_mask", {"tune_epochs": 0.5}, "Expected `tune_epochs` to be a whole number"),
    ("random_mask", {"tune_lr": -1}, "Expected `tune_lr` to be a finite number above 0"),
    ("reff", {"num_annotations": 0}, "Expected `num_annotations` to be a whole number from 1"),
    ("reff", {"weight_by_confidence": 1}, "Expected `weight_by_confidence` to be True or False"),
    ("reff", {"annotator": "gan"}, "Expected `objective` to be 'segmentation' or 'pix2pix'"),
    ("reff", {"annotator_updates": 0}, "Expected `num_updates` to be a whole number from 1"),
    ("reff", {"annotator_l1_weight": 0}, "Expected `l1_weight` to be a finite number above 0"),
]
SAVES = 5


class KilledError(BaseException):
    """Stands for a kill: nobody catches it."""


@pytest.fixture(params=QUICK)
def name(request):
    return request.param


def train(name, net, **settings):
    strategy = STRATEGIES.create(name, **QUICK[name])
    return strategy.fit(net, rr.recipes.erm(), tiny.splits(), **{**tiny.FIT, **settings})


def test_the_table_is_complete():
    assert set(QUICK) == set(STRATEGIES)


@pytest.mark.parametrize(("name", "settings", "words"), BAD_SETTINGS)
def test_bad_settings(name, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        STRATEGIES.create(name, **settings)


def test_every_strategy_refuses_bad_settings():
    with_settings = {name for name in STRATEGIES if STRATEGIES.settings(name)}
    assert {name for name, _, _ in BAD_SETTINGS} == with_settings


def test_it_trains_in_place_and_tells_all(name):
    net = tiny.net()
    fitted = train(name, net)
    assert not net.training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert any(
        not torch.equal(value, before)
        for value, before in zip(net.parameters(), tiny.net().parameters(), strict=True)
    )
    assert fitted.seconds > 0
    stages = [row.get("stage") for row in fitted.history]
    assert (set(stages) == {None}) == (name == "once")


def test_killed_anywhere_and_resumed_it_ends_the_same(name, tmp_path, monkeypatch):
    """Killed every few checkpoints, wherever that is; checkpoints come after every update."""
    whole = tiny.net()
    train(name, whole)
    save, saves = Training.save, []

    def killing(self):
        save(self)
        saves.append(self)
        if len(saves) == SAVES + len(list(tmp_path.glob("stage-*/model.safetensors"))):
            raise KilledError

    monkeypatch.setattr(Training, "save", killing)
    kills, net = 0, None
    while net is None:
        saves.clear()
        resumed = tiny.net()
        try:
            train(name, resumed, out=tmp_path, resume=True, checkpoint_seconds=0.0)
            net = resumed
        except KilledError:
            kills += 1
            assert kills < 30, "it does not get further"
    assert kills >= 1
    for key, value in whole.state_dict().items():
        assert torch.equal(net.state_dict()[key], value), key


SCRIPT = """
import os, signal, sys, warnings
import torch
import rightreasons as rr
from rightreasons.strategies import MaskTune, masktune
from rightreasons.training.state import Training
from tests.strategies import tiny

warnings.simplefilter("ignore")
torch.set_num_threads(1)
save, draw_heat_maps = Training.save, masktune.draw_heat_maps


def run(out, kill_in=None):
    saves = []

    def saving(self):
        save(self)
        if kill_in is not None and kill_in in str(self.folder):
            saves.append(1)
            if len(saves) == 3:
                os.kill(os.getpid(), signal.SIGKILL)

    def mapping(model, data, make):
        for pair in draw_heat_maps(model, data, make):
            yield pair
            if kill_in == "masks":
                os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        Training.save, masktune.draw_heat_maps = saving, mapping
        MaskTune(iterations=2).fit(
            tiny.net(), rr.recipes.erm(), tiny.splits(), out=out, resume=True,
            checkpoint_seconds=0.0, **tiny.FIT,
        )
        os._exit(0)
    return os.waitpid(child, 0)[1]


whole, killed = sys.argv[1:]
assert run(whole) == 0
for place in ("stage-1", "masks", "stage-2", "masks", "stage-3"):
    assert run(killed, place) == signal.SIGKILL, place
    assert not os.path.exists(killed + "/model.safetensors")
assert run(killed) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
def test_sigkill_inside_and_between_stages_changes_no_bit(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    folders = [str(tmp_path / run) for run in ("whole", "killed")]
    done = subprocess.run(
        [sys.executable, str(script), *folders],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    for name in ("model.safetensors", "stage-2-masks.npy", "stage-3-masks.npy"):
        whole, killed = ((tmp_path / run / name).read_bytes() for run in ("whole", "killed"))
        assert whole == killed, name
