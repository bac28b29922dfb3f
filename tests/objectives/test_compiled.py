"""Compiled steps give the numbers of eager ones, or run eagerly and say why."""

import copy
import logging
import re

import pytest
import torch
from torch import nn, optim

import rightreasons as rr
from rightreasons.objectives import (
    R3,
    CosineAlignment,
    CounterExamples,
    CrossEntropy,
    Density,
    InputGradient,
    L2Alignment,
    Term,
    WeightDecay,
)
from rightreasons.objectives.compiled import CompiledPasses, TracedProbe

EAGER_KERNELS = "aot_eager"  # the graphs of the compiler with PyTorch's own kernels


def plain_cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def normalised_cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.Softplus(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(64, 3),
    )


def everything():
    """All terms that compile, with settings that are not the defaults."""
    return (
        CrossEntropy(class_weights=[1.0, 2.0, 0.5], label_smoothing=0.1)
        + 3.0 * R3(target="margin", norm="l2")
        + 2.0 * R3(target="log_probabilities")
        + 0.1 * Density(p=3.0)
        + 0.2 * InputGradient()
        + 0.3 * L2Alignment(epsilon=0.1)
        + 0.4 * CosineAlignment(perturbation="sign", detach_source=False)
        + 1e-3 * WeightDecay()
    )


CASES = {
    "everything": (everything, plain_cnn, False),
    "everything, frozen": (everything, normalised_cnn, True),
    "alignment, current statistics": (rr.recipes.alignment, normalised_cnn, False),
    "alignment, frozen": (rr.recipes.alignment, normalised_cnn, True),
    "an automatic weight": (lambda: rr.recipes.r3(weight="auto"), plain_cnn, False),
    "no penalty": (rr.recipes.erm, normalised_cnn, False),
}


def trained(objective, model, batch, *, steps=3):
    """Parts of the last loss, with the state of the model and the next random number."""
    model, objective = copy.deepcopy(model), copy.deepcopy(objective)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(0)
    for _ in range(steps):
        loss = objective(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    parts = {name: part.detach() for name, part in loss.parts.items()}
    return parts, loss.logits, loss.weights, dict(model.state_dict()), torch.rand(1), objective


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiled_steps_equal_eager_ones(name, tiny_batch):
    make_objective, make_model, frozen = CASES[name]
    objective = make_objective().with_settings(frozen_statistics=frozen)
    tiny_batch.mask[0] = 0
    model = make_model().double()
    expected = trained(objective, model, tiny_batch)
    objective.compiled = CompiledPasses(num_rows=6, backend=EAGER_KERNELS)
    found = trained(objective, model, tiny_batch)
    assert found[-1].compiled.refusal is None
    for one, other in zip(found[:-1], expected[:-1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


class Doubled(Term):
    compiles = True

    def forward(self, probe):
        return probe.logits[:, 0] * (2 if isinstance(probe, TracedProbe) else 1)


class Branching(nn.Module):
    """Decides by its input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 3)

    def forward(self, x):
        x = x.flatten(1)
        return self.layer(x if x.sum() > 0 else -x)


ONE_LAYER = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
REFUSED = {
    "a term": (CrossEntropy() + CounterExamples(), ONE_LAYER, "`counter_examples` cannot be"),
    "another form": (CrossEntropy() + Density(form="stable"), ONE_LAYER, "`density` cannot be"),
    "a controlled weight": (CrossEntropy() + "controlled" * R3(), ONE_LAYER, "a controlled weight"),
    "BatchNorm": (CrossEntropy() + R3(), normalised_cnn(), r"set frozen_statistics \(--frozen-"),
    "two modes": (
        CrossEntropy() + R3() + L2Alignment(),
        nn.Sequential(nn.Dropout(0.1), *ONE_LAYER),
        r"at test time and others do not; set frozen_statistics",
    ),
    "several processes": (CrossEntropy() + R3(), nn.DataParallel(ONE_LAYER), "several processes"),
    "max_rows": (
        (CrossEntropy() + L2Alignment()).with_settings(max_rows=2),
        ONE_LAYER,
        "`max_rows` cuts the passes",
    ),
    "a branch": (CrossEntropy() + R3(), Branching(), r"PyTorch cannot compile this \(\w+: "),
    "other numbers": (CrossEntropy() + Doubled(), ONE_LAYER, "the value of `doubled` was off by"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compiled_runs_eagerly_and_says_why(name, tiny_batch, caplog):
    objective, model, words = REFUSED[name]
    objective, model = copy.deepcopy(objective), copy.deepcopy(model).double()
    expected = trained(objective, model, tiny_batch)
    objective.compiled = CompiledPasses(num_rows=6, backend=EAGER_KERNELS)
    found = trained(objective, model, tiny_batch)
    for one, other in zip(found[:-1], expected[:-1], strict=True):
        torch.testing.assert_close(one, other)
    warnings = [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert len(warnings) == 1  # and not one a step
    assert warnings[0].startswith("Steps are not compiled, they run eagerly: ")
    assert re.search(words, warnings[0])


def test_texts_run_eagerly():
    batch = rr.Batch(x=torch.randint(5, (4, 3)), y=torch.tensor([0, 1, 0, 1]))
    net = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 2))
    objective = CrossEntropy() + InputGradient()
    objective.compiled = CompiledPasses(num_rows=4)
    objective(net, batch)
    assert "not texts" in objective.compiled.refusal


def test_batches_of_another_size_and_bad_labels_run_eagerly(tiny_batch):
    compiled = []

    def backend(graph, inputs):
        compiled.append(len(inputs))
        return graph.forward

    objective = CrossEntropy() + L2Alignment()
    objective.compiled = CompiledPasses(num_rows=6, backend=backend)
    model = copy.deepcopy(ONE_LAYER).double()
    objective(model, tiny_batch[:4]).backward()
    assert not compiled
    for rows in (6, 4, 6):
        objective(model, tiny_batch[:rows]).backward()
    assert len(compiled) == 1
    bad = tiny_batch.with_(y=tiny_batch.y + 1)
    with pytest.raises(rr.errors.InvalidBatchError, match="Expected labels from 0 to 2"):
        objective(model, bad)
    assert len(compiled) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inside of the compiler
def test_fit_compiles(caplog):
    """A ReLU before a max pooling: PyTorch 2.13 orders these kernels wrongly by default."""
    torch.manual_seed(0)
    x, y = torch.rand(20, 3, 16, 16), torch.arange(20) % 3
    data = rr.Batch(x=x, y=y)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 64, 3),
    )
    settings = {"epochs": 2, "batch_size": 8, "accelerator": "cpu"}
    expected = rr.fit(copy.deepcopy(net), rr.recipes.density(), data, **settings)
    with caplog.at_level(logging.INFO, logger="rightreasons"):
        found = rr.fit(net, rr.recipes.density(), data, compile=True, **settings)
    assert "The step was compiled" in caplog.text
    assert "not compiled" not in caplog.text
    for row, other in zip(found.history, expected.history, strict=True):
        for name in ("parts", "pulls"):
            assert row[name] == pytest.approx(other[name], rel=1e-4)
