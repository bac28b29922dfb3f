"""Every recipe frees a step when it is over, without the garbage collector."""

import gc
import importlib
import warnings
from pathlib import Path

import pytest
import torch

import rightreasons as rr
from rightreasons.objectives.recipes import RECIPES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def step_memory(monkeypatch):
    """What `benchmarks/step_memory.py` trains for longer."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("step_memory")


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
def test_no_tensor_outlives_its_step(name, step_memory, no_collector, one_thread):
    model, data = step_memory.model_and_batch(name)
    objective = RECIPES.create(name)
    objective.prepare(step_memory.data_of(data), num_passes=8)
    train(model, objective, data, num_steps=3)
    before = count_tensors()
    train(model, objective, data, num_steps=5)
    assert count_tensors() == before


def test_masked_features_work_after_their_probe_is_gone(tiny_net, tiny_batch):
    masked = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside").masked
    kept = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    assert masked.gradient("logit").shape == kept.masked.gradient("logit").shape
