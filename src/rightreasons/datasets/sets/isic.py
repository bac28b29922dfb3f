"""ISIC: skin photographs; some harmless lesions have a coloured patch beside them."""

from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Literal

import torch

from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.files import list_images
from rightreasons.datasets.images.manifest import Entry, Manifest
from rightreasons.datasets.images.splits import Reading, check_size, image_splits
from rightreasons.datasets.splitting import assign_splits
from rightreasons.errors import DatasetNotFoundError

__all__ = ["isic"]

CARD = Card(
    name="isic",
    description="Skin photographs: cancer or not.",
    source=(
        "ISIC archive, N. Codella et al. 2019; patches found by L. Rieger et al. 2020, in the "
        "folders of their code"
    ),
    licence="each image has its own: CC-0, CC BY or CC BY-NC",
    shortcut="About half of the harmless lesions have a coloured patch beside them, no cancer has.",
)
GROUPS = ("cancer", "no cancer, no patch", "no cancer, patch")
FOLDERS = ("cancer", "no_cancer", "patch_no_cancer_again")  # in the order of the groups
MASKS = "segmentation"


def isic(
    data_dir: str | PathLike[str],
    *,
    size: int = 299,
    seed: int = 0,
    test_share: float = 0.2,
    validation_share: float = 0.1,
    in_memory: bool | Literal["auto"] = "auto",
    workers: int | None = None,
) -> Splits:
    """Skin photographs; coloured patches lie beside harmless lesions only.

    The folder, as the code of Rieger et al. 2020 leaves it::

        processed/cancer/NAME.jpg
        processed/no_cancer/NAME.jpg                   no patch
        processed/patch_no_cancer_again/NAME.jpg       with a patch
        segmentation/NAME.jpg                          white where the patch of that name is

    ``segmentation`` holds a file of the same size and stem for each image with a patch; all may
    be ``.jpg``, ``.jpeg`` or ``.png``. The label is 1 for cancer. The three groups are cancer, no
    cancer without a patch and no cancer with one. The mask is the patch; the other images have
    a mask of zeros and ``annotated=False``.

    Differs from the paper: its code draws a random split for training and another for testing,
    so that most test images are training images. Here one permutation splits all images,
    stratified by group, and some validate. Masks are thresholded at half white, which removes the
    blur of JPEG.

    Args:
        data_dir: The folder.
        size: Side in pixels, 299 as in the paper.
        seed: Random seed for the split.
        test_share: Fraction of all images for the test, above 0.
        validation_share: Fraction of all images for validation; 0 for none.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into 2 GiB.
        workers: Number of threads or processes that decode; the number of processors, at most 4,
            if None.

    Raises:
        DatasetNotFoundError: The folders are not there.
        DatasetCorruptError: One line for each file that cannot be read.

    References:
        ghitu2025model, rieger2020interpretations
    """
    stated_size = check_size(size)
    reading = Reading(workers=workers, in_memory=in_memory)
    stream = random_stream(seed, "isic", "split")
    root = Path(data_dir).expanduser()
    files = [list_images(root / "processed" / folder) for folder in FOLDERS]
    if not all(files):
        layout = ", ".join(f"processed/{folder}" for folder in FOLDERS)
        raise DatasetNotFoundError(
            f"Expected images in {root}, in each of the folders {layout}, and masks in {MASKS}, "
            f"but found {', '.join(str(len(paths)) for paths in files)} images. Prepare the ISIC "
            "images with the code of Rieger et al. 2020, or pass the folder that has `processed`."
        )
    masks = {path.stem: path for path in list_images(root / MASKS)}
    group = torch.tensor([number for number, paths in enumerate(files) for _ in paths])
    splits = assign_splits(
        group, test_share=test_share, validation_share=validation_share, stream=stream
    )
    entries, problems = [], []
    for index, path in enumerate(chain.from_iterable(files)):
        mask = masks.get(path.stem) if group[index] == 2 else None
        if group[index] == 2 and mask is None:
            problems.append(f"{path.relative_to(root)}: has no mask of its name in {MASKS}")
        entries.append(
            Entry(
                row=index + 1,
                file=str(path.relative_to(root)),
                split=splits[index],
                label=int(group[index] == 0),
                group=int(group[index]),
                mask=str(mask.relative_to(root)) if mask else "",
            )
        )
    return image_splits(
        Manifest(root, tuple(entries), ("no cancer", "cancer"), GROUPS, origin="ISIC has them"),
        problems,
        size=stated_size,
        mask_threshold=0.5,
        card=CARD,
        reading=reading,
    )
