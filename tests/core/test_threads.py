"""Several threads may use one model, and train two models: nothing differs."""

import copy
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import rightreasons as rr
from rightreasons.explainers import GradCAM
from rightreasons.models import small_cnn

DATA = rr.Batch(x=torch.rand(60, 1, 12, 12), y=torch.arange(60) % 2, mask=torch.ones(60, 1, 12, 12))


def in_threads(function, arguments):
    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(function, arguments))


def nets():
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(144, 8), nn.Dropout(0.5), nn.Linear(8, 2)]
    return [(seed, copy.deepcopy(nn.Sequential(*layers))) for seed in range(3)]


def train(seed_and_model):
    seed, model = seed_and_model
    rr.fit(model, rr.recipes.smooth_r3(), DATA, epochs=4, batch_size=6, seed=seed)
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def test_fits_in_threads_are_those_of_a_process_each():
    alone = [train(pair) for pair in nets()]
    for one, other in zip(alone, in_threads(train, nets()), strict=True):
        assert torch.equal(one, other)


def test_a_model_evaluated_from_threads_keeps_its_mode():
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model[1].eval()
    modes = [module.training for module in model.modules()]
    metrics = ["accuracy", "input_gradient_mass"]

    def evaluate(_):
        return rr.evaluate(model, DATA, metrics, batch_size=2)

    alone = evaluate(0)
    for _ in range(5):
        assert in_threads(evaluate, range(3)) == [alone] * 3
        assert [module.training for module in model.modules()] == modes


def test_grad_cam_of_one_model_from_threads_is_that_of_one():
    model = small_cnn(classes=2, channels=1)
    x, y = torch.rand(4, 1, 28, 28), torch.tensor([0, 1, 0, 1])

    def explain(_):
        return GradCAM()(model, x, y)

    alone = explain(0)
    for _ in range(10):
        for heat in in_threads(explain, range(3)):
            assert torch.equal(heat, alone)
    assert all(module.training for module in model.modules())
