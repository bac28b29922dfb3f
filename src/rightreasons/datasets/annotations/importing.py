"""Make a data folder from images and an export of an annotation tool."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
from PIL import Image

from rightreasons.core.checks import check_choice
from rightreasons.core.files import not_writable
from rightreasons.core.progress import progress
from rightreasons.datasets.annotations.coco import read_boxes, read_coco
from rightreasons.datasets.annotations.cvat import read_cvat
from rightreasons.datasets.annotations.export import Drawn, Export, raise_problems
from rightreasons.datasets.annotations.label_studio import read_label_studio
from rightreasons.datasets.annotations.labelme import read_labelme
from rightreasons.datasets.annotations.raster import Mask
from rightreasons.datasets.annotations.source import ImageNames, Source, read_source
from rightreasons.datasets.images.files import SIDEWAYS, TURNS, stored_size
from rightreasons.datasets.images.reader import collect_problems
from rightreasons.datasets.images.splits import POLARITIES
from rightreasons.errors import DatasetCorruptError, InvalidSettingError, OutputError

__all__ = ["ANNOTATORS", "FORMATS", "ORIENTATIONS", "Imported", "import_masks"]

FORMATS: dict[str, Callable[[Path], Export]] = {
    "boxes": read_boxes,
    "coco": read_coco,
    "cvat": read_cvat,
    "label-studio": read_label_studio,
    "labelme": read_labelme,
}
ANNOTATORS = ("union", "majority")
ORIENTATIONS = ("upright", "stored")
RAW_TOOLS = ("boxes", "coco")  # formats whose tools may have ignored the orientation tag
NO_LABEL = "(no label)"


@dataclass
class Imported:
    """What an import took and what it left.

    Args:
        folder: The new data folder.
        num_images: Images in the table.
        num_masks: Masks that were written.
        taken: Number of regions by label.
        left: Number of regions with other labels.
        ignored: What the export has beside regions, by kind.
        empty: Regions that cover no pixel, by their place.
        complete: Whether the table has labels and splits, so that it can be trained on.
    """

    folder: Path
    num_images: int = 0
    num_masks: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    complete: bool = True


def import_masks(
    kind: str,
    files: Sequence[str | PathLike[str]],
    images: str | PathLike[str],
    out: str | PathLike[str],
    *,
    polarity: str,
    labels: Sequence[str] | None = None,
    annotators: str | None = None,
    orientation: str | None = None,
    empty: bool = False,
    seed: int = 0,
) -> Imported:
    """Write a data folder for `folder` with masks from another tool; all or nothing.

    The folder has a table ``data.csv`` and masks as PNG below ``masks``. Images stay where they
    are. Labels and splits come from the table or the class folders in ``images``. All formats are
    rasterised in one way, that of COCO.

    Args:
        kind: The format: a key of `FORMATS`.
        files: Files of the export; several files are several annotators' if they share images.
        images: Folder with the images, and with a table or class folders if there are any.
        out: The folder to write; it must not exist yet.
        polarity: What the regions mark: ``"irrelevant"``, what the model must not look at, or
            ``"relevant"``, what it should look at.
        labels: Labels of the regions to take. None takes all, if there is one label only.
        annotators: How several annotators of an image are combined: ``"union"``, or
            ``"majority"``, pixels that more than half of them marked.
        orientation: Whether regions lie on the ``"upright"`` image or on the ``"stored"`` one,
            for photographs with an orientation tag; None reads it from the sizes.
        empty: Whether an image without regions gets an empty mask: somebody looked and found
            nothing. If False, it gets no mask.
        seed: Random seed for splits, if class folders do not have them.

    Raises:
        DatasetCorruptError: One line for everything that cannot be read; nothing is written.
        InvalidSettingError: A choice is missing, such as that of a label.
    """
    check_choice("format", kind, tuple(FORMATS))
    check_choice("polarity", polarity, POLARITIES)
    if annotators is not None:
        check_choice("annotators", annotators, ANNOTATORS)
    if orientation is not None:
        check_choice("orientation", orientation, ORIENTATIONS)
    target, root = Path(out), Path(images).expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OutputError(f"Expected a new folder for --out, but {target} exists. Name another.")
    source = read_source(root, seed=seed)
    export = _read_files(kind, [Path(file) for file in files])
    chosen = _choose_labels(export, labels)
    work = _Import(kind, source, chosen, annotators, orientation, empty)
    by_image = work.match(export)
    result = Imported(target, num_images=len(source.rows), ignored=export.ignored)
    _count_labels(export, chosen, result)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise not_writable(target.parent, error) from error
    try:
        masks = work.draw(by_image, temporary, result)
        raise_problems(export.problems + work.problems, files)
        if not masks:
            raise DatasetCorruptError(
                f"Expected regions on the images in {root}, but no image gets a mask. Pass "
                "--empty-masks if nothing is to be marked."
            )
        source.write(temporary / "data.csv", masks, target, polarity)
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    except OSError as error:
        raise not_writable(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    result.complete = source.complete
    return result


class _Import:
    """The images of one import, and what is wrong with them."""

    def __init__(
        self,
        kind: str,
        source: Source,
        labels: frozenset[str] | None,
        annotators: str | None,
        orientation: str | None,
        empty: bool,
    ) -> None:
        self.kind, self.source, self.labels, self.empty = kind, source, labels, empty
        self.annotators, self.orientation = annotators, orientation
        self.problems = list(source.problems)

    def match(self, export: Export) -> dict[str, list[Drawn]]:
        """Find the image of everything that was drawn."""
        names = ImageNames(self.source.files)
        by_image: dict[str, list[Drawn]] = {}
        for drawn in export.drawn:
            found, problem = names.find(drawn.image)
            if found is None:
                self.problems.append(f"{drawn.place}: {problem}")
                continue
            others = by_image.setdefault(found, [])
            if self.kind != "labelme" and others and others[0].image != drawn.image:
                self.problems.append(
                    f"{drawn.place}: {drawn.image} and {others[0].image} are both called as {found}"
                )
            others.append(drawn)
        several = next((name for name, drawn in by_image.items() if len(drawn) > 1), None)
        if several is not None and self.annotators is None:
            raise InvalidSettingError(
                f"Expected one annotation of each image, but {several} has "
                f"{len(by_image[several])}. Say how to combine them: --annotators union, or "
                "--annotators majority."
            )
        return by_image

    def draw(
        self, by_image: dict[str, list[Drawn]], folder: Path, result: Imported
    ) -> dict[str, str]:
        """Write the mask of each image; give the mask's file by the image's."""
        written: dict[str, str] = {}
        with progress("drawing masks", total=len(by_image)) as advance:
            for name, drawn in by_image.items():
                marked = any(self._is_chosen(shape.labels) for one in drawn for shape in one.shapes)
                mask = self._draw_image(name, drawn, result) if marked or self.empty else None
                if mask is not None:
                    path = _mask_path(name, set(written.values()))
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(mask.astype(np.uint8) * 255).save(folder / path)
                    written[name] = str(path)
                advance(1)
        result.num_masks = len(written)
        return written

    def _is_chosen(self, labels: tuple[str, ...]) -> bool:
        return self.labels is None or bool(self.labels & set(labels))

    def _draw_image(self, name: str, drawn: list[Drawn], result: Imported) -> Mask | None:
        votes = None
        for one in drawn:
            frame = self._find_frame(name, one)
            if frame is None:
                return None
            size, turn = frame
            mask = np.zeros(size, dtype=bool)
            for shape in one.shapes:
                if not self._is_chosen(shape.labels):
                    continue
                try:
                    pixels = shape.draw(size)
                except ValueError as error:
                    self.problems.append(f"{shape.place}: {error}")
                    continue
                if not pixels.any():
                    result.empty.append(shape.place)
                mask |= pixels
            if turn in TURNS:
                mask = np.asarray(Image.fromarray(mask).transpose(TURNS[turn]))
            votes = mask.astype(np.int32) if votes is None else votes + mask
        if votes is None:
            return None
        needed = len(drawn) / 2 if self.annotators == "majority" else 0
        chosen: Mask = votes > needed
        return chosen

    def _find_frame(self, name: str, drawn: Drawn) -> tuple[tuple[int, int], int] | None:
        """Height and width of what was drawn on, and the tag that turns it upright."""
        found = list[str]()
        frame = None
        with collect_problems(found):
            stored, tag = stored_size(self.source.root / name)
            upright = stored[::-1] if tag in SIDEWAYS else stored
            differ = drawn.size is not None and stored != upright
            on_stored = self.orientation == "stored"
            if tag in TURNS and self.orientation is None:
                if differ and drawn.size in (stored, upright):
                    on_stored = drawn.size == stored
                elif self.kind in RAW_TOOLS:
                    found.append(
                        f"has the orientation tag {tag}, and its size does not say which image "
                        "was annotated: pass --orientation upright, or --orientation stored"
                    )
            frame = (stored, tag) if on_stored else (upright, 1)
            if drawn.size is not None and drawn.size != frame[0]:
                found.append(
                    f"was annotated with {drawn.size[1]}x{drawn.size[0]} pixels, but has "
                    f"{frame[0][1]}x{frame[0][0]}"
                )
        self.problems += [f"{drawn.place}: {name} {problem}" for problem in found]
        return None if found else frame


def _read_files(kind: str, files: list[Path]) -> Export:
    whole = Export()
    for file in files:
        with whole.collect():
            part = FORMATS[kind](file)
            whole.drawn += part.drawn
            whole.problems += part.problems
            for name, count in part.ignored.items():
                whole.ignored[name] = whole.ignored.get(name, 0) + count
    if not whole.drawn:
        raise_problems(whole.problems or [f"{kind}: lists no image"], files)
    return whole


def _choose_labels(export: Export, labels: Sequence[str] | None) -> frozenset[str] | None:
    counts: dict[str, int] = {}
    for drawn in export.drawn:
        for shape in drawn.shapes:
            for label in shape.labels or (NO_LABEL,):
                counts[label] = counts.get(label, 0) + 1
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items())) or "none"
    if labels is None:
        if len(counts) > 1:
            raise InvalidSettingError(
                f"Expected the labels to take, since there are several: {listed}. Pass --labels, "
                "with commas."
            )
        return None
    unknown = [label for label in labels if label not in counts]
    if unknown and not export.problems:
        raise InvalidSettingError(
            f"Expected labels that occur ({listed}), but got {', '.join(unknown)}."
        )
    return frozenset(labels)


def _count_labels(export: Export, chosen: frozenset[str] | None, result: Imported) -> None:
    for drawn in export.drawn:
        for shape in drawn.shapes:
            named = shape.labels or (NO_LABEL,)
            hits = [label for label in named if chosen is None or label in chosen]
            counts = result.taken if hits else result.left
            for label in hits or named:
                counts[label] = counts.get(label, 0) + 1


def _mask_path(name: str, taken: set[str]) -> Path:
    parts = [part for part in Path(name).parts if part not in ("..", Path(name).anchor)]
    path = Path("masks", *parts).with_suffix(".png")
    return path if str(path) not in taken else path.with_name(f"{Path(name).name}.png")
