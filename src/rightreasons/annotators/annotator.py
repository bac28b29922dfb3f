"""The pseudo-annotator: learns from a few annotated images to predict soft masks."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, final

import torch
from safetensors.torch import save
from torch import Tensor, optim
from typing_extensions import override

from rightreasons.annotators.augmentation import augment, check_degrees
from rightreasons.annotators.hand_masks import load_annotated, refuse_maskless
from rightreasons.annotators.losses import Pix2Pix, Segmentation
from rightreasons.annotators.networks import SMALLEST_SIDE, MaskNet, PatchDiscriminator, UNet
from rightreasons.annotators.quality import mask_uncertainty
from rightreasons.core.checks import (
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    positive_float,
)
from rightreasons.core.files import load_weights_into, save_weights, writable_folder, write_json
from rightreasons.core.rng import random_stream
from rightreasons.datasets import Dataset, InMemory, Selected
from rightreasons.datasets.dataset import TransformedDataset
from rightreasons.errors import (
    CheckpointMismatchError,
    InvalidBatchError,
    InvalidSettingError,
    RunNotFoundError,
)
from rightreasons.objectives import Term
from rightreasons.training.distributed import seeded
from rightreasons.training.fit import Fit, fit
from rightreasons.training.settings import DEFAULTS, LATER
from rightreasons.types import Batch

__all__ = ["OBJECTIVES", "PseudoAnnotator", "RotatingSubset", "resize_epoch"]


def resize_epoch(data: Dataset, *, num: int, seed: int = 0) -> Dataset:
    """Change the number of samples in an epoch: repeat few samples, or rotate through many.

    Args:
        data: At least one sample.
        num: Samples in each epoch.
        seed: Random seed for the order of samples, as for `RotatingSubset`.

    Example:
        >>> from rightreasons.datasets import InMemory
        >>> data = InMemory(Batch(x=torch.arange(3.0)[:, None], y=torch.zeros(3).long()))
        >>> resize_epoch(data, num=4).take(torch.arange(4)).x.flatten()
        tensor([0., 1., 2., 0.])
        >>> parts = [resize_epoch(data, num=2).at_epoch(epoch) for epoch in (0, 1)]
        >>> sorted({float(x) for part in parts for x in part.take(torch.arange(2)).x})
        [0.0, 1.0, 2.0]
    """
    if len(data) <= num:
        return Selected(data, torch.arange(num) % len(data))
    return RotatingSubset(data, num=num, seed=seed)


class RotatingSubset(TransformedDataset):
    """A part of the samples in each epoch: every epoch continues where the last one ended.

    Samples are in a random order, so that a short training sees all kinds of samples even if the
    data are sorted. Outside training, the data set is that of the first epoch.

    Args:
        data: All samples.
        num: Samples in each epoch, fewer than ``data`` has.
        seed: Random seed for the order of samples.
    """

    def __init__(self, data: Dataset, *, num: int, seed: int = 0) -> None:
        self.data = data
        self.num = num
        self._order = torch.from_numpy(random_stream(seed, "in turn").permutation(len(data)))
        super().__init__(self.at_epoch(0))

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        turn = (epoch * self.num + torch.arange(self.num)) % len(self.data)
        return Selected(self.data.at_epoch(epoch), self._order[turn])

    @override
    def digest(self) -> str:
        return Selected(self.data, self._order).digest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        del indices
        return batch


OBJECTIVES = ("segmentation", "pix2pix")
OPTIMIZATION: dict[str, dict[str, Any]] = {
    "segmentation": {"batch_size": 16, "lr": 2e-3, "scheduler": "cosine"},
    "pix2pix": {"batch_size": 4, "lr": 2e-4, "scheduler": "constant"},
}
BETAS = {"segmentation": (0.9, 0.999), "pix2pix": (0.5, 0.999)}
UPDATES_PER_EPOCH = 100
PREDICTED_TOGETHER = 64
FORMAT = 2
"""Version of the file that `save` writes. In version 1 the generator ended with a ReLU."""


@final
class PseudoAnnotator:
    """A U-Net that learns from a few annotated images, and predicts soft masks of all others.

    Each pixel of a predicted mask is the probability that the model must *not* look there. The
    paper's annotations have the other polarity.

    Differs from the paper: ``objective="segmentation"`` is the default. The paper has pix2pix
    with Adam at a rate of 2e-4 and betas (0.5, 0.999), batches of 4 images and 30,000 updates:
    ``objective="pix2pix", width=64, num_updates=30_000``. `UNet`, `PatchDiscriminator` and
    `Pix2Pix` name the remaining differences. The images are augmented.

    Args:
        objective: ``"segmentation"``: cross-entropy and Dice; ``"pix2pix"``: the adversarial game.
        width: Channels of generator and discriminator at the full resolution.
        depth: How often the generator halves the resolution.
        num_updates: Steps of the optimizer, for any number of annotations.
        batch_size: Images in each step; None is the objective's default, 16 or 4.
        lr: Adam's rate; None is the objective's default, 2e-3 (to 0 along a cosine) or 2e-4.
        l1_weight: Weight of pix2pix's L1 loss; 100 in pix2pix.
        flip: Mirror images left and right in half of the cases, and average the predictions of an
            image and its mirror image.
        shift: Largest shift of images, in pixels.
        degrees: Largest rotation of images, in degrees.
        paste: Fraction of the images that get the masked pixels of another image pasted into
            them. Use it if masks mark objects on an image, not the background.
        seed: Random seed for initial weights, order of samples and augmentation.

    Example:
        >>> from rightreasons.datasets import decoy_digits, mask_fraction
        >>> few = mask_fraction(decoy_digits(), fraction=0.02).train
        >>> annotator = PseudoAnnotator(width=4, depth=1, num_updates=3)
        >>> annotator.fit(few, progress=False).masks(few.batch.x[:2]).shape
        torch.Size([2, 1, 14, 14])

    References:
        adachi2022learning
    """

    def __init__(
        self,
        *,
        objective: Literal["segmentation", "pix2pix"] = "segmentation",
        width: int = 8,
        depth: int = 3,
        num_updates: int = 600,
        batch_size: int | None = None,
        lr: float | None = None,
        l1_weight: float = 100.0,
        flip: bool = False,
        shift: int = 2,
        degrees: float = 10.0,
        paste: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.objective = check_choice("objective", objective, OBJECTIVES)
        defaults = OPTIMIZATION[self.objective]
        self.settings: dict[str, Any] = {
            "objective": self.objective,
            "width": check_integer("width", width, low=2),
            "depth": check_integer("depth", depth, low=1, high=8),
            "num_updates": check_integer("num_updates", num_updates),
            "batch_size": check_integer(
                "batch_size", defaults["batch_size"] if batch_size is None else batch_size
            ),
            "lr": positive_float("lr", defaults["lr"] if lr is None else lr),
            "l1_weight": positive_float("l1_weight", l1_weight),
            "flip": check_flag("flip", flip),
            "shift": check_integer("shift", shift, low=0),
            "degrees": check_degrees(degrees),
            "paste": check_fraction("paste", paste, below_one=True),
            "seed": check_integer("seed", seed, low=0),
        }
        self._net: MaskNet | None = None

    def fit(
        self, data: Dataset, *, train: Callable[..., Fit] = fit, **settings: Any
    ) -> PseudoAnnotator:
        """Learn from the annotated samples of ``data``, and from these alone.

        Args:
            data: Images with masks.
            train: `fit`, or a strategy's function in its place.
            settings: Further settings of `fit`: ``out``, ``resume``, ``progress``, ``accelerator``.

        Returns:
            The annotator itself.
        """
        refuse_maskless(data)
        channels, *size = data.card.shape
        if self.objective == "pix2pix" and min(size) < SMALLEST_SIDE:
            raise InvalidSettingError(
                f"Expected images of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels for "
                f'objective="pix2pix", but got {size[0]} x {size[1]}. Use objective="segmentation".'
            )
        samples, values = InMemory(load_annotated(data)), self.settings
        epochs = math.ceil(values["num_updates"] / UPDATES_PER_EPOCH)
        updates = math.ceil(values["num_updates"] / epochs)
        seen = augment(
            resize_epoch(samples, num=updates * values["batch_size"], seed=values["seed"]),
            **{name: values[name] for name in ("flip", "shift", "degrees", "paste", "seed")},
        )
        net = self._build_net(channels)
        train(
            net,
            self._term(),
            seen,
            **{
                "validation": None,
                "select": "none",
                "clip": None,
                "accumulate": 1,
                "epochs": epochs,
                "batch_size": values["batch_size"],
                "lr": values["lr"],
                "optimizer": partial(optim.Adam, lr=values["lr"], betas=BETAS[self.objective]),
                "scheduler": OPTIMIZATION[self.objective]["scheduler"],
                **{name: getattr(DEFAULTS, name) for name in LATER},  # the classifier has its own
                "seed": values["seed"],
                **settings,
            },
        )
        self._net = net.eval()
        return self

    def masks(self, x: Tensor) -> Tensor:
        """Soft masks of images ``(N, C, H, W)``, ``(N, 1, H, W)`` in [0, 1], on the CPU."""
        generator = self._generator(x)
        return torch.cat(
            [self._predict(generator, part) for part in torch.split(x, PREDICTED_TOGETHER)]
        )

    def uncertainty(self, x: Tensor) -> Tensor:
        """Uncertainty of each image's mask, in bits per pixel, see `mask_uncertainty`."""
        return mask_uncertainty(self.masks(x))

    def features(self, x: Tensor) -> Tensor:
        """Features of each image in the generator, ``(N, F)``, see `UNet.features`."""
        generator = self._generator(x)
        weight = generator.last.weight
        with torch.no_grad():
            parts = [
                generator.features(part.to(weight)) for part in torch.split(x, PREDICTED_TOGETHER)
            ]
        return torch.cat(parts).float().cpu()

    def digest(self) -> str:
        """A SHA-256 over the settings and the weights."""
        net = self._fitted_net()
        state = {
            name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()
        }
        sha = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode())
        sha.update(save(state))
        return sha.hexdigest()

    def save(self, folder: str | Path) -> None:
        """Write ``annotator.json`` and ``model.safetensors``."""
        net, path = self._fitted_net(), writable_folder(folder)
        content = {
            "format": FORMAT,
            "settings": self.settings,
            "channels": net.generator.channels,
            "sha256": self.digest(),
        }
        write_json(path / "annotator.json", content)
        save_weights(path / "model.safetensors", net)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a pseudo-annotator that `save` wrote."""
        path = Path(folder) / "annotator.json"
        try:
            content = json.loads(path.read_text())
            if content["format"] != FORMAT:
                raise ValueError(f"its format is {content['format']}, not {FORMAT}; fit it anew")
            annotator = cls(**content["settings"])
            net = annotator._build_net(content["channels"])
        except OSError as error:
            raise RunNotFoundError(
                f"Expected a pseudo-annotator in {folder}, but it has no annotator.json."
            ) from error
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointMismatchError(
                f"Expected {path} as rightreasons wrote it, but cannot read it: {error}."
            ) from error
        load_weights_into(net, path.parent / "model.safetensors")
        annotator._net = net.eval()
        return annotator

    def _build_net(self, channels: int) -> MaskNet:
        width, depth = self.settings["width"], self.settings["depth"]
        with seeded(self.settings["seed"]):
            generator = UNet(channels=channels, width=width, depth=depth)
            if self.objective == "segmentation":
                return MaskNet(generator)
            return MaskNet(generator, PatchDiscriminator(channels=channels, width=width))

    def _term(self) -> Term:
        if self.objective == "segmentation":
            return Segmentation()
        return Pix2Pix(l1_weight=self.settings["l1_weight"])

    def _fitted_net(self) -> MaskNet:
        if self._net is None:
            raise InvalidSettingError(
                "Expected a pseudo-annotator that was fitted, but this one was not. Call "
                "`annotator.fit(data)` first."
            )
        return self._net

    def _generator(self, x: Tensor) -> UNet:
        generator = self._fitted_net().generator
        if x.ndim != 4 or x.shape[1] != generator.channels:
            raise InvalidBatchError(
                f"Expected images (N, {generator.channels}, H, W), as the pseudo-annotator was "
                f"fitted on, but got shape {tuple(x.shape)}."
            )
        return generator

    def _predict(self, generator: UNet, x: Tensor) -> Tensor:
        with torch.no_grad():
            moved = x.to(generator.last.weight)
            soft = torch.sigmoid(generator(moved))
            if self.settings["flip"]:
                soft = (soft + torch.sigmoid(generator(moved.flip(3))).flip(3)) / 2
        return soft.float().cpu()
