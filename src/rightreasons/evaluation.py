"""Measure a model: every metric on one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, distributed, nn

from rightreasons.datasets import Dataset, as_dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import METRICS, Metric, suitable
from rightreasons.probe import Probe, placed, strongest
from rightreasons.setting import checked_number
from rightreasons.types import Batch

__all__ = ["evaluate", "prepared_metrics"]


def evaluate(
    model: nn.Module,
    data: Dataset | Batch,
    metrics: Sequence[Metric | str] | None = None,
    *,
    batch_size: int = 500,
    max_rows: int | None = None,
    progress: bool = False,
) -> dict[str, float]:
    """Measure ``model`` on ``data`` as it would be deployed: in test mode, which is undone after.

    Args:
        model: Gives logits ``(N, K)``; stays on the device it is on.
        data: A data set or a batch.
        metrics: Metrics or their names; None is every one for which the data have what it needs.
        batch_size: Samples a pass; the values do not depend on it.
        max_rows: The most rows a stacked pass of altered copies may have; None is no ceiling.
        progress: Show a bar.

    Returns:
        Values by name: ``"accuracy"``, ``"group_accuracy/worst"``, ... In several processes each
        measures its share and all return the values of the whole.

    Example:
        >>> batch = Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
        >>> sorted(evaluate(nn.Linear(3, 2), batch, ["calibration_error"]))
        ['calibration_error']
    """
    data = as_dataset(data)
    checked_number("batch_size", batch_size)
    chosen = prepared_metrics(metrics, data)
    needs_gradient = strongest(metric.needs_gradient for metric in chosen)
    layers = [layer for metric in chosen for layer in metric.layers]
    rows = _share_of_rows(len(data), batch_size)
    with _test_mode(model), nullcontext() if needs_gradient else torch.no_grad():
        batches = track(
            data.batches(rows),
            "Evaluating",
            len(rows),
            disable=not progress,
            console=Console(stderr=True),
        )
        for batch in batches:
            probe = Probe(
                model,
                placed(batch, model),
                needs_gradient=needs_gradient,
                create_graph=False,
                layers=layers,
                max_rows=max_rows,
            )
            for metric in chosen:
                metric.update(probe)
    return _flattened({metric.name: metric.compute() for metric in chosen})


def prepared_metrics(metrics: Sequence[Metric | str] | None, data: Dataset) -> list[Metric]:
    """Metrics ready for the first batch, or an error if one cannot be measured on the data."""
    chosen = [
        METRICS.create(metric) if isinstance(metric, str) else metric
        for metric in (suitable(data) if metrics is None else metrics)
    ]
    names = [metric.name for metric in chosen]
    if len(set(names)) < len(names):
        raise InvalidSettingError(
            f"Expected each metric once, but got {', '.join(names)}: their values would have the "
            "same names. Evaluate twice."
        )
    for metric in chosen:
        metric.reset()
        metric.prepare(data)
    return chosen


def _share_of_rows(size: int, batch_size: int) -> list[Tensor]:
    rows = torch.arange(size)
    if distributed.is_available() and distributed.is_initialized():
        rows = rows[distributed.get_rank() :: distributed.get_world_size()]
    return [part for part in torch.split(rows, batch_size) if len(part)]


def _flattened(values: dict[str, float | dict[str, float]]) -> dict[str, float]:
    flat = {}
    for name, value in values.items():
        for key, number in (value if isinstance(value, dict) else {"": value}).items():
            flat[f"{name}/{key}" if key else name] = number
    return flat


@contextmanager
def _test_mode(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
