"""Which methods can repair a model, by what the user has: masks, groups, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rightreasons.annotators import PseudoAnnotator, annotate_rest, find_annotated, mask_quality
from rightreasons.annotators.hand_masks import CHUNK
from rightreasons.annotators.mask_files import MaskFiles, write_masks
from rightreasons.core.files import writable_folder, write_json
from rightreasons.datasets import Dataset, MaskBits, Splits
from rightreasons.errors import InvalidSettingError
from rightreasons.run.config import Config
from rightreasons.run.shortcuts import COLOUR, NEARLY_ALL, read_shortcuts, with_masks
from rightreasons.training.rates import read_milestones

__all__ = [
    "FEWEST",
    "Facts",
    "Method",
    "choose_methods",
    "configure",
    "find_facts",
    "predict_masks",
]

FEWEST = 10
"""Fewest samples of a group that count as having the group."""

Masks = Literal["all", "few", "none"]


@dataclass(frozen=True)
class Facts:
    """What a user has.

    Args:
        is_image: Whether samples are images; else they are rows of a table.
        masks: Whether all training samples have a mask, a few, or none.
        colour: Whether the colour of whole images is to be exchanged.
        groups: Whether training samples of one class lie in several groups.
        validation_groups: Whether every group has validation samples, of which some share a class.
        validation_masks: Whether validation samples have masks.
        certificate: Whether a certificate is asked for.
    """

    is_image: bool
    masks: Masks
    colour: bool
    groups: bool
    validation_groups: bool
    validation_masks: bool
    certificate: bool


@dataclass(frozen=True)
class Method:
    """A way to repair a model, with what is tuned.

    Args:
        name: Its name in tables: that of the recipe or the strategy.
        changes: Fields of `Config`.
        choices: Values of its settings to try, the first one first.
        cost: Time of an update beside that of plain training, from ``benchmarks/step_time.py``
            and rounded up; it says how many epochs fit, until the method itself was timed.
        anew: Whether to start from the weights that the model had before it was trained.
    """

    name: str
    changes: Mapping[str, Any]
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    cost: float = 1.0
    anew: bool = False

    @property
    def first(self) -> dict[str, Any]:
        """The settings of its first trial."""
        return {f"{self.name}.{name}": values[0] for name, values in self.choices.items()}


WEIGHTS = ("controlled", 3.0, 30.0, 300.0)
COUNTEREXAMPLES = Method(
    "counterexamples",
    {"recipe": "counterexamples"},
    {"settings.source": ("auto", "mix", "blur"), "settings.originals": (False, True)},
)
COUNTEREXAMPLES_ANEW = replace(COUNTEREXAMPLES, name="counterexamples_anew", anew=True)
PENALTIES = (
    Method("r3", {"recipe": "r3"}, {"settings.weight": WEIGHTS}, cost=3.0),
    Method("adv_r4", {"recipe": "adv_r4"}, {"settings.weight": WEIGHTS}, cost=8.0),
)
COLOURS = Method("colours", {"recipe": "erm"})
COLOURS_ANEW = replace(COLOURS, name="colours_anew", anew=True)
GROUPS = (
    Method("group_dro", {"recipe": "group_dro"}),
    Method(
        "dfr",
        {"recipe": "erm", "strategy": "dfr", "strategy_settings": {"source": "train"}},
        {"strategy_settings.head_decay": (1e-3, 1e-4, 1e-2)},
    ),
)
MASKTUNE = Method(
    "masktune",
    {"recipe": "erm", "strategy": "masktune"},
    {"strategy_settings.k": (2.0, 1.0, 3.0), "strategy_settings.iterations": (1, 2)},
)
JTT = Method(
    "jtt",
    {"recipe": "erm", "strategy": "jtt"},
    {"strategy_settings.upweight": (20, 5, 50), "strategy_settings.first_epochs": (1, 3)},
    cost=2.0,
)


def find_facts(data: Splits, *, colour: bool, certificate: bool) -> Facts:
    """Look at the data: which masks and groups there are.

    Args:
        data: The data, with the masks that the user gave.
        colour: Whether the colour of whole images is to be exchanged.
        certificate: Whether a certificate is asked for.

    Raises:
        InvalidSettingError: There are no validation data to choose by, or samples are token ids.
    """
    if data.val is None:
        raise InvalidSettingError(
            f"Expected validation data to choose a repair by, but {data.card.name!r} has none. "
            "Hold some out: a split called val."
        )
    x = data.train.take(torch.arange(1)).x
    if not x.is_floating_point():
        raise InvalidSettingError(
            f"Expected images or tables of numbers to repair a model for, but {data.card.name!r} "
            f"has samples of {x.dtype}. Train on masked text with --recipe r3."
        )
    share = _share_of_masks(data.train)
    masks: Masks = "none" if not share else "all" if share >= NEARLY_ALL else "few"
    named = len(data.card.groups)
    return Facts(
        is_image=len(data.card.shape) == 3,
        masks=masks,
        colour=colour,
        groups=_splits_a_class(data.train.groups, data.train.labels),
        validation_groups=_splits_a_class(data.val.groups, data.val.labels)
        and _has_all(data.val.groups, named),
        validation_masks=bool(_share_of_masks(data.val)),
        certificate=certificate,
    )


def choose_methods(facts: Facts, epsilon: float | None = None) -> list[Method]:
    """The methods that fit, the cheapest first; each is tried with its first settings once.

    Args:
        facts: What the user has.
        epsilon: Box of the certificate, if one is asked for; None is the full range.

    Raises:
        InvalidSettingError: A certificate is asked for without masks.
    """
    chosen: list[Method] = []
    if facts.masks != "none":
        others = _certified(epsilon) if facts.certificate else PENALTIES
        chosen = [COUNTEREXAMPLES, COUNTEREXAMPLES_ANEW, *others]
    elif facts.certificate:
        raise InvalidSettingError(
            "Expected masks for a certificate about what they cover, but got none. Give some "
            "(--masks), or leave --certificate out."
        )
    elif facts.colour:
        chosen = [COLOURS, COLOURS_ANEW]
    if facts.groups:
        chosen += GROUPS
    if not chosen:
        chosen = [MASKTUNE, JTT] if facts.is_image else [JTT]
    return chosen


def _certified(epsilon: float | None) -> tuple[Method, ...]:
    box = {"epsilon": epsilon}
    bound, gradient = ({"recipe": name, "settings": box} for name in ("ibp_ex", "cert_r4"))
    return (
        Method("ibp_ex", bound, {"settings.weight": (0.3, 0.1, 1.0)}, cost=2.0),
        Method("cert_r4", gradient, {"settings.weight": (10.0, 1.0, 100.0)}, cost=4.0),
    )


def configure(
    start: Config,
    method: Method,
    values: Mapping[str, Any],
    *,
    epochs: int,
    first_weights: str | None = None,
) -> Config:
    """The configuration of a trial.

    Args:
        start: Configuration of the model to repair, with its weights.
        method: The method.
        values: Values of ``lr`` and of the method's settings, called ``METHOD.FIELD.NAME``.
        epochs: Passes over the data.
        first_weights: File with the weights before training; None are those that it is built with.
    """
    changes: dict[str, Any] = {"settings": {}, "strategy": "once", "strategy_settings": {}}
    changes |= {name: dict(v) if isinstance(v, dict) else v for name, v in method.changes.items()}
    for name, value in values.items():
        owner, _, rest = name.partition(".")
        if owner == method.name:
            place, _, setting = rest.partition(".")
            changes[place] = {**changes[place], setting: value}
    if method.anew:
        changes["weights"] = first_weights
    changes |= _rescale(start, lr=float(values["lr"]), epochs=epochs)
    return replace(start, **changes, lr=float(values["lr"]), epochs=epochs)


def _rescale(start: Config, *, lr: float, epochs: int) -> dict[str, Any]:
    """The steps of the rate at the same shares of training, and the body's rate in proportion."""
    changes: dict[str, Any] = {}
    times = epochs / start.epochs if start.epochs else 1.0
    if start.step_epochs is not None:
        changes["step_epochs"] = max(1, round(start.step_epochs * times))
    if start.milestones is not None:
        steps = {max(1, round(one * times)) for one in read_milestones(start.milestones)}
        changes["milestones"] = ",".join(map(str, sorted(steps)))
    if start.body_lr is not None and start.lr:
        changes["body_lr"] = start.body_lr * lr / start.lr
    return changes


def _share_of_masks(data: Dataset) -> float:
    """The fraction of samples whose mask is known, be it empty."""
    if not data.has_masks:
        return 0.0
    known = 0
    for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
        guided = batch.guided
        known += len(batch) if guided is None else int(guided.sum())
    return known / len(data)


def _splits_a_class(groups: Tensor | None, labels: Tensor) -> bool:
    """Whether some class has two groups that are not tiny, so that groups say more than labels."""
    if groups is None:
        return False
    groups, labels = groups.cpu(), labels.cpu()
    for y in torch.unique(labels):
        counts = torch.bincount(groups[(labels == y) & (groups >= 0)])
        if int((counts >= FEWEST).sum()) > 1:
            return True
    return False


def _has_all(groups: Tensor | None, num_groups: int) -> bool:
    if groups is None:
        return False
    counts = torch.bincount(groups[groups >= 0].cpu(), minlength=num_groups)
    return bool((counts >= FEWEST).all())


def predict_masks(
    folder: Path, config: Config, data: Splits, facts: Facts
) -> tuple[Config, Splits, Facts]:
    """Learn masks from a few and predict the others, once, into ``masks/`` of a folder.

    Args:
        folder: Folder of the repair.
        config: Configuration of the model to repair.
        data: The data, of which a few have masks.
        facts: What the user has.

    Returns:
        The same with masks of all samples.
    """
    place = writable_folder(folder / "masks")
    if not (place / "masks.json").exists():
        annotator = PseudoAnnotator(seed=config.seed).fit(data.train, progress=False)
        parts = {"train": data.train, "val": data.val, "test": data.test}
        quality = None
        for name, part in parts.items():
            if part is None:
                continue
            full = part if part.has_masks else _without_masks(part)
            if name == "val" and bool((held_out := find_annotated(full)).any()):
                indices = held_out.nonzero().flatten()
                quality = mask_quality(full, lambda b: annotator.masks(b.x), places=indices)
            write_masks(place / f"{name}.npz", annotate_rest(full, annotator=annotator))
        num = int(find_annotated(data.train).sum())
        counts = {"num_annotations": num, "num_predicted": len(data.train) - num}
        write_json(place / "quality.json", {**counts, "held_out": quality})
        write_json(place / "masks.json", {"name": "predicted masks", "complete": True})
    kept = [COLOUR] if facts.colour else []
    config = replace(config, masks=[str(place.resolve()), *kept])
    filled = with_masks(data, read_shortcuts(config.masks[:1]))
    return config, filled, replace(facts, masks="all", validation_masks=True)


def _without_masks(part: Dataset) -> Dataset:
    height, width = part.card.shape[1:]
    bits = MaskBits(np.zeros((len(part), -(-height * width // 8)), np.uint8), size=(height, width))
    return MaskFiles(part, bits, torch.zeros(len(part), dtype=torch.bool))
