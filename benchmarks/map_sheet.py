"""Sheets of attribution maps: the arguments, runs and drawing that two scripts share."""

import argparse
import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import rightreasons as rr
from rightreasons.run import Run, load_run

GAP = 6


def sheet_parser(
    description: str, *, shown: int, data_dir_required: bool
) -> argparse.ArgumentParser:
    """Make a parser for named runs, the numbers of images, the picture and the output."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--run", action="append", required=True, help="NAME=FOLDER; repeatable")
    parser.add_argument("--data-dir", required=data_dir_required)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--shown", type=int, default=shown)
    parser.add_argument("--picture", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def named_runs(options: argparse.Namespace) -> tuple[dict[str, Run], rr.datasets.Splits]:
    """Load the runs by name, and the data of the first of them."""
    runs = {name: load_run(folder) for name, folder in (r.split("=", 1) for r in options.run)}
    first = next(iter(runs.values()))
    return runs, replace(first.config, data_dir=options.data_dir).load_data()


def save_sheet(rows: Sequence[Sequence[str]], picture: Path) -> None:
    """Draw the pictures of each row side by side, the rows below each other, and save them.

    ``rows`` holds the data addresses that ``rightreasons.report.picture`` returns.
    """
    lines = [joined([pixels(address) for address in row], axis=1) for row in rows]
    picture.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(joined(lines, axis=0)).save(picture, optimize=True)


def joined(parts: Sequence[NDArray[np.uint8]], axis: int) -> NDArray[np.uint8]:
    """Join pictures along an axis, with a white gap after each."""
    shape = list(parts[0].shape)
    shape[axis] = GAP
    gap = np.full(shape, 255, np.uint8)
    return np.concatenate([piece for part in parts for piece in (part, gap)], axis=axis)


def pixels(address: str) -> NDArray[np.uint8]:
    """Decode a data address into pixels."""
    content = base64.b64decode(address.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
