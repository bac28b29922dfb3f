"""Images in one folder per class, with or without a folder per split and a tree of masks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from rightreasons.core.rng import random_stream
from rightreasons.datasets.images.files import list_images
from rightreasons.datasets.images.manifest import Entry, Manifest, folder_manifest, split_paths
from rightreasons.datasets.splitting import assign_splits
from rightreasons.errors import DatasetNotFoundError

__all__ = ["SUFFIXES", "read_class_folders"]

SUFFIXES = (".bmp", ".dcm", ".jpeg", ".jpg", ".npy", ".png", ".tif", ".tiff", ".webp")
MASK_SUFFIXES = (".png", ".bmp", ".gif", ".npy", ".tif", ".tiff")
MASKS = "masks"
SPLITS = {"train": ("train",), "val": ("val", "validation"), "test": ("test",)}


def read_class_folders(
    root: Path, *, validation_share: float, test_share: float, seed: int
) -> tuple[Manifest, list[str]]:
    """Make the table of images in ``train/CLASS/NAME.jpg``, or in ``CLASS/NAME.jpg``.

    Args:
        root: The folder. Masks are below ``masks``, with the names of their images.
        validation_share: Fraction of the images to hold out if no folder says which.
        test_share: Fraction of the images to test on, if there are no folders of splits.
        seed: Random seed for both.

    Returns:
        The manifest, and one line for every problem.

    Raises:
        DatasetNotFoundError: The folders are not there.
    """
    files = {split: list(_files(root, names)) for split, names in SPLITS.items()}
    stream = random_stream(seed, "image_folder", "split")
    if not any(files.values()):
        paths = [
            path
            for folder in sorted(_folders(root))
            if folder.name != MASKS
            for path in list_images(folder, SUFFIXES)
        ]
        classes = sorted({path.parent.name for path in paths})
        if len(classes) < 2:
            raise DatasetNotFoundError(_describe(root, f"{len(classes)} folders with images"))
        labels = torch.tensor([classes.index(path.parent.name) for path in paths])
        assigned = assign_splits(
            labels, test_share=test_share, validation_share=validation_share, stream=stream
        )
        for path, split in zip(paths, assigned, strict=True):
            files[split].append(path)
    elif not files["train"] or not (files["val"] or files["test"]):
        counts = ", ".join(f"{len(paths)} in {split}" for split, paths in files.items())
        raise DatasetNotFoundError(_describe(root, counts))
    elif not files["test"]:
        files["test"] = files["val"]
        files["train"], files["val"] = split_paths(files["train"], validation_share, stream=stream)
    names = tuple(sorted({file.parent.name for file in files["train"]}))
    manifest, problems = folder_manifest(root, files, names, origin="class folders")
    return _with_masks(manifest, problems)


def _with_masks(manifest: Manifest, problems: list[str]) -> tuple[Manifest, list[str]]:
    """Name the mask of each image that has one below ``masks``."""
    folder = manifest.root / MASKS
    if not folder.is_dir():
        return manifest, problems
    found: dict[Path, Path] = {}
    for file in sorted(folder.rglob("[!.]*")):
        if file.is_file() and file.suffix.lower() in MASK_SUFFIXES:
            name = file.relative_to(folder).with_suffix("")
            other = found.setdefault(name, file)
            if other != file:
                problems.append(f"{MASKS}/{file.relative_to(folder)}: is beside {other.name}")

    def with_mask(entry: Entry) -> Entry:
        file = found.pop(Path(entry.file).with_suffix(""), None)
        return entry if file is None else replace(entry, mask=str(file.relative_to(manifest.root)))

    entries = tuple(with_mask(entry) for entry in manifest.entries)
    problems += [
        f"{file.relative_to(manifest.root)}: is the mask of no image" for file in found.values()
    ]
    return replace(manifest, entries=entries), problems


def _describe(root: Path, found: str) -> str:
    return (
        f"Expected images in {root}, in CLASS for two classes or more, or in train/CLASS and in "
        f"val/CLASS or test/CLASS, but found {found}. Images end in {', '.join(SUFFIXES)}."
    )


def _folders(root: Path) -> Iterator[Path]:
    return (one for one in (root.iterdir() if root.is_dir() else ()) if one.is_dir())


def _files(root: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """The images of a split, by folder and name."""
    for part in sorted(_folders(root)):
        if part.name.split(".")[0] in names:
            for folder in sorted(_folders(part)):
                yield from list_images(folder, SUFFIXES)
