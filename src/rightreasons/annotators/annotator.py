"""The pseudo-annotator: from a handful of annotated images to a soft mask of any."""

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

from rightreasons.annotators.augmentation import augmented, checked_degrees
from rightreasons.annotators.by_hand import annotated_samples, refuse_maskless
from rightreasons.annotators.in_turn import in_turn
from rightreasons.annotators.mask_net import MaskNet
from rightreasons.annotators.patch_discriminator import SMALLEST_SIDE, PatchDiscriminator
from rightreasons.annotators.pix2pix import Pix2Pix
from rightreasons.annotators.segmentation import Segmentation
from rightreasons.annotators.uncertainty import mask_uncertainty
from rightreasons.annotators.unet import UNet
from rightreasons.checkpoint import load_weights_into, save_weights, writable_folder, write_json
from rightreasons.datasets import Dataset, InMemory
from rightreasons.errors import (
    CheckpointMismatchError,
    InvalidBatchError,
    InvalidSettingError,
    RunNotFoundError,
)
from rightreasons.objectives import Term
from rightreasons.process import seeded
from rightreasons.setting import (
    checked_choice,
    checked_factor,
    checked_flag,
    checked_number,
    checked_share,
)
from rightreasons.train import Fit, fit

__all__ = ["OBJECTIVES", "PseudoAnnotator"]

OBJECTIVES = ("segmentation", "pix2pix")
OPTIMIZATION: dict[str, dict[str, Any]] = {
    "segmentation": {"batch_size": 16, "lr": 2e-3, "scheduler": "cosine"},
    "pix2pix": {"batch_size": 4, "lr": 2e-4, "scheduler": "constant"},
}
BETAS = {"segmentation": (0.9, 0.999), "pix2pix": (0.5, 0.999)}
UPDATES_PER_EPOCH = 100
PREDICTED_TOGETHER = 64
FORMAT = 2
"""Of what `save` writes. With 1 the generator had a ReLU before its last layer."""


@final
class PseudoAnnotator:
    """A U-Net that learns masks from the annotated few, and predicts soft ones of the rest.

    Polarity is the library's throughout: a pixel of a predicted mask is the probability that the
    model must *not* look there. The paper's annotations are the other way round.

    Differs from the paper: ``objective="segmentation"`` is the default; the paper has pix2pix
    with Adam at a rate of 2e-4 and betas (0.5, 0.999), 4 images a batch and 30,000 updates, which
    ``objective="pix2pix", width=64, num_updates=30_000`` is, up to what `UNet`,
    `PatchDiscriminator` and `Pix2Pix` say. The images are augmented.

    Args:
        objective: ``"segmentation"``: cross-entropy and Dice; ``"pix2pix"``: the adversarial game.
        width: Of the generator, and of the discriminator.
        depth: How often the generator halves the resolution.
        num_updates: Steps of the optimizer, however many annotations there are.
        batch_size: Images a step; None is the objective's own, 16 or 4.
        lr: Adam's rate; None is the objective's own, 2e-3 (to 0 along a cosine) or 2e-4.
        l1_weight: See `Pix2Pix`.
        flip: Mirror images left and right in half of the cases, and average the predictions of an
            image and its mirror image.
        shift: Move images by up to so many pixels.
        degrees: Turn images by up to so much.
        paste: Share of the images that get what is marked in another one pasted into them; for
            masks of things on an image, not of what is around one.
        seed: Of the weights, the order and the augmentation.

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
        self.objective = checked_choice("objective", objective, OBJECTIVES)
        own = OPTIMIZATION[self.objective]
        self.settings: dict[str, Any] = {
            "objective": self.objective,
            "width": checked_number("width", width, low=2),
            "depth": checked_number("depth", depth, low=1, high=8),
            "num_updates": checked_number("num_updates", num_updates),
            "batch_size": checked_number(
                "batch_size", own["batch_size"] if batch_size is None else batch_size
            ),
            "lr": checked_factor("lr", own["lr"] if lr is None else lr),
            "l1_weight": checked_factor("l1_weight", l1_weight),
            "flip": checked_flag("flip", flip),
            "shift": checked_number("shift", shift, low=0),
            "degrees": checked_degrees(degrees),
            "paste": checked_share("paste", paste),
            "seed": checked_number("seed", seed, low=0),
        }
        self._net: MaskNet | None = None

    def fit(
        self, data: Dataset, *, train: Callable[..., Fit] = fit, **settings: Any
    ) -> PseudoAnnotator:
        """Learn from the annotated samples of ``data``, and from these alone.

        Args:
            data: Images with masks.
            train: `fit`, or what stands for it in a strategy.
            settings: Further ones of `fit`: ``out``, ``resume``, ``progress``, ``accelerator``.

        Returns:
            Itself.
        """
        refuse_maskless(data)
        channels, *size = data.card.shape
        if self.objective == "pix2pix" and min(size) < SMALLEST_SIDE:
            raise InvalidSettingError(
                f"Expected images of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels for "
                f'objective="pix2pix", but got {size[0]} x {size[1]}. Use objective="segmentation".'
            )
        some, own = InMemory(annotated_samples(data)), self.settings
        epochs = math.ceil(own["num_updates"] / UPDATES_PER_EPOCH)
        updates = math.ceil(own["num_updates"] / epochs)
        seen = augmented(
            in_turn(some, num=updates * own["batch_size"], seed=own["seed"]),
            **{name: own[name] for name in ("flip", "shift", "degrees", "paste", "seed")},
        )
        net = self._built(channels)
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
                "batch_size": own["batch_size"],
                "lr": own["lr"],
                "optimizer": partial(optim.Adam, lr=own["lr"], betas=BETAS[self.objective]),
                "scheduler": OPTIMIZATION[self.objective]["scheduler"],
                "seed": own["seed"],
                **settings,
            },
        )
        self._net = net.eval()
        return self

    def masks(self, x: Tensor) -> Tensor:
        """Soft masks of images ``(N, C, H, W)``, ``(N, 1, H, W)`` in [0, 1], on the CPU."""
        generator = self._generator(x)
        return torch.cat(
            [self._soft(generator, some) for some in torch.split(x, PREDICTED_TOGETHER)]
        )

    def uncertainty(self, x: Tensor) -> Tensor:
        """How unsure the mask of each image is, in bits a pixel, see `mask_uncertainty`."""
        return mask_uncertainty(self.masks(x))

    def features(self, x: Tensor) -> Tensor:
        """What each image is like to the generator, ``(N, F)``, see `UNet.features`."""
        generator = self._generator(x)
        place = generator.last.weight
        with torch.no_grad():
            parts = [
                generator.features(some.to(place)) for some in torch.split(x, PREDICTED_TOGETHER)
            ]
        return torch.cat(parts).float().cpu()

    def digest(self) -> str:
        """A SHA-256 over the settings and the weights."""
        net = self._fitted()
        state = {
            name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()
        }
        sha = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode())
        sha.update(save(state))
        return sha.hexdigest()

    def save(self, folder: str | Path) -> None:
        """Write ``annotator.json`` and ``model.safetensors``."""
        net, path = self._fitted(), writable_folder(folder)
        told = {"settings": self.settings, "channels": net.generator.channels}
        write_json(path / "annotator.json", {"format": FORMAT, **told, "sha256": self.digest()})
        save_weights(path / "model.safetensors", net)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read back what `save` wrote."""
        path = Path(folder) / "annotator.json"
        try:
            told = json.loads(path.read_text())
            if told["format"] != FORMAT:
                raise ValueError(f"its format is {told['format']}, not {FORMAT}; fit it anew")
            annotator = cls(**told["settings"])
            net = annotator._built(told["channels"])
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

    def _built(self, channels: int) -> MaskNet:
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

    def _fitted(self) -> MaskNet:
        if self._net is None:
            raise InvalidSettingError(
                "Expected a pseudo-annotator that was fitted, but this one was not. Call "
                "`annotator.fit(data)` first."
            )
        return self._net

    def _generator(self, x: Tensor) -> UNet:
        generator = self._fitted().generator
        if x.ndim != 4 or x.shape[1] != generator.channels:
            raise InvalidBatchError(
                f"Expected images (N, {generator.channels}, H, W), as the pseudo-annotator was "
                f"fitted on, but got shape {tuple(x.shape)}."
            )
        return generator

    def _soft(self, generator: UNet, x: Tensor) -> Tensor:
        with torch.no_grad():
            moved = x.to(generator.last.weight)
            soft = torch.sigmoid(generator(moved))
            if self.settings["flip"]:
                soft = (soft + torch.sigmoid(generator(moved.flip(3))).flip(3)) / 2
        return soft.float().cpu()
