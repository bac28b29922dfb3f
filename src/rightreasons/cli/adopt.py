"""The command that takes a model as it is."""

from __future__ import annotations

from typing import Annotated

import typer

from rightreasons.cli.options import (
    AsJson,
    DataDir,
    Groups,
    MaskPolarity,
    Mean,
    Metrics,
    ModelName,
    Out,
    SetData,
    SetModel,
    Std,
    Weights,
    print_result,
    read_data_settings,
    read_model_settings,
    split_names,
)
from rightreasons.run.adopt import adopt_run
from rightreasons.run.config import AS_IT_IS, Config

__all__ = ["adopt"]


def adopt(
    out: Out,
    data: Annotated[str, typer.Option(help="Name of the data set.")],
    model: ModelName,
    data_dir: DataDir = None,
    set_data: SetData = None,
    mask_polarity: MaskPolarity = None,
    groups: Groups = None,
    set_model: SetModel = None,
    weights: Weights = None,
    mean: Mean = None,
    std: Std = None,
    metrics: Metrics = None,
    seed: Annotated[int, typer.Option(help="Random seed for the data.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a model of your own as it is; evaluate, explain, certify and report then take it."""
    config = Config(
        data=data,
        data_dir=data_dir,
        data_settings=read_data_settings(set_data, mask_polarity, groups),
        recipe=AS_IT_IS,
        model=model,
        model_settings=read_model_settings(set_model, mean, std),
        weights=weights,
        metrics=split_names(metrics),
        seed=seed,
    )
    results = adopt_run(config, out, progress=not as_json)
    rows = [[name, f"{value:.4f}"] for name, value in results["metrics"]["test"].items()]
    print_result(results, [(["metric", "test"], rows)], as_json)
    typer.echo(results["diagnosis"]["message"], err=True)
