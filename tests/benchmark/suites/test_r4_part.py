import pytest

from rightreasons.benchmark.suites import r4


@pytest.mark.parametrize("grids", [r4.MNIST_GRIDS, r4.DERM_GRIDS])
def test_every_method_has_as_many_distinct_candidates(grids):
    assert list(grids) == list(r4.METHODS)
    assert len({len(grid) for grid in grids.values()}) == 1
    for grid in grids.values():
        assert all(grid.count(candidate) == 1 for candidate in grid)


def test_methods_by_name():
    assert [method.name for method in r4.methods("R3", "oracle")] == ["R3", "oracle"]
    assert [method.name for method in r4.methods()] == list(r4.METHODS)
    assert r4.methods("R3")[0].grid == r4.MNIST_GRIDS["R3"]


def test_weights_are_scaled_and_nothing_else():
    scaled = r4.scaled(r4.MNIST_GRIDS, 0.2, ["Cert-R4"])
    assert list(scaled) == ["Cert-R4"]
    for new, old in zip(scaled["Cert-R4"], r4.MNIST_GRIDS["Cert-R4"], strict=True):
        assert new["settings"]["weight"] == pytest.approx(5 * old["settings"]["weight"])
        assert new["settings"].keys() == old["settings"].keys()


def test_data_are_reduced_beside_their_own_settings():
    assert r4.reduced(r4.FAINT, mask_fraction=0.2)["data_settings"] == {
        "colours": "faint",
        "mask_fraction": 0.2,
    }
    assert r4.FAINT["data_settings"] == {"colours": "faint"}


def test_budgets_know_the_variants_on_derm():
    budgets = r4.budgets(derm=["a"])
    assert set(budgets) == {"small", "paper"}
    assert all(set(budget.variants) == {"a"} for budget in budgets.values())
    assert r4.budgets(seeds=(5,))["small"].seeds == (5,)
