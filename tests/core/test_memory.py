import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.core import memory
from rightreasons.core.memory import budget_of, pass_bytes, rows_within_budget
from rightreasons.objectives import CosineAlignment, L2Alignment, ScoreMatching, SmoothR3

CPU = torch.device("cpu")


def test_a_row_costs_what_its_graph_saves():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8192, 2))
    found = pass_bytes(net, torch.zeros(5, 3, 32, 32))
    image, maps = 4 * 3 * 32 * 32, 4 * 8 * 32 * 32
    assert found.largest == maps
    # The convolution keeps the image and ReLU its output, which the last layer shares. The input
    # itself is counted once more.
    assert found.graph == 2 * image + maps


def test_rows_are_a_power_of_two_within_the_budget(monkeypatch):
    net, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)), torch.zeros(4, 64)
    monkeypatch.setattr(memory, "_SMALL", 0)
    per_row = pass_bytes(net, x).needed("gradients") + 2 * x[0].nbytes
    monkeypatch.setattr(memory, "_free_memory", lambda: 4 * 100 * per_row)
    assert rows_within_budget(net, x, "gradients", ceiling=99) == 99
    assert rows_within_budget(net, x, "gradients", ceiling=500) == 64
    assert rows_within_budget(net, x, "second_order", ceiling=500) == 32
    assert rows_within_budget(net, x, "values", ceiling=500) == 128
    monkeypatch.setattr(memory, "_free_memory", lambda: 0)
    assert rows_within_budget(net, x, "values", ceiling=500) == 1


def test_measuring_takes_half_a_gibibyte_at_most_and_training_a_share_of_all(monkeypatch):
    monkeypatch.setattr(memory, "_free_memory", lambda: 2**40)
    monkeypatch.setattr(memory, "_total_memory", lambda: 2**36)
    assert budget_of(CPU) == 2**29
    assert budget_of(CPU, in_training=True) == 2**34


def test_a_container_limits_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "_container_limits", lambda: [(2**20, 2**19)])
    assert memory._free_memory() == 2**19
    assert memory._total_memory() == 2**20


def test_a_model_that_draws_or_fails_leaves_no_trace():
    class Draws(nn.Module):
        def forward(self, x):
            return x + torch.rand(1) if len(x) > 9 else x.no_such_name

    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    pass_bytes(Draws(), torch.zeros(1, 4))
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize(
    "term",
    [SmoothR3(num_samples=4), L2Alignment(), CosineAlignment(), ScoreMatching(num_samples=2)],
    ids=lambda term: term.name,
)
@pytest.mark.parametrize("frozen_statistics", [False, True])
def test_a_training_step_that_does_not_fit_has_the_same_gradients(
    monkeypatch, term, frozen_statistics
):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Softplus(), nn.Flatten(), nn.Linear(144, 3)
    ).double()
    mask = torch.zeros(7, 1, 8, 8, dtype=torch.double)
    mask[torch.arange(7), 0, torch.arange(7), 2] = 1  # every sample has a mask of its own
    batch = rr.Batch(x=torch.rand(7, 1, 8, 8).double(), y=torch.arange(7) % 3, mask=mask)
    objective = (rr.objectives.CrossEntropy() + 2.0 * term).with_settings(
        frozen_statistics=frozen_statistics
    )
    start = {name: value.clone() for name, value in net.state_dict().items()}
    found, rows = [], []
    hook = net.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    for budget in (2**40, 3 * 2 * pass_bytes(net, batch.x).needed("gradients")):
        net.load_state_dict(start)
        net.train().zero_grad()
        monkeypatch.setattr(memory, "_SMALL", 0)
        monkeypatch.setattr(memory, "_total_memory", lambda budget=budget: memory.SHARE * budget)
        torch.manual_seed(1)
        rows.clear()
        loss = objective(net, batch)
        loss.backward()
        found.append([loss.total.detach(), *(weight.grad.clone() for weight in net.parameters())])
    hook.remove()
    assert {2} <= set(rows) <= {1, 2, 7}
    torch.testing.assert_close(*found)
