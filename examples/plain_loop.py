"""A training loop of one's own: the objective is a function of a model and a batch.

Usage: ``python examples/plain_loop.py``
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rightreasons as rr


def make_images(num_images: int = 32) -> TensorDataset:
    """Images whose right half is brighter in class 1, with a corner that tells the class, too."""
    y = torch.arange(num_images) % 2
    x = 0.5 * torch.rand(num_images, 3, 16, 16)
    x[y == 1, :, :, 8:] += 0.2
    x[:, :, :4, :4] = y.reshape(-1, 1, 1, 1).float()
    mask = torch.zeros(num_images, 1, 16, 16)
    mask[:, :, :4, :4] = 1  # 1 where the model must not look
    return TensorDataset(x, y, mask)


def train(model: nn.Module, objective: rr.Objective, loader: DataLoader, lr: float = 0.1) -> None:
    """Train for one epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    for x, y, mask in loader:
        loss = objective(model, rr.Batch(x=x, y=y, mask=mask))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print({name: round(part.item(), 4) for name, part in loss.parts.items()})


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 2))
    train(net, rr.recipes.r3(weight=10.0), DataLoader(make_images(), batch_size=8, shuffle=True))
