"""Send the numbers of `rr.fit` elsewhere: ``log`` is called as ``log(numbers, step=epoch)``.

Weights & Biases and MLflow have such functions: ``log=wandb.log``, ``log=mlflow.log_metrics``. The
one below writes for TensorBoard, into a folder of your choice.
Usage: ``python examples/log_training.py``, which needs ``pip install tensorboard``.
"""

import tempfile

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import rightreasons as rr


def train(writer: SummaryWriter) -> rr.Fit:
    """Train on handwritten digits, and write every number of every epoch."""

    def log(numbers: dict[str, float], step: int) -> None:
        for name, number in numbers.items():
            writer.add_scalar(name, number, step)

    torch.manual_seed(0)
    data = rr.datasets.decoy_digits(seed=0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(196, 32), nn.ReLU(), nn.Linear(32, 10))
    return rr.fit(model, rr.recipes.r3(), data.train, validation=data.val, epochs=10, log=log)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        print(train(writer).history[-1]["validation"])
