"""Measure a model: every metric on one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, distributed, nn

from rightreasons.core.checks import check_integer
from rightreasons.core.model_modes import hold_model, innermost
from rightreasons.core.progress import track
from rightreasons.datasets import Dataset, as_dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import METRICS, Metric, suitable
from rightreasons.probe.embeddings import rows_for_batch
from rightreasons.probe.probe import Probe, move_to_model, strongest_need
from rightreasons.types import Batch

__all__ = ["evaluate", "evaluate_parts", "prepare_metrics"]

MOST_ROWS = 500


def evaluate(
    model: nn.Module,
    data: Dataset | Batch,
    metrics: Sequence[Metric | str] | None = None,
    *,
    batch_size: int | None = None,
    max_samples: int | None = None,
    max_rows: int | None = None,
    progress: bool = False,
) -> dict[str, float]:
    """Measure ``model`` on ``data`` in test mode; its mode is restored afterwards.

    Args:
        model: Gives logits ``(N, K)``; stays on its device.
        data: A data set or a batch.
        metrics: Metrics or their names; None is every cheap metric that suits the data.
        batch_size: Samples in a pass; the values do not depend on it. None takes as many as fit a
            memory budget, 500 at most.
        max_samples: Number of samples to measure, see `Metric.limit`; None leaves it to each
            metric, and by default a metric measures all.
        max_rows: Most rows in any pass, also one of altered copies; None fits a memory budget.
            That is a quarter of what is free, and 512 MiB at most on a processor. It changes
            values by rounding alone.
        progress: Whether to show a bar.

    Returns:
        Values by name: ``"accuracy"``, ``"group_accuracy/worst"``, ... In several processes each
        measures its share and all return the values of the whole.

    Example:
        >>> batch = Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
        >>> sorted(evaluate(nn.Linear(3, 2), batch, ["calibration_error"]))
        ['calibration_error']
    """
    data = as_dataset(data)
    if batch_size is not None:
        check_integer("batch_size", batch_size)
    chosen = prepare_metrics(metrics, data, max_samples)
    with hold_model(innermost(model)), _test_mode(model):
        passes = [
            (
                metrics,
                _share_of_rows(rows, batch_size or _most_rows(model, data, metrics, max_rows)),
            )
            for metrics, rows in _passes(chosen, len(data), data.lengths)
        ]
        batches = ((metrics, batch) for metrics, rows in passes for batch in data.batches(rows))
        num_batches = sum(len(rows) for _, rows in passes)
        for measured, batch in (
            track(batches, "Evaluating", total=num_batches) if progress else batches
        ):
            _measure(model, batch, measured, max_rows)
    return _flatten({metric.name: metric.compute() for metric in chosen})


def evaluate_parts(
    model: nn.Module,
    parts: Mapping[str, Dataset | None],
    metrics: Mapping[str, Sequence[Metric | str] | None],
    *,
    max_rows: int | None = None,
    progress: bool = False,
) -> dict[str, dict[str, float]]:
    """Measure parts of the data, validation data first: other parts may need its thresholds.

    Args:
        model: Gives logits ``(N, K)``.
        parts: Data by the name of the part; None is left out.
        metrics: Metrics of each part. Those that are objects are calibrated by the values on
            the part ``"validation"``, see `Metric.calibrate`.
        max_rows: Most rows in any pass, see `evaluate`.
        progress: Whether to show bars.
    """
    measured: dict[str, dict[str, float]] = {}
    for name in sorted(parts, key=lambda part: part != "validation"):
        data, chosen = parts[name], metrics[name]
        if data is None:
            continue
        for metric in chosen or ():
            if isinstance(metric, Metric) and name != "validation":
                prefix = f"{metric.name}/"
                values = {
                    key.removeprefix(prefix): value
                    for key, value in measured.get("validation", {}).items()
                    if key.startswith(prefix)
                }
                if values:
                    metric.calibrate(values)
        measured[name] = evaluate(model, data, chosen, max_rows=max_rows, progress=progress)
    return {name: measured[name] for name in parts if name in measured}


def prepare_metrics(
    metrics: Sequence[Metric | str] | None, data: Dataset, max_samples: int | None = None
) -> list[Metric]:
    """Create the metrics and prepare them, or raise if one cannot be measured on the data."""
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
    others = [metric.name for metric in chosen if not metric.takes_texts]
    if others and data.card.text is not None:
        known = [name for name, metric in METRICS.items() if metric.takes_texts]  # type: ignore[attr-defined]
        raise InvalidBatchError(
            f"Expected metrics that take texts, but got {', '.join(others)}, for pixels or "
            f"columns. Use some of {', '.join(known)}."
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
    """Update all these metrics by one pass; its graph is gone before those that need none."""
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
        if metric.needs_gradient:
            metric.update(probe)
    probe = probe.without_graph()
    with torch.no_grad():
        for metric in metrics:
            if not metric.needs_gradient:
                metric.update(probe)


def _passes(
    metrics: Sequence[Metric], size: int, lengths: Tensor | None = None
) -> list[tuple[list[Metric], Tensor]]:
    """Group metrics that share a pass, with the rows of their samples; short texts come first.

    They measure the same samples. Those that keep bounds, which take much memory, are apart.
    """
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
    groups: dict[tuple[int, bool], list[Metric]] = {}
    for metric in metrics:
        limit = min(metric.max_samples or size, size)
        groups.setdefault((limit, metric.work == "bounds"), []).append(metric)
    rows = {limit: order[:limit].sort().values for limit, _ in groups}
    if lengths is not None:
        rows = {limit: some[lengths[some].argsort(stable=True)] for limit, some in rows.items()}
    return [(group, rows[limit]) for (limit, _), group in groups.items()]


def _most_rows(
    model: nn.Module,
    data: Dataset,
    metrics: Sequence[Metric],
    max_rows: int | None,
) -> int:
    """The most samples of a pass that these metrics share."""
    if max_rows is not None:
        return min(MOST_ROWS, max_rows)
    lengths = data.lengths
    longest = torch.zeros(1).long() if lengths is None else lengths.argmax()[None]
    one = move_to_model(data.take(longest), model)
    kinds = {
        metric.work or ("gradients" if metric.needs_gradient else "values") for metric in metrics
    }
    return min(
        rows_for_batch(model, one, work, ceiling=min(MOST_ROWS, len(data)), in_training=False)
        for work in kinds
    )


def _share_of_rows(rows: Tensor, batch_size: int) -> list[Tensor]:
    if distributed.is_available() and distributed.is_initialized():
        rows = rows[distributed.get_rank() :: distributed.get_world_size()]
    return [part for part in torch.split(rows, batch_size) if len(part)]


def _flatten(values: dict[str, float | dict[str, float]]) -> dict[str, float]:
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
