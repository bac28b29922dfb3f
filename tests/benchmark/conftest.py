"""A suite that runs in a second, and rows that need no running."""

import pytest

from rightreasons.benchmark import Budget, Measure, Method, Row, Suite, Variant
from rightreasons.benchmark.cell import row_address

BASE = {
    "data": "decoy_digits",
    "model": "mlp",
    "model_settings": {"hidden": [8]},
    "metrics": ["group_accuracy", "swap_accuracy"],
    "batch_size": 500,
}
RATES = ({"lr": 1e-3}, {"lr": 1e-2})


@pytest.fixture
def make_suite():
    def make(**changes):
        parts = {
            "name": "tiny",
            "title": "Tiny digits",
            "paper": "nobody2025nothing",
            "table": "Table 0",
            "base": BASE,
            "variants": (
                Variant(name="wrong", overrides={"data_settings": {"test_colours": "wrong"}}),
            ),
            "methods": (
                Method(name="ERM", grid=RATES),
                Method(name="oracle", overrides={"data_settings": {"oracle": True}}, grid=RATES),
            ),
            "measures": (
                Measure(key="group_accuracy/average", name="average", percent=True),
                Measure(key="group_accuracy/worst", name="worst", percent=True),
            ),
            "select_by": "swap_accuracy",
            "budgets": {"small": Budget(seeds=(0, 1), overrides={"epochs": 1})},
        }
        return Suite(**{**parts, **changes})

    return make


@pytest.fixture
def make_row():
    """A row of a cell as if it had run: given its validation value and its test values."""

    def make(cell, *, select=0.5, digest="d" * 64, failure="", version="0.1.0", **test):
        results = {
            "metrics": {"validation": {"swap_accuracy": select}, "test": test},
            "versions": {"rightreasons": version},
        }
        config = {
            "data": cell.config.data,
            "data_settings": cell.config.data_settings,
            "seed": cell.config.seed,
        }
        return Row(
            address=row_address(cell.config, digest),
            config=config,
            data_sha256=digest,
            finished="2025-01-01T00:00:00+00:00",
            results={} if failure else results,
            failure=failure,
        )

    return make


@pytest.fixture
def find_among():
    """Looks cells up among rows, by configuration alone."""

    def among(rows, *, digest="d" * 64):
        found = {row.address: row for row in rows}
        return lambda config: found.get(row_address(config, digest))

    return among
