"""A tiny task with a shortcut: a bright corner that tells the class of most samples."""

import torch
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory, Splits

CARD = Card(name="tiny", classes=("a", "b"), groups=("a", "a, corner", "b", "b, corner"))
FIT = {"epochs": 2, "batch_size": 16, "lr": 0.05, "accelerator": "cpu", "progress": False}


def part(size, *, share, seed):
    """Class b is brighter in the middle; ``share`` of class a have a bright corner."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % 2
    x = torch.rand(size, 1, 8, 8, generator=generator) / 2
    x[:, :, 3:6, 3:6] += 0.4 * y[:, None, None, None]
    has = torch.rand(size, generator=generator) < torch.where(y == 0, share, 1 - share)
    x[has, :, :2, :2] = 1.0
    mask = torch.zeros(size, 1, 8, 8)
    mask[:, :, :2, :2] = 1
    return InMemory(rr.Batch(x=x, y=y, mask=mask, group=2 * y + has), CARD)


def splits():
    return Splits(
        train=part(64, share=0.9, seed=0),
        val=part(32, share=0.9, seed=1),
        test=part(32, share=0.5, seed=2),
    )


def net():
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)
    )
