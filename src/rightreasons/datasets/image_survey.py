"""A look at all image files before anything is decoded: are they there, do their sizes fit?"""

from pathlib import Path

from rightreasons.datasets.image_file import image_size
from rightreasons.datasets.image_reader import collected, located
from rightreasons.datasets.manifest import Entry, Manifest
from rightreasons.datasets.parallel import in_parallel

__all__ = ["survey"]


def survey(
    manifest: Manifest, stated: tuple[int, int] | None, *, workers: int
) -> tuple[list[Entry], tuple[int, int] | None, list[str]]:
    """Open the files of all rows and see whether they fit together, without decoding them.

    Args:
        manifest: The table.
        stated: The height and width to resize to; None to find the one all images have.
        workers: How many threads look.

    Returns:
        The rows whose files can be opened, the size all images will have (None if nobody knows),
        and a line for every problem.
    """
    named = [entry for entry in manifest.entries if entry.file]
    found = in_parallel(
        lambda place: _size_on_disk(manifest.root, named[place]),
        len(named),
        workers=workers,
        description="looking at images",
    )
    problems = [problem for _, some in found for problem in some]
    sound = [entry for entry, (_, some) in zip(named, found, strict=True) if not some]
    if stated is not None:
        return sound, stated, problems
    first_rows: dict[tuple[int, int], int] = {}
    for entry, (size, _) in zip(named, found, strict=True):
        if size is not None:
            first_rows.setdefault(size, entry.row)
    if len(first_rows) > 1:
        examples = [f"{h}x{w} in row {row}" for (h, w), row in first_rows.items()]
        problems.append(
            f"the images have {len(first_rows)} different sizes ({', '.join(examples[:3])}): "
            "pass `size`, a number of pixels or height and width, to resize them"
        )
    return sound, next(iter(first_rows), None), problems


def _size_on_disk(root: Path, entry: Entry) -> tuple[tuple[int, int] | None, list[str]]:
    """Height and width of the image of a row (None if unreadable), and what is wrong with it.

    Looks at headers only: at the image's and, if the row names one, at the mask's, which must have
    the same size.
    """
    size, mask_size, problems = None, None, list[str]()
    with collected(problems), located(entry, entry.file):
        size = image_size(root / entry.file)
    if entry.mask:
        with collected(problems), located(entry, f"mask {entry.mask}"):
            mask_size = image_size(root / entry.mask)
    if size and mask_size and size != mask_size:
        problems.append(
            f"row {entry.row}, mask {entry.mask}: has {mask_size[0]}x{mask_size[1]} pixels, but "
            f"its image {entry.file} has {size[0]}x{size[1]}"
        )
    return size, problems
