"""From finding to masks: archives of soft masks for every part of the data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.annotators.mask_files import write_masks
from rightreasons.audit.audit import Audit
from rightreasons.audit.findings import Finding
from rightreasons.core.checks import check_integer
from rightreasons.core.files import Unreadable, read_json, writable_folder, write_json
from rightreasons.core.progress import progress
from rightreasons.datasets.dataset import Dataset, Splits, TransformedDataset
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["AcceptedMasks", "accept_findings"]

ABOUT = "masks.json"
LEAST_VALUE = 0.5
FAINT = 0.3
"""Values below this are seams around a pattern, which vary with the samples it was found in."""


def accept_findings(
    audit: Audit, numbers: Sequence[int], data: Splits | Dataset, folder: str | Path
) -> dict[str, dict[str, float]]:
    """Write masks for every sample in which one of the findings is present.

    Each part of the data gets an archive, ``train.npz``, ``val.npz`` and ``test.npz``, as
    `write_masks` writes it. Soft masks stay soft but for faint seams, several findings are joined.
    ``annotated`` is False: a machine made the masks. ``masks.json`` says what the masks are. A
    colour has no masks; its folder says so. Masks of an earlier call there are replaced.

    Args:
        audit: The audit.
        numbers: Numbers of findings, from 1 as they are listed.
        data: The data to make masks for, with all their parts.
        folder: Folder to write.

    Returns:
        For each part the number of samples, and the share that has a mask.
    """
    chosen = _choose(audit, numbers)
    root = writable_folder(folder)
    for file in _find_older(root):
        file.unlink()
    told: dict[str, dict[str, float]] = {}
    is_colour = chosen[0].region is None
    for name, part in ({} if is_colour else _parts(data)).items():
        with progress(f"making masks of {name}", total=len(part) * len(chosen)) as advance:
            masks = [finding.masks(part, advance=advance) for finding in chosen]
        joined = torch.stack([one.expand_as(masks[0]) for one in masks]).amax(dim=0)
        joined = torch.where(joined < FAINT, 0.0, joined)
        write_masks(root / f"{name}.npz", AcceptedMasks(part, joined, _tokens(chosen)))
        present = (joined.flatten(1).amax(dim=1) >= LEAST_VALUE).double().mean()
        told[name] = {"samples": len(part), "with_mask": float(present)}
    about = {
        "name": " and ".join(one.name for one in chosen),
        "kind": "colour" if is_colour else "masks",
        "polarity": "irrelevant",
        "complete": True,
        "findings": list(numbers),
        "parts": told,
    }
    write_json(root / ABOUT, about)
    return told


class AcceptedMasks(TransformedDataset):
    """Samples with masks that a machine made, beside those that a person drew.

    Args:
        base: Images, texts or rows of a table.
        masks: Soft masks of all samples: ``(N, 1, H, W)``, ``(N, T)`` or ``(N, D)``.
        substitutes: Token ids of the accepted words, which may stand in for each other.
    """

    def __init__(self, base: Dataset, masks: Tensor, substitutes: tuple[int, ...] = ()) -> None:
        super().__init__(base)
        self.soft = masks
        if base.card.text is not None:
            text = replace(base.card.text, substitutes=substitutes)
            self.card = replace(base.card, text=text)

    @property
    @override
    def has_masks(self) -> bool:
        return True

    @override
    def digest(self) -> str:
        sha = hashlib.sha256(self.base.digest().encode())
        sha.update(self.soft.numpy().tobytes())
        return sha.hexdigest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        mask = self.soft[indices]
        if mask.ndim == 2:  # texts of a batch are as long as the longest
            mask = mask[:, : batch.x.shape[1]]
        return batch.with_(
            mask=mask.to(batch.x) if batch.x.is_floating_point() else mask.to(batch.x.device),
            annotated=torch.zeros(len(indices), dtype=torch.bool),
        )


def _find_older(folder: Path) -> list[Path]:
    """The archives of an earlier call; raise if a folder has files that are of somebody else."""
    if (folder / "audit.json").exists():
        raise InvalidSettingError(
            f"Expected a folder for masks, but {folder} holds an audit. Choose another (--out)."
        )
    try:
        about = read_json(folder / ABOUT)
    except FileNotFoundError:
        about = {"parts": {}}
    except Unreadable:
        about = None
    parts = about.get("parts") if isinstance(about, dict) else None
    archives = sorted(folder.glob("*.npz"))
    foreign = [ABOUT]
    if isinstance(parts, dict):
        foreign = [one.name for one in archives if one.stem not in parts]
    if foreign:
        raise InvalidSettingError(
            f"Expected a folder without other masks, but {folder} has {foreign[0]}, which "
            "`rightreasons audit accept` did not write, or did not finish. Choose another folder "
            "(--out), or remove the file."
        )
    return archives


def _choose(audit: Audit, numbers: Sequence[int]) -> list[Finding]:
    everything = [*audit.findings, *audit.others]
    if not numbers:
        raise InvalidSettingError(
            "Expected numbers of findings to accept, such as 1 3, but got none."
        )
    chosen = [
        everything[check_integer("finding", number, low=1, high=len(everything)) - 1]
        for number in numbers
    ]
    without = [one for one in chosen if one.region is None]
    refused = [one for one in without if one.kind != "colour"]
    if refused:
        raise InvalidSettingError(
            f"Expected findings with a region, but {refused[0].name!r} has none, so there is "
            f"nothing to mask. {refused[0].advice}"
        )
    if without and len(without) < len(chosen):
        raise InvalidSettingError(
            f"Expected findings with a region, or a colour alone, but got {chosen[0].name!r} and "
            f"{chosen[-1].name!r}. Accept each into a folder of its own (--out)."
        )
    return chosen


def _tokens(findings: Sequence[Finding]) -> tuple[int, ...]:
    """The token ids of the words of findings."""
    groups = [group for one in findings if one.region for group in one.region.words]
    return tuple(sorted({token for group in groups for word in group for token in word}))


def _parts(data: Splits | Dataset) -> dict[str, Dataset]:
    if isinstance(data, Dataset):
        return {"train": data}
    parts = {"train": data.train, "val": data.val, "test": data.test, **data.more_tests}
    return {name: part for name, part in parts.items() if part is not None}
