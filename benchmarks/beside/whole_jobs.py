"""Evaluation, certification and audit: seconds for 1,000 samples, beside loops by hand."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

import rightreasons as rr
from beside import measure
from beside.cases import IMAGE, corner_images

METRICS = ("accuracy", "group_accuracy", "input_gradient_mass", "swap_accuracy", "insertion")
SAMPLES = 1000


def measure_jobs(few: int = 20) -> dict[str, Any]:
    """Seconds of the process for 1,000 samples; loops over single samples do ``few`` of them."""
    torch.manual_seed(0)
    lenet, mlp = rr.models.create("lenet", **IMAGE).eval(), trained_mlp()
    images, digits = corner_images(SAMPLES, (3, 32, 32)), corner_images(SAMPLES, (1, 28, 28))
    result: dict[str, Any] = {
        "forward pass, LeNet": forward_seconds(lenet, images),
        "forward pass, MLP": forward_seconds(mlp, digits),
    }
    for name in METRICS:
        job = partial(rr.evaluate, lenet, metrics=[name])
        result[f"evaluate {name}, LeNet"] = {"seconds": seconds_for(job, images, few)}
    for label, model, batch, method in (
        ("certify full range, ibp, MLP", mlp, digits, "ibp"),
        ("certify full range, crown, MLP", mlp, digits, "crown"),
        ("certify full range, ibp, LeNet", lenet, images[:200], "ibp"),
    ):
        result[label] = certify_beside_loop(model, batch, method, few)
    result["audit, MLP"] = {"seconds": round(audit_seconds(), 3)}
    return result


def trained_mlp() -> nn.Module:
    """A net that was trained a little, so that some samples are proved and some are not."""
    torch.manual_seed(0)
    model = rr.models.mlp(inputs=784, hidden=(128,), classes=10)
    batch = corner_images(1000, (1, 28, 28))
    rr.fit(model, rr.recipes.ibp_ex(), batch, epochs=3, batch_size=100, progress=False)
    return model.eval()


def forward_seconds(model: nn.Module, batch: rr.Batch) -> dict[str, float]:
    with torch.no_grad():
        return {"seconds": round(measure.least(lambda: model(batch.x)), 4)}


def seconds_for(job: Callable[[rr.Batch], object], batch: rr.Batch, few: int) -> float:
    """Seconds for 1,000 samples, after a call that warms up."""
    job(batch[:few])
    taken = measure.clocked(lambda: job(batch))
    return round(taken * SAMPLES / len(batch), 3)


def certify_beside_loop(
    model: nn.Module, batch: rr.Batch, method: str, few: int
) -> dict[str, float]:
    settings: dict[str, Any] = {"epsilon": None, "valid_range": (0.0, 1.0), "method": method}

    def job(some: rr.Batch) -> object:
        return rr.certify(model, some, **settings)

    def loop() -> None:
        for number in range(few):
            job(batch[number : number + 1])

    together = seconds_for(job, batch, few)
    alone = measure.clocked(loop) * SAMPLES / few
    return {
        "seconds": together,
        "sample by sample": round(alone, 2),
        "times faster": round(alone / together, 1),
    }


def audit_seconds() -> float:
    data = rr.datasets.decoy_digits(seed=0)
    torch.manual_seed(0)
    model = rr.models.mlp(inputs=196, hidden=(32,), classes=10)
    rr.fit(model, rr.recipes.erm(), data.train, epochs=5, batch_size=50, lr=5e-3, progress=False)
    began = time.process_time()
    rr.audit(model, data, max_samples=SAMPLES, progress=False)
    return time.process_time() - began
