"""Two processes train what one trains: every recipe, every strategy, texts, images on disk.

What a term draws for a sample differs between processes, as dropout does. Here it comes from the
sample's number, so that all the rest can be compared.
"""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.overrides import TorchFunctionMode

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.contracts.test_strategies import QUICK
from tests.strategies import tiny
from tests.token_nets import TEXT, VOCABULARY, tiny_bert

import rightreasons as rr
from rightreasons.core.rng import sample_noise
from rightreasons.datasets import Card, InMemory, Splits
from rightreasons.errors import DoubleBackwardError
from rightreasons.metrics import METRICS
from rightreasons.models import Abstaining, SelectiveHeads, attention_branch, create
from rightreasons.objectives import Objective
from rightreasons.objectives.recipes import RECIPES
from rightreasons.strategies import STRATEGIES
from rightreasons.training.distributed import launch_fabric

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

IMAGES = ("abn", "reff", "reff_l1", "reff_l2")
FIRST_ORDER = ("counterexamples", "group_dro", "cvar_dro", "at_pgd", "one_sided")
"""Recipes without input gradients, which models sharded by FSDP can train."""
SOME = ("erm", "r3", "counterexamples", "group_dro")
# Batches of 26 and 23 samples, whose parts have no length that anything else has.
SIZE, LONGEST, CLOSE = 49, 16, 1e-6
FIT = {"epochs": 2, "batch_size": 26, "accumulate": 2, "progress": False}
HALF = {"optimizer": "sgd", "lr": 0.05}
ROUNDING = 2.0**-7
"""Processes round sums of half precision at other places; a part of what was learned."""
DRAWS = ("rand", "randn", "rand_like", "randn_like", "randint", "uniform_", "normal_")


class DrawnByIndex(TorchFunctionMode):
    """What is drawn without a generator depends on the number of the sample alone."""

    def __init__(self):
        super().__init__()
        self.index, self.is_text = None, False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        found = func(*args, **kwargs)
        if self.index is None or name not in DRAWS or kwargs.get("generator") is not None:
            return found
        places = [place for place, size in enumerate(found.shape) if size == len(self.index)]
        return self.draw(name, found, places[0], args) if places else found

    def draw(self, name, found, place, args):
        copies, rest = found.shape[:place], found.shape[place + 1 :]
        wide = (LONGEST, *rest[1:]) if self.is_text and rest else rest
        kind = "normal" if name in ("randn", "randn_like", "normal_") else "uniform"
        drawn = sample_noise(self.index, (*copies, *wide), num_draws=1, seed=3, kind=kind)[0]
        drawn = drawn.movedim(0, place)
        if wide != rest:  # a process trims its texts by the longest of its own
            drawn = drawn.narrow(place + 1, 0, rest[0])
        if name == "randint":
            drawn = drawn * args[0]
        if name == "uniform_":
            drawn = args[1] + (args[2] - args[1]) * drawn
        return found.copy_(drawn)


@contextmanager
def drawn_by_index():
    mode, forward = DrawnByIndex(), Objective.forward

    def noting(self, model, batch):
        mode.index, mode.is_text = batch.index, not batch.x.is_floating_point()
        try:
            return forward(self, model, batch)
        finally:
            mode.index = None

    with mode, mock.patch.object(Objective, "forward", noting):
        yield


def images(channels=1):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(SIZE) % 3
    x = torch.rand(SIZE, channels, 8, 8, generator=generator) + y[:, None, None, None] / 3
    return rr.Batch(
        x=x.double() / 2,
        y=y,
        mask=(torch.rand(SIZE, 1, 8, 8, generator=generator) < 0.9).double(),
        group=torch.randint(3, (SIZE,), generator=generator),
    )


def texts():
    generator = torch.Generator().manual_seed(0)
    attention = (torch.arange(11) < torch.randint(3, 12, (SIZE, 1), generator=generator)).long()
    mask = (torch.rand(SIZE, 11, generator=generator) < 0.4) * attention
    mask[:, 0] = 1
    batch = rr.Batch(
        x=torch.randint(3, VOCABULARY, (SIZE, 11), generator=generator) * attention,
        y=torch.arange(SIZE) % 3,
        mask=mask.double(),
        group=torch.arange(SIZE) % 2,
        inputs={"attention_mask": attention},
    )
    return InMemory(batch, Card(name="texts", text=TEXT))


def image_net(name):
    shape = {"classes": 3, "channels": 3 if name in IMAGES else 1, "size": (8, 8)}
    if name == "abn":
        net = attention_branch(classes=3, size=8, width=1 / 32)
    elif name == "selective_net":
        body = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh())
        net = SelectiveHeads(body=body, num_features=6, classes=3, hidden=4)
    elif name == "deep_gamblers":
        net = Abstaining(create("mlp", **{**shape, "classes": 4}, hidden=(7,)))
    elif name in IMAGES:
        net = create("resnet18", **shape, width=1 / 32)
    else:
        net = create("mlp", **shape, hidden=(7,))
    return without_mixing(rr.models.with_softplus(net, 3.0).double())


def without_mixing(net):
    """Rest layers that mix samples or drop units: those differ between processes."""
    for layer in net.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.eval()
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return net


def text_net():
    return rr.models.text_mlp(vocabulary=VOCABULARY, classes=3, width=5, hidden=(6,)).double()


def small_bert():
    net = tiny_bert("eager")  # whose dropout is a layer
    return without_mixing(net)


def disk_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.Softplus(), nn.Linear(4, 2))


def write_folder(folder):
    """Write images with masks and groups, which are then read from disk in each pass."""
    generator = np.random.default_rng(0)
    for kind in ("images", "masks"):
        (folder / kind).mkdir()
    rows = ["file,label,split,irrelevant_mask,group"]
    for number in range(90):
        label, split = number % 2, ("train", "train", "val", "test")[number // 2 % 4]
        pixels = generator.integers(0, 128, (8, 8, 3)) + 90 * label
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"images/{number}.png")
        mask = 255 * (generator.random((8, 8)) < 0.3)
        Image.fromarray(mask.astype(np.uint8)).save(folder / f"masks/{number}.png")
        rows.append(f"images/{number}.png,{label},{split},masks/{number}.png,{number % 3}")
    (folder / "data.csv").write_text("\n".join(rows) + "\n")


def train_strategy(name, fabric):
    net = tiny.net().double()
    net[1].eval()
    parts = {
        part: InMemory(getattr(tiny.splits(), part).batch.to(torch.float64), tiny.CARD)
        for part in ("train", "val", "test")
    }
    settings = {**tiny.FIT, "batch_size": 26, "lr": 0.01, "accumulate": 2, "fabric": fabric}
    strategy = STRATEGIES.create(name, **QUICK[name])
    torch.set_default_dtype(torch.float64)  # of the heads that DFR makes
    try:
        return net, strategy.fit(net, rr.recipes.erm(), Splits(**parts), **settings)
    finally:
        torch.set_default_dtype(torch.float32)


def train_all(folder, fabric, half):
    """Train everything in the table: the model and what its fit tells, by name."""

    def fit(make_net, name, data, fabric=fabric, **settings):
        net = make_net()
        recipe = RECIPES.create(name)
        return net, rr.fit(net, recipe, data, fabric=fabric, **{**FIT, **settings})

    disk = rr.datasets.folder(folder, size=8, in_memory=False, workers=0)
    table = {}
    for name in RECIPES:
        if name.startswith("token_"):
            table[name] = (fit, text_net, name, texts())
        else:
            data = images(3 if name in IMAGES else 1)
            table[name] = (fit, lambda name=name: image_net(name), name, data)
    table |= {f"{name}, texts": (fit, small_bert, name, texts()) for name in SOME}
    table |= {f"{name}, from disk": (fit, disk_net, name, disk.train) for name in SOME}
    table |= {f"strategy {name}": (train_strategy, name, fabric) for name in STRATEGIES}
    found = {}
    for name, (train, *arguments) in table.items():
        torch.manual_seed(0)
        with drawn_by_index():
            found[name] = tell(*train(*arguments))
    small = images().to(torch.float32)
    for name in SOME:
        torch.manual_seed(0)
        net = image_net("erm").float()
        start = {key: value.clone() for key, value in net.state_dict().items()}
        found[f"{name}, half"] = tell(*fit(lambda net=net: net, name, small, half, **HALF))
        found[f"{name}, half"]["start"] = start
    torch.manual_seed(0)
    every = [name for name, metric in METRICS.items() if metric.takes_texts]
    found["metrics, texts"] = rr.evaluate(text_net(), texts(), every, batch_size=7)
    found["metrics, from disk"] = rr.evaluate(disk_net().double(), disk.test, batch_size=7)
    return found


def train_sharded():
    """Three steps of each recipe by `fully_shard`: how far from DDP they end, or why they do not.

    This is a user's own loop; `fit` replicates models.
    """
    found, data = {}, images()
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    part = data.with_(index=torch.arange(SIZE))[rank::size]
    for name in ("erm", "r3", "ibp_ex", *FIRST_ORDER):
        ends = []
        for shard in (True, False):
            torch.manual_seed(0)
            net, objective = image_net(name), RECIPES.create(name)
            objective.prepare(InMemory(data), num_passes=3)
            wrapped = nn.parallel.DistributedDataParallel(net)
            if shard:
                for layer in net:
                    if isinstance(layer, nn.Linear):
                        fully_shard(layer)
                wrapped = fully_shard(net)
            optimizer = torch.optim.Adam(net.parameters())
            try:
                for _ in range(3):
                    torch.manual_seed(0)
                    objective(wrapped, part).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            except DoubleBackwardError as error:
                ends.append(str(error))
                break
            ends.append([one.full_tensor() if shard else one for one in net.parameters()])
        if len(ends) == 1:
            found[name] = ends[0]
        else:
            pairs = zip(*ends, strict=True)
            found[name] = max(float((one - other).abs().max()) for one, other in pairs)
    return found


def tell(net, fitted):
    history = [{k: v for k, v in row.items() if k != "seconds"} for row in fitted.history]
    weights = {name: value.detach().clone() for name, value in net.state_dict().items()}
    return {"weights": weights, "history": history, "chosen": fitted.weights}


def make_fabrics(devices):
    return [launch_fabric("cpu", devices, precision) for precision in ("32-true", "bf16-mixed")]


def work(folder):
    torch.set_num_threads(1)
    fabrics = make_fabrics(2)
    found = train_all(folder, *fabrics) | {"sharded": train_sharded()}
    if fabrics[0].is_global_zero:
        torch.save(found, folder / "two.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def flat(value, prefix=""):
    if isinstance(value, dict):
        return {k: v for n, part in value.items() for k, v in flat(part, f"{prefix}/{n}").items()}
    if isinstance(value, list):
        return flat(dict(enumerate(value)), prefix)
    return {prefix: value}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    write_folder(folder)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with (folder / "told").open("w") as told:
        two = subprocess.Popen(
            [sys.executable, *command, str(folder)], env=environment, stdout=told, stderr=told
        )
        one = train_all(folder, *make_fabrics(1))
        assert two.wait(300) == 0, (folder / "told").read_text()
    return one, torch.load(folder / "two.pt", weights_only=True)


def names():
    more = [f"{name}, {kind}" for name in SOME for kind in ("texts", "from disk")]
    return [*RECIPES, *more, *(f"strategy {name}" for name in STRATEGIES)]


@pytest.mark.parametrize("name", names())
def test_two_processes_train_what_one_trains(trained, name):
    one, two = (flat(found[name]) for found in trained)
    assert one.keys() == two.keys()
    for key, value in one.items():
        if isinstance(value, str):  # the name of a stage
            assert two[key] == value
        else:
            torch.testing.assert_close(two[key], value, rtol=CLOSE, atol=CLOSE, msg=key)


@pytest.mark.parametrize("name", ["metrics, texts", "metrics, from disk"])
def test_metrics_are_exact(trained, name):
    """Those of images in memory are in `test_metrics.py`."""
    one, two = (found[name] for found in trained)
    assert two == pytest.approx(one, rel=1e-12, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", SOME)
def test_in_half_precision_they_differ_by_rounding(trained, name):
    one, two = (found[f"{name}, half"] for found in trained)
    learned, apart = (
        sum(float((one["weights"][key] - other).square().sum()) for key, other in others.items())
        for others in (one["start"], two["weights"])
    )
    assert 0 < apart**0.5 < ROUNDING * learned**0.5


@pytest.mark.parametrize("name", ["erm", *FIRST_ORDER])
def test_sharded_models_train_as_replicated_ones(trained, name):
    assert trained[1]["sharded"][name] < CLOSE


@pytest.mark.parametrize("name", ["r3", "ibp_ex"])
def test_sharded_models_refuse_second_derivatives_and_bounds(trained, name):
    words = r"is sharded by FSDP. It frees the weights .* second derivative and bounds need"
    assert re.search(words, trained[1]["sharded"][name])


if __name__ == "__main__":
    work(Path(sys.argv[1]))
