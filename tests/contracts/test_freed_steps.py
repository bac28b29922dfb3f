"""Every recipe frees a step when it is over, without the garbage collector."""

import gc
import warnings

import pytest
import torch

import rightreasons as rr
from rightreasons.datasets import as_dataset
from rightreasons.models import Abstaining, attention_branch, create, with_softplus
from rightreasons.objectives.recipes import RECIPES

IMAGES = ("abn", "reff", "reff_l1", "reff_l2")


def model_and_data(name):
    channels, side = (3, 16) if name in IMAGES else (1, 8)
    data = rr.Batch(
        x=torch.rand(9, channels, side, side),
        y=torch.arange(9) % 3,
        mask=(torch.rand(9, 1, side, side) < 0.3).float(),
        group=torch.arange(9) % 2,
    )
    shape = {"classes": 3, "channels": channels, "size": (side, side)}
    if name == "abn":
        return attention_branch(classes=3), data
    if name == "selective_net":
        return create("selective_net", **shape), data
    if name == "deep_gamblers":
        return Abstaining(create("mlp", **{**shape, "classes": 4})), data
    model = create("small_cnn" if name in IMAGES else "mlp", **shape)
    return with_softplus(model, 3.0), data  # a Hessian is not zero


def train(model, objective, data, *, num_steps):
    for _ in range(num_steps):
        objective(model, data).backward()
        model.zero_grad()


def count_tensors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the collector knows objects that warn when looked at
        return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", RECIPES)
def test_no_tensor_outlives_its_step(name, no_collector, one_thread):
    model, data = model_and_data(name)
    objective = RECIPES.create(name)
    objective.prepare(as_dataset(data), num_passes=8)
    train(model, objective, data, num_steps=3)
    before = count_tensors()
    train(model, objective, data, num_steps=5)
    assert count_tensors() == before


def test_masked_features_work_after_their_probe_is_gone(tiny_net, tiny_batch):
    masked = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside").masked
    kept = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    assert masked.gradient("logit").shape == kept.masked.gradient("logit").shape
