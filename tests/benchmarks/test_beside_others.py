"""The losses by hand are those of the recipes, so that their times may be compared."""

import copy
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
EXACT = {
    "MLP": (
        *("erm", "r3", "ibp_ex", "ibp_ex_r3", "cert_r4", "spectral_decoupling", "group_dro"),
        *("cvar_dro", "one_sided", "input_gradient", "density", "group_dro_density"),
    ),
    "MLP, abstaining": ("deep_gamblers",),
    "LeNet": ("r3", "density", "cure"),
}
"""Recipes without draws; weights of alignment and the like are rounded by hand."""


@pytest.fixture
def beside(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import beside.by_hand
    import beside.cases
    import beside.public_way

    return beside


@pytest.mark.parametrize(("net", "recipe"), [(net, one) for net in EXACT for one in EXACT[net]])
def test_a_formula_by_hand_equals_its_recipe(beside, net, recipe):
    torch.manual_seed(0)
    case = beside.cases.cases(scale=0.05)[net]
    model, objective = case.make(), case.objective(recipe)
    totals = [
        objective(copy.deepcopy(model), case.batch).total,
        beside.by_hand.BY_HAND[recipe](copy.deepcopy(model), case.batch),
    ]
    assert float(totals[0].detach()) == pytest.approx(float(totals[1].detach()), rel=1e-5)


@pytest.mark.parametrize("recipe", ["r3", "smooth_r3", "rand_r4", "adv_r4", "ibp_ex", "cert_r4"])
def test_the_public_way_gives_a_loss(beside, recipe):
    torch.manual_seed(0)
    case = beside.cases.cases(scale=0.01)["MLP"]
    loss = beside.public_way.PUBLIC[recipe](case.make(), case.batch)
    assert bool(loss.isfinite())


def test_rounds_take_turns_and_the_first_does_not_count(beside):
    from beside import measure

    calls = []
    steps = {name: (lambda name=name: calls.append(name)) for name in ("one", "two")}
    times = measure.take_turns(steps, seconds=0.0, fewest=3)
    assert calls == ["one", "two"] * 4
    assert [len(found) for found in times.values()] == [3, 3]
