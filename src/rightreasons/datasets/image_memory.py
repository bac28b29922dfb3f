"""Decoding the images of many rows once, into memory or merely to see whether they can be."""

from collections.abc import Sequence

import torch

from rightreasons.datasets.image_reader import ImageReader, collected
from rightreasons.datasets.manifest import Entry
from rightreasons.datasets.parallel import in_parallel
from rightreasons.types import Batch

__all__ = ["decode_into_memory", "decoding_problems"]


def decode_into_memory(
    entries: Sequence[Entry], reader: ImageReader, *, has_groups: bool, workers: int
) -> tuple[Batch, list[str]]:
    """Decode rows into one batch; the batch holds blanks where there is a problem.

    Args:
        entries: The rows.
        reader: What turns a row into tensors.
        has_groups: Whether the batch carries the groups of the rows.
        workers: How many threads decode.

    Returns:
        The batch and a line for every problem.
    """
    x = torch.zeros(len(entries), reader.channels, *reader.size)
    has_masks = any(entry.mask for entry in entries)
    mask = torch.zeros(len(entries), 1, *reader.size) if has_masks else None

    def decode(place: int) -> list[str]:
        problems = list[str]()
        with collected(problems):
            x[place] = reader.image(entries[place])
        if mask is not None:
            with collected(problems):
                mask[place] = reader.mask(entries[place])
        return problems

    found = in_parallel(decode, len(entries), workers=workers, description="decoding images")
    batch = Batch.trusted(
        x=x,
        y=torch.tensor([entry.label for entry in entries]),
        mask=mask,
        annotated=torch.tensor([bool(entry.mask) for entry in entries]) if has_masks else None,
        group=torch.tensor([entry.group for entry in entries]) if has_groups else None,
    )
    return batch, [problem for some in found for problem in some]


def decoding_problems(entries: Sequence[Entry], reader: ImageReader, *, workers: int) -> list[str]:
    """Decode rows and forget them: a line for every file that cannot be."""

    def verify(place: int) -> list[str]:
        problems = list[str]()
        with collected(problems):
            reader.image(entries[place])
        with collected(problems):
            reader.mask(entries[place])
        return problems

    found = in_parallel(verify, len(entries), workers=workers, description="checking images")
    return [problem for some in found for problem in some]
