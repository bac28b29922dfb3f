"""What a user can get wrong, and the words that answer it."""

import numpy as np
import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.run.config import Config
from rightreasons.run.run import train_run

X, Y = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 0, 1])


def nan_pixels():
    x = X.clone()
    x[2, 0, 0, 0] = torch.nan
    return rr.Batch(x=x, y=Y)


def too_many_classes():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    rr.recipes.erm()(model, rr.Batch(x=X, y=torch.tensor([0, 1, 2, 7])))


def run(tmp_path, out="run", **settings):
    config = {
        "data": "decoy_digits",
        "epochs": 1,
        "model": "mlp",
        "model_settings": {"hidden": [4]},
        **settings,
    }
    train_run(Config(**config), tmp_path / out)


def truncated(tmp_path):
    x = np.zeros((100, 28, 28), dtype=np.uint8)
    y = np.zeros(100, dtype=np.uint8)
    np.savez(tmp_path / "whole.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    content = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "mnist.npz").write_bytes(content[: len(content) // 2])
    rr.datasets.decoy_mnist(tmp_path)


def unwritable(tmp_path):
    (tmp_path / "file").write_text("")
    run(tmp_path, out="file/run")


def other_model(tmp_path):
    batch = rr.Batch(x=X, y=Y)
    for width in (4, 5):
        model = nn.Sequential(nn.Flatten(), nn.Linear(192, width), nn.Linear(width, 2))
        rr.fit(model, rr.recipes.erm(), batch, epochs=1, out=tmp_path, resume=True)


def static_graph(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
        wrapped = nn.parallel.DistributedDataParallel(model, static_graph=True)
        rr.recipes.r3()(wrapped, rr.Batch(x=X, y=Y, mask=torch.ones(4, 1, 8, 8)))
    finally:
        torch.distributed.destroy_process_group()


MISTAKES = {
    "mask of wrong shape": (
        lambda _: rr.Batch(x=X, y=Y, mask=torch.ones(4, 1, 7, 8)),
        r"Expected `mask` to have one entry a sample and to broadcast to `x`, \(4, 3, 8, 8\), but "
        r"got shape \(4, 1, 7, 8\)",
    ),
    "mask without channels": (
        lambda _: rr.Batch(x=X, y=Y, mask=torch.ones(4, 8, 8)),
        r"got shape \(4, 8, 8\). Use mask.unsqueeze\(1\) for one mask over all channels",
    ),
    "mask outside [0, 1]": (
        lambda _: rr.Batch(x=X, y=Y, mask=255 * torch.ones(4, 1, 8, 8)),
        r"Expected `mask` in \[0, 1\].*values from 255 to 255.*need mask / 255",
    ),
    "NaN pixels": (
        lambda _: nan_pixels(),
        "Expected finite `x`, but got NaN or infinity in 1 of 4 samples, first in sample 2",
    ),
    "negative labels": (
        lambda _: rr.Batch(x=X, y=Y - 1),
        "Expected `y` to hold classes from 0, but got -1",
    ),
    "labels out of range": (
        lambda _: too_many_classes(),
        "Expected labels from 0 to 1, for the 2 outputs of the model, but got 7",
    ),
    "unknown recipe": (
        lambda path: run(path, recipe="r33"),
        "Expected a recipe, but got 'r33'. Did you mean 'r3'",
    ),
    "unknown data": (
        lambda path: run(path, data="decoy_mnst"),
        "Expected a data set, but got 'decoy_mnst'. Did you mean 'decoy_mnist'",
    ),
    "unknown model": (
        lambda path: run(path, model="resnet19", model_settings={}),
        "Expected a model, but got 'resnet19'. Did you mean 'resnet18'",
    ),
    "no data directory": (
        lambda path: run(path, data="decoy_mnist"),
        "Expected a data directory for 'decoy_mnist', but got none. Pass `--data-dir DIR`",
    ),
    "missing data directory": (
        lambda path: run(path, data="decoy_mnist", data_dir=str(path / "nowhere")),
        "Expected MNIST in .*nowhere",
    ),
    "truncated npz": (truncated, "mnist.npz"),
    "unwritable output directory": (unwritable, "cannot be written .Not a directory.*--out"),
    "checkpoint of another model": (
        other_model,
        r"to hold the weights of this model, but it is of another one \(of another shape: "
        r"1.weight \(4, 192\) for \(5, 192\)",
    ),
    "static_graph=True": (
        static_graph,
        "Expected DistributedDataParallel without `static_graph=True`.*silently wrong. Remove",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_answer_says_what_was_expected_what_came_and_what_to_do(mistake, tmp_path):
    make, words = MISTAKES[mistake]
    with pytest.raises(rr.errors.RightReasonsError, match=words) as answer:
        make(tmp_path)
    assert str(answer.value).startswith("Expected ")
