"""The user's own images: a folder of files and a table of labels, splits and masks."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

from rightreasons.core.checks import check_choice
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.manifest import Manifest, read_manifest
from rightreasons.datasets.images.splits import (
    POLARITIES,
    Reading,
    augment_training,
    check_augmentation,
    check_polarity,
    check_size,
    check_value_range,
    image_splits,
)
from rightreasons.errors import InvalidSettingError

__all__ = ["folder"]


def folder(
    path: str | PathLike[str],
    *,
    mask_polarity: str | None = None,
    size: int | Sequence[int] | None = None,
    channels: int = 3,
    groups: str | Sequence[str] | None = None,
    value_range: tuple[float, float] | None = None,
    workers: int | None = None,
    in_memory: bool | Literal["auto"] = "auto",
    memory_limit: int = 2 << 30,
    verify: bool = True,
    flip: bool = False,
    crop: int = 0,
    seed: int = 0,
    card: Card | None = None,
) -> Splits:
    """Your own images: a folder with a table data.csv of file, label and split.

    ``data.csv``, or ``data.parquet`` with the same columns, has a header and a row for each image::

        file,label,split,group,mask
        images/001.jpg,cat,train,indoors,masks/001.png
        images/002.jpg,dog,test,outdoors,

    - ``file`` (or ``img_filename``, ``filename``): relative to the folder.
    - ``label`` (or ``y``): names or numbers. The classes are the distinct values, sorted (by
      number if all are numbers), and are numbered from 0 in this order.
    - ``split``: ``train``, ``val`` or ``test``, or 0, 1, 2; ``val`` may be absent.
    - ``group``, optional: names or numbers, sorted likewise; empty is unknown. Without it, an
      attribute ``a`` or ``place`` makes the group ``label * num_attributes + attribute``, as in
      the tables of group DRO and WILDS.
    - ``mask``, optional: a black and white image of the same size as the image, PNG by
      preference; its polarity must be stated. The names ``irrelevant_mask`` and
      ``relevant_mask`` state it themselves. A row without one gets a mask of zeros and
      ``annotated=False``; a split without any has no masks.

    Images are turned upright, converted, resized (which ignores the aspect ratio) and scaled to
    [0, 1]; masks are resized in the same way, by the nearest pixel. A mask lies on the upright
    image; one with the size of the stored image is turned with it. One error lists all problems
    of the table and the files.

    Args:
        path: The folder.
        mask_polarity: What is white in the masks: ``"irrelevant"``, what the model must not look
            at, or ``"relevant"``, what it should look at (inverted here). Needed if there are
            masks.
        size: Side in pixels, or height and width; None for the size that all images have.
        channels: 3 for colour, 1 for grey.
        groups: Columns whose values together make the groups, such as ``"label,site"``; None is
            the table's ``group``, or its attribute.
        value_range: The values that become 0 and 1, for images with more than 8 bits a channel.
            None divides integers of 16 bits by 65535, takes numbers from 0 to 1 as they are, and
            reads DICOM by its window.
        workers: Number of threads that decode into memory, or of processes that read ahead from
            disk; the number of processors, at most 4, if None.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into
            ``memory_limit``.
        memory_limit: Bytes of decoded images and masks.
        verify: Whether to decode every file once before training reads from disk; if False,
            damaged files are found in training.
        flip: Whether to mirror training images at random, as in `Augmented`.
        crop: Largest random shift of training images in pixels, as in `Augmented`.
        seed: Random seed for the flips and crops.
        card: Description of the data; names, shape and counts are filled in.

    Raises:
        DatasetNotFoundError: There is no table.
        DatasetCorruptError: One line for each problem, with row and file.
    """
    stated_size = check_size(size)
    if channels not in (1, 3):
        raise InvalidSettingError(f"Expected `channels` to be 1 or 3, but got {channels!r}.")
    reading = Reading(
        workers=workers, in_memory=in_memory, memory_limit=memory_limit, verify=verify
    )
    check_augmentation(flip, crop, seed)
    check_value_range(value_range)
    if mask_polarity is not None:
        check_choice("mask_polarity", mask_polarity, POLARITIES)
    columns = groups.split(",") if isinstance(groups, str) else list(groups or ())
    manifest, problems = read_manifest(
        Path(path).expanduser(), groups=[name.strip() for name in columns]
    )
    polarity = check_polarity(mask_polarity, manifest, problems)
    splits = image_splits(
        manifest,
        problems,
        size=stated_size,
        channels=channels,
        mask_polarity=polarity,
        value_range=value_range,
        card=card or _default_card(manifest),
        reading=reading,
    )
    return augment_training(splits, flip=flip, crop=crop, seed=seed)


def _default_card(manifest: Manifest) -> Card:
    return Card(
        name="folder",
        description=f"{len(manifest.entries):,} images from the folder {manifest.root.name!r}.",
        shortcut="what the masks mark" if manifest.has_masks else "unknown",
        valid_range=(0.0, 1.0),
    )
