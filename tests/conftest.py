"""What tests share: a fixed seed, small nets and small batches in double precision."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.run import Config, train_run

DATA_DIR = Path(os.environ.get("RIGHTREASONS_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_collectstart(collector):
    """Seed before each file, so that tensors drawn at its top do not depend on the files before."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def one_thread():
    """Tiny nets are several times slower on threads that wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def mnist_dir() -> Path:
    if not (DATA_DIR / "mnist.npz").exists():
        pytest.skip(f"no mnist.npz in {DATA_DIR}: set RIGHTREASONS_DATA to a folder that has it")
    return DATA_DIR


def tiny_mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(32, 7), nn.Tanh(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3)
    ).double()


def tiny_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.Softplus(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    ).double()


NETS = {"mlp": tiny_mlp, "cnn": tiny_cnn}


@pytest.fixture(params=NETS)
def tiny_net(request) -> nn.Module:
    """A net for inputs (N, 2, 4, 4) and three classes, in train mode."""
    return NETS[request.param]()


@pytest.fixture
def tiny_batch() -> rr.Batch:
    """Six samples, masks of half the pixels over both channels, three groups."""
    return rr.Batch(
        x=torch.rand(6, 2, 4, 4, dtype=torch.float64),
        y=torch.tensor([0, 1, 2, 0, 1, 2]),
        mask=(torch.rand(6, 1, 4, 4, dtype=torch.float64) < 0.5).double(),
        group=torch.tensor([0, 0, 1, 1, 2, 2]),
    )


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory) -> Path:
    """The folder of a small finished run, trained once; tests may add files, not change any."""
    folder = tmp_path_factory.mktemp("run") / "digits"
    config = Config(
        data="decoy_digits", recipe="r3", model="mlp", model_settings={"hidden": [8]}, epochs=1
    )
    train_run(config, folder, progress=False)
    return folder


class DifferentiableOnce(torch.autograd.Function):
    """Twice its input, with no second derivative."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return 2 * gradient


@pytest.fixture
def process_group(tmp_path):
    """A group of this process alone, as DDP needs it."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()
