"""A demonstration in under a minute: a model that uses a shortcut, and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from rightreasons.report import write_report
from rightreasons.run.config import Config
from rightreasons.run.run import train_run

__all__ = ["demo"]

RUNS = {
    recipe: Config(
        data="decoy_digits",
        recipe=recipe,
        model="mlp",
        model_settings={"hidden": [512]},
        epochs=60,
        batch_size=50,
        lr=2e-3,
        accelerator="cpu",
    )
    for recipe in ("erm", "r3")
}


def demo(out: str | Path, *, progress: bool | None = None) -> list[dict[str, Any]]:
    """Train ``erm`` and ``r3`` on digits with a patch that reveals the class, and write a report.

    Args:
        out: Folder for the two runs and ``report.html``. Finished runs are not repeated.
        progress: Whether to show live lines; None does so on a terminal.

    Returns:
        The results of both runs.
    """
    folder = Path(out)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads slow so small a net down on a busy machine
    try:
        results = [
            train_run(config, folder / name, resume=True, progress=progress)
            for name, config in RUNS.items()
        ]
    finally:
        torch.set_num_threads(threads)
    write_report([folder / name for name in RUNS], folder / "report.html")
    return results
