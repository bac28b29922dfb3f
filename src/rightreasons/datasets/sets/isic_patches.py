"""ISIC patches: melanoma or not; real coloured patches lie beside benign lesions alone."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray

from rightreasons.core.checks import check_choice, check_flag, check_fraction, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.archives import JpegArchive
from rightreasons.datasets.images.files import check_data_dir, unpack_masks
from rightreasons.datasets.images.pixels import masked_pixel_splits
from rightreasons.errors import DatasetNotFoundError

__all__ = ["isic_patches"]

CARD = Card(
    name="isic_patches",
    description="Skin photographs, benign lesion or melanoma, some with a coloured patch.",
    source="ISIC 2017 challenge, N. Codella et al. 2018, here from isic2017_128.npz",
    licence="CC-0; some outlines CC BY-NC 4.0",
    shortcut=(
        "Coloured patches of the photographers: no melanoma has one in training and validation; "
        "at test patches are pasted onto melanomas too."
    ),
    classes=("benign", "melanoma"),
    groups=("benign", "benign, patch", "melanoma", "melanoma, patch"),
)
ARCHIVE = "isic2017_128.npz"
COLUMNS = ("melanoma", "patch", "patch_bits", "mask_bits", "has_mask", "split")
PARTS = ("train", "val", "test")
MASKS = ("patch", "outside_lesion")


@dataclass(frozen=True)
class _Part:
    """Photographs ``(N, H, W, 3)``, their patches and lesions ``(N, H, W)``, and labels."""

    images: NDArray[np.uint8]
    patch: NDArray[np.bool_]
    lesion: NDArray[np.bool_]
    outlined: NDArray[np.bool_]
    y: NDArray[np.int64]


def isic_patches(
    data_dir: str | PathLike[str],
    *,
    size: int = 64,
    mask: str = "patch",
    share: float | None = None,
    oracle: bool = False,
    seed: int = 0,
) -> Splits:
    """Benign lesions and melanomas; coloured patches lie beside benign lesions alone.

    The photographs of ISIC 2017: 1,648 to train, 276 to choose settings and 826 to test. One in
    sixteen benign photographs shows a real coloured patch, no melanoma does. So every melanoma of
    the test part comes twice: as it is, and with the patch of a benign test photograph pasted
    onto it, not onto the lesion. The four groups are class × patch.

    Args:
        data_dir: Folder with ``isic2017_128.npz``: photographs, outlines of lesions and patches.
        size: Side of the images, at most 128.
        mask: ``"patch"``: the patches; zeros without a patch. ``"outside_lesion"``: everything
            outside the lesion; photographs without an outline are not annotated.
        share: Fraction of benign training and validation photographs with a patch. More patches
            are pasted, from photographs of the same part, until so many have one. None leaves the
            photographs as they are.
        oracle: Whether to paste patches onto as large a fraction of the training and validation
            melanomas as of the benign photographs, so that they tell nothing. A model trained on
            such data has no shortcut to learn. The test set stays the same.
        seed: Random seed for the choice of patches.

    Raises:
        DatasetNotFoundError: The file is not there.
        DatasetCorruptError: The file cannot be read.

    References:
        codella2018skin, rieger2020interpretations
    """
    check_integer("size", size, low=8, high=128)
    check_choice("mask", mask, MASKS)
    if share is not None:
        check_fraction("share", share)
    check_flag("oracle", oracle)
    random_stream(seed)
    path = check_data_dir(data_dir) / ARCHIVE
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected the photographs of ISIC 2017 in {path}, but there is none. Put the archive "
            "of 128 × 128 JPEG images with outlines of lesions and patches there."
        )
    archive = JpegArchive(path, columns=COLUMNS)
    parts, annotated = {}, {}
    for number, name in enumerate(PARTS):
        rows = np.flatnonzero(archive.columns["split"] == number)
        part = _read_part(archive, rows, size)
        stream = random_stream(seed, "isic_patches", name)
        if name == "test":
            part = _add_pasted_melanomas(part, stream)
        else:
            _paste_in_training(part, share=share, oracle=oracle, stream=stream)
        has_patch = part.patch.any(axis=(1, 2))
        avoided = part.patch
        if mask == "outside_lesion":
            avoided = ~part.lesion & part.outlined[:, None, None]
            annotated[name] = torch.from_numpy(part.outlined)
        y = torch.from_numpy(part.y)
        parts[name] = (
            torch.from_numpy(part.images).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy(avoided).unsqueeze(1),
            y,
            2 * y + torch.from_numpy(has_patch).long(),
        )
    return masked_pixel_splits(parts, CARD, annotated)


def _read_part(archive: JpegArchive, rows: NDArray[np.int64], size: int) -> _Part:
    columns = {name: column[rows] for name, column in archive.columns.items()}
    patch = unpack_masks(columns["patch_bits"], size=size)
    return _Part(
        images=archive.images(rows, size=size),
        patch=patch & (columns["patch"] == 1)[:, None, None],
        lesion=unpack_masks(columns["mask_bits"], size=size),
        outlined=columns["has_mask"] == 1,
        y=columns["melanoma"].astype(np.int64),
    )


def _add_pasted_melanomas(part: _Part, stream: np.random.Generator) -> _Part:
    """Add a copy of each melanoma, with a patch pasted onto it."""
    members = np.flatnonzero(part.y == 1)
    sources = np.flatnonzero(part.patch.any(axis=(1, 2)))
    every = np.concatenate([np.arange(len(part.y)), members])
    both = _Part(
        part.images[every],
        part.patch[every],
        part.lesion[every],
        *(column[every] for column in (part.outlined, part.y)),
    )
    _paste(both, len(part.y) + np.arange(len(members)), sources, stream)
    return both


def _paste_in_training(
    part: _Part, *, share: float | None, oracle: bool, stream: np.random.Generator
) -> None:
    """Paste patches until a share of the benign lesions has one, or of all, in place."""
    sources = np.flatnonzero(part.patch.any(axis=(1, 2)))
    benign = np.flatnonzero(part.y == 0)
    wanted = len(sources) / len(benign) if share is None else share
    for members in (benign, np.flatnonzero(part.y == 1)) if oracle else (benign,):
        free = stream.permutation(np.setdiff1d(members, sources))
        missing = round(wanted * len(members)) - (len(members) - len(free))
        _paste(part, free[: max(0, missing)], sources, stream)


def _paste(
    part: _Part, rows: NDArray[np.int64], sources: NDArray[np.int64], stream: np.random.Generator
) -> None:
    """Paste the patch of a random source onto each of the rows, outside its lesion, in place."""
    if not len(sources):
        raise DatasetNotFoundError(
            "Expected at least one photograph with a patch in every part, but found none."
        )
    for row in rows:
        order = stream.permutation(sources)
        # the first patch that does not vanish below the lesion
        source = next(
            (one for one in order if (part.patch[one] & ~part.lesion[row]).any()), order[0]
        )
        place = part.patch[source] & ~part.lesion[row]
        part.images[row][place] = part.images[source][place]
        part.patch[row] = place
