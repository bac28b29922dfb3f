"""Measure a model: every metric on one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, distributed, nn

from rightreasons.core.checks import check_integer
from rightreasons.core.progress import track
from rightreasons.datasets import Dataset, as_dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import METRICS, Metric, suitable
from rightreasons.probe.probe import Probe, move_to_model, strongest_need
from rightreasons.types import Batch

__all__ = ["evaluate", "evaluate_parts", "prepared_metrics"]


def evaluate(
    model: nn.Module,
    data: Dataset | Batch,
    metrics: Sequence[Metric | str] | None = None,
    *,
    batch_size: int = 500,
    max_samples: int | None = None,
    max_rows: int | None = None,
    progress: bool = False,
) -> dict[str, float]:
    """Measure ``model`` on ``data`` as it would be deployed: in test mode, which is undone after.

    Args:
        model: Gives logits ``(N, K)``; stays on the device it is on.
        data: A data set or a batch.
        metrics: Metrics or their names; None is every one for which the data have what it needs.
        batch_size: Samples a pass; the values do not depend on it.
        max_samples: Measure so many samples only, see `Metric.limit`; None leaves it to each
            metric, and of itself none leaves any out.
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
    check_integer("batch_size", batch_size)
    chosen = prepared_metrics(metrics, data, max_samples)
    passes = _passes(chosen, len(data), batch_size)
    with _test_mode(model):
        batches = ((metrics, batch) for metrics, rows in passes for batch in data.batches(rows))
        num_batches = sum(len(rows) for _, rows in passes)
        for measured, batch in (
            track(batches, "Evaluating", total=num_batches) if progress else batches
        ):
            _measure(model, batch, measured, max_rows)
    return _flattened({metric.name: metric.compute() for metric in chosen})


def evaluate_parts(
    model: nn.Module,
    parts: Mapping[str, Dataset | None],
    metrics: Mapping[str, Sequence[Metric | str] | None],
    *,
    max_rows: int | None = None,
    progress: bool = False,
) -> dict[str, dict[str, float]]:
    """Measure parts of the data, validation data first: metrics may take thresholds from there.

    Args:
        model: See `evaluate`.
        parts: By name; ``"validation"`` is told apart, what is None is left out.
        metrics: Of each part, see `evaluate`. Those of other parts that are objects are
            calibrated, see `Metric.calibrate`.
        max_rows: See `evaluate`.
        progress: See `evaluate`.
    """
    found: dict[str, dict[str, float]] = {}
    for name in sorted(parts, key=lambda part: part != "validation"):
        data, chosen = parts[name], metrics[name]
        if data is None:
            continue
        for metric in chosen or ():
            if isinstance(metric, Metric) and found.get("validation") and name != "validation":
                start = f"{metric.name}/"
                own = {
                    key.removeprefix(start): value
                    for key, value in found["validation"].items()
                    if key.startswith(start)
                }
                if own:
                    metric.calibrate(own)
        found[name] = evaluate(model, data, chosen, max_rows=max_rows, progress=progress)
    return {name: found[name] for name in parts if name in found}


def prepared_metrics(
    metrics: Sequence[Metric | str] | None, data: Dataset, max_samples: int | None = None
) -> list[Metric]:
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
        if max_samples is not None:
            metric.limit(max_samples)
        metric.prepare(data)
    return chosen


def _measure(
    model: nn.Module, batch: Batch, metrics: Sequence[Metric], max_rows: int | None
) -> None:
    """One pass that serves all these metrics."""
    needs_gradient = strongest_need(metric.needs_gradient for metric in metrics)
    with nullcontext() if needs_gradient else torch.no_grad():
        probe = Probe(
            model,
            move_to_model(batch, model),
            needs_gradient=needs_gradient,
            create_graph=False,
            layers=[layer for metric in metrics for layer in metric.layers],
            max_rows=max_rows,
        )
        for metric in metrics:
            metric.update(probe)


def _passes(
    metrics: Sequence[Metric], size: int, batch_size: int
) -> list[tuple[list[Metric], list[Tensor]]]:
    """Metrics that measure the same samples, and the rows of these, batch by batch."""
    limits = [min(metric.max_samples or size, size) for metric in metrics]
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
    return [
        (
            [metric for metric, own in zip(metrics, limits, strict=True) if own == limit],
            _share_of_rows(order[:limit].sort().values, batch_size),
        )
        for limit in dict.fromkeys(limits)
    ]


def _share_of_rows(rows: Tensor, batch_size: int) -> list[Tensor]:
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
