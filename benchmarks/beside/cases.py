"""The nets, batches and recipes that `benchmarks/beside_others.py` measures."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn, optim

import rightreasons as rr
import timing
from beside.by_hand import Loss
from rightreasons.datasets.dataset import Dataset, TextCard, as_dataset

VOCABULARY, SUBSTITUTES = 30522, 145


@dataclass(frozen=True)
class Case:
    """A net with a batch, and the recipes whose steps are timed on it.

    Args:
        make: Makes the net.
        batch: The samples of a step.
        recipes: Names of recipes.
        settings: Settings of a recipe that differ from its defaults.
    """

    make: Callable[[], nn.Module]
    batch: rr.Batch
    recipes: tuple[str, ...]
    settings: dict[str, dict[str, Any]]

    def objective(self, name: str, **settings: Any) -> rr.Objective:
        """The objective of a recipe, which has seen the data."""
        made = rr.recipes.RECIPES.create(name, **{**self.settings.get(name, {}), **settings})
        made.prepare(data_of(self.batch), num_passes=1000)
        return made

    def step(self, name: str, **settings: Any) -> timing.Step:
        """A step of the library."""
        return timing.library_step(self.make(), self.batch, self.objective(name, **settings))

    def hand_step(self, loss: Loss) -> timing.Step:
        """A step of a loss that is written by hand."""
        model, batch = self.make(), self.batch
        optimizer = optim.Adam(model.parameters(), lr=1e-4)

        def step() -> None:
            total = loss(model, batch)
            optimizer.zero_grad()
            total.backward()
            optimizer.step()

        return step


def corner_images(
    size: int, shape: tuple[int, int, int], *, classes: int = 10, patch: int = 4
) -> rr.Batch:
    """Random images with a square mask in one of the four corners, and two groups."""
    x = torch.rand(size, *shape)
    mask: Tensor = torch.zeros(size, 1, *shape[1:])
    for number in range(size):
        rows = slice(0, patch) if number % 2 else slice(-patch, None)
        columns = slice(0, patch) if number // 2 % 2 else slice(-patch, None)
        mask[number, :, rows, columns] = 1
    y = torch.randint(classes, (size,))
    index = torch.arange(size)
    return rr.Batch(x=x, y=y, mask=mask, group=index % 2, index=index)


def texts(size: int, tokens: int) -> rr.Batch:
    """Random texts with three masked tokens each."""
    mask = torch.zeros(size, tokens)
    mask[:, 1:4] = 1
    return rr.Batch(
        x=torch.randint(1000, VOCABULARY, (size, tokens)),
        y=torch.randint(2, (size,)),
        mask=mask,
        index=torch.arange(size),
        inputs={"attention_mask": torch.ones(size, tokens, dtype=torch.long)},
    )


def data_of(batch: rr.Batch) -> Dataset:
    """The data of a batch; texts say which words may take the place of masked ones."""
    if batch.x.is_floating_point():
        return as_dataset(batch)
    listed = tuple(range(2000, 2000 + SUBSTITUTES))
    text = TextCard(VOCABULARY, mask_token=103, special=(0, 100, 101, 102, 103), substitutes=listed)
    return rr.datasets.InMemory(batch, rr.datasets.Card(text=text))


def net(name: str, **settings: Any) -> Callable[[], nn.Module]:
    return partial(rr.models.create, name, **settings)


def mlp(classes: int = 10, depth: int = 1) -> nn.Module:
    return rr.models.mlp(inputs=784, hidden=(512,) * depth, classes=classes)


def gambler() -> nn.Module:
    return rr.models.Abstaining(mlp(classes=11))


R4 = ("r3", "smooth_r3", "ibp_ex", "ibp_ex_r3", "rand_r4", "adv_r4", "cert_r4", "pgd_ex")
TASKS = ("counterexamples", "spectral_decoupling", "group_dro", "cvar_dro", "one_sided")
WHOLE = ("input_gradient", "density")
ALIGNMENT = ("l2_alignment", "alignment", "cure", "atex")
SLOW = ("iga", "ig_norm", "ig_sum")
CAMS = ("reff", "reff_l1", "reff_l2")
TOKENS = ("token_smooth_r3", "token_rand_r4", "token_adv_r4")
SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"weight": 10.0} for name in TOKENS},
    "deep_gamblers": {"warm_up": 0.0},
}
IMAGE: dict[str, Any] = {"classes": 10, "channels": 3, "size": (32, 32)}


def cases(*, scale: float = 1.0) -> dict[str, Case]:
    """Every net with its recipes; ``scale`` multiplies the sizes of batches."""

    def size(number: int) -> int:
        return max(2, round(scale * number))

    digits = corner_images(size(1000), (1, 28, 28))
    images = corner_images(size(64), (3, 32, 32))
    few, fewer = images[: size(16)], corner_images(size(8), (3, 96, 96), patch=12)
    lenet = net("lenet", **IMAGE)
    image_recipes = ("erm", "r3", "smooth_r3", "rand_r4", "adv_r4", "pgd_ex", "counterexamples")
    found: dict[str, tuple[Callable[[], nn.Module], rr.Batch, tuple[str, ...]]] = {
        "MLP": (mlp, digits, ("erm", *R4, *TASKS, *WHOLE, "group_dro_density", "score_matching")),
        "MLP, abstaining": (gambler, digits, ("deep_gamblers",)),
        "LeNet": (lenet, images, (*image_recipes, "at_fgsm", "at_pgd", *WHOLE, *ALIGNMENT)),
        "LeNet, few images": (lenet, images[: size(4)], SLOW),
        "LeNet, Softplus": (
            net("lenet", **IMAGE, activation="softplus"),
            images,
            ("r3", "density", "alignment", "hessian", "cure"),
        ),
        "ResNet-18": (net("resnet18", **IMAGE), few, ("erm", "r3", "density", *CAMS)),
        "EfficientNet-Lite0": (
            net("efficientnet_lite0", classes=10, channels=3, size=(96, 96)),
            fewer,
            ("erm", "r3", "density", "counterexamples"),
        ),
        "MiniLM": (
            partial(rr.models.transformer, vocabulary=VOCABULARY, classes=2),
            texts(size(8), 64),
            ("erm", "r3", *TOKENS, "counterexamples"),
        ),
    }
    text_settings = {**SETTINGS, "r3": {"weight": 10.0}}
    return {
        name: Case(make, batch, recipes, text_settings if name == "MiniLM" else SETTINGS)
        for name, (make, batch, recipes) in found.items()
    }
