"""A `LightningModule` that trains on an objective: `Loss.as_dict` is what Lightning takes.

Usage: ``python examples/lightning_module.py``, which needs ``pip install lightning``.
"""

from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import rightreasons as rr


class Classifier(lightning.LightningModule):
    """A model and its objective, whose state is then in Lightning's checkpoints, too."""

    def __init__(self, model: nn.Module, objective: rr.Objective, lr: float = 0.1) -> None:
        super().__init__()
        self.model, self.objective, self.lr = model, objective, lr

    def on_train_epoch_start(self) -> None:
        """Tell the objective the epoch, for draws that change with it."""
        self.objective.begin_epoch(self.current_epoch)

    def training_step(self, batch: tuple[Tensor, ...], number: int) -> dict[str, Any]:
        """The loss, with its parts."""
        x, y, mask = batch
        loss = self.objective(self.model, rr.Batch(x=x, y=y, mask=mask)).as_dict()
        self.log_dict(loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, ...], number: int) -> None:
        """The parts of the loss on validation data."""
        x, y, mask = batch
        loss = self.objective(self.model, rr.Batch(x=x, y=y, mask=mask)).as_dict()
        self.log_dict({f"validation/{name}": value for name, value in loss.items()})

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Gradient descent on the model's parameters."""
        return torch.optim.SGD(self.model.parameters(), lr=self.lr)


def make_images(num_images: int = 32) -> TensorDataset:
    """Images whose right half is brighter in class 1, with a corner that tells the class, too."""
    y = torch.arange(num_images) % 2
    x = 0.5 * torch.rand(num_images, 3, 16, 16)
    x[y == 1, :, :, 8:] += 0.2
    x[:, :, :4, :4] = y.reshape(-1, 1, 1, 1).float()
    mask = torch.zeros(num_images, 1, 16, 16)
    mask[:, :, :4, :4] = 1  # 1 where the model must not look
    return TensorDataset(x, y, mask)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 2))
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(
        Classifier(net, rr.recipes.r3(weight=10.0)),
        DataLoader(make_images(), batch_size=8, shuffle=True),
        DataLoader(make_images(), batch_size=8),
    )
    print({name: round(float(value), 4) for name, value in trainer.callback_metrics.items()})
